package badger

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// childEnv names the directory for a child process, a re-execution of this
// binary. It opens the store and acks, one after the other, and writes a line
// for each that was confirmed.
const childEnv = "ACKMESH_OFFSETSTORE_TEST_DIR"

// childNoSync makes the child leave out the sync, childBig write 50 KB with
// each ack.
const (
	childNoSync = "ACKMESH_OFFSETSTORE_TEST_NOSYNC"
	childBig    = "ACKMESH_OFFSETSTORE_TEST_BIG"
)

// runChild is the child's main; false when this is not the child.
func runChild() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	s, err := Open(dir, Options{Sizes: small, NoSync: os.Getenv(childNoSync) != ""})
	if err != nil {
		say("error: %v", err)
		os.Exit(1)
	}
	v, _, err := s.Get(benchKey(1))
	say("opened at %d, %v", v.Position, err)
	ackForEver(s, v.Position)
	return true
}

// say writes a line to the parent.
func say(format string, args ...any) {
	if _, err := fmt.Fprintf(os.Stdout, format+"\n", args...); err != nil {
		os.Exit(2) // it is gone
	}
}

// ackForEver acks one after the other: two keys and a record in each
// transaction, and a key that comes and goes.
func ackForEver(s *Store, position int64) {
	for {
		position++
		txn := ackOf(1, position)
		txn.Puts = append(txn.Puts, ackOf(2, position).Puts...)
		txn.Sets = []offsetstore.Record{{Space: "s", Key: "k", Value: fmt.Append(nil, position)}}
		if os.Getenv(childBig) != "" {
			txn.Sets = append(txn.Sets, offsetstore.Record{Space: "big", Key: fmt.Sprint(position % 20), Value: make([]byte, 50_000)})
		}
		if position%2 == 0 {
			txn.Puts = append(txn.Puts, ackOf(3, 1).Puts...)
		} else {
			txn.Deletes = []offsetstore.Key{benchKey(3)}
		}
		done := make(chan error, 1)
		s.Submit(txn, func(err error) { done <- err })
		if err := <-done; err != nil {
			say("error: %v", err)
			os.Exit(1)
		}
		say("acked %d", position)
	}
}

// child is such a process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func startChild(t *testing.T, dir string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 10_000)}
	c.cmd.Env = append(append(os.Environ(), childEnv+"="+dir), env...)
	c.cmd.Stderr = t.Output()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read(out)
	t.Cleanup(func() { // most have ended
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) read(out io.Reader) {
	defer close(c.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		c.lines <- s.Text()
	}
}

// next is the next line; "" when the process has ended.
func (c *child) next() string {
	c.t.Helper()
	select {
	case l := <-c.lines:
		return l
	case <-time.After(60 * time.Second):
		c.t.Fatal("the process says nothing")
	}
	return ""
}

// ackedTo reads on until an ack of at least n acks from here is confirmed, and
// returns its position.
func (c *child) ackedTo(n int) (position int64) {
	c.t.Helper()
	for n > 0 {
		l := c.next()
		switch {
		case strings.HasPrefix(l, "acked "):
			position = acked(c.t, l)
			n--
		case l == "" || strings.HasPrefix(l, "error"):
			c.t.Fatalf("the process says %q", l)
		}
	}
	return position
}

func acked(t *testing.T, line string) (position int64) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "acked %d", &position); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return position
}

// kill ends the process at once and returns the last ack that it confirmed.
func (c *child) kill(last int64) int64 {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	for l := range c.lines {
		if strings.HasPrefix(l, "acked ") && strings.Count(l, "") > len("acked ") {
			last = acked(c.t, l)
		}
	}
	_ = c.cmd.Wait() // killed
	return last
}

// holdsAcks holds a store to the acks of a child: those up to confirmed are
// there, whole, and at most one more.
func holdsAcks(t *testing.T, s *Store, confirmed int64) {
	t.Helper()
	one, _, err1 := s.Get(benchKey(1))
	two, _, err2 := s.Get(benchKey(2))
	_, three, err3 := s.Get(benchKey(3))
	record, _, err4 := s.GetRecord("s", "k")
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Fatalf("read: %v, %v, %v, %v", err1, err2, err3, err4)
	}
	p := one.Position
	if p < confirmed || p > confirmed+1 {
		t.Fatalf("position is %d, confirmed was %d", p, confirmed)
	}
	if two.Position != p || string(record) != fmt.Sprint(p) || three != (p%2 == 0) {
		t.Fatalf("half of a transaction: %d, %d, record %q, third key %v", p, two.Position, record, three)
	}
}

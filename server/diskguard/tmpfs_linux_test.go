package diskguard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ackmesh/ackmesh/offsetstore/badger"
)

// mountTmpfs mounts a filesystem of a size in MiB for the test.
func mountTmpfs(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("cannot mount a tmpfs: %v; run this test as root, in a container with --cap-add SYS_ADMIN", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// acker is a child process that acks.
type acker struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan line
}

func startAcker(t *testing.T, dir string) *acker {
	t.Helper()
	a := &acker{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan line, 100)}
	a.cmd.Env = append(os.Environ(), childEnv+"="+dir)
	a.cmd.Stderr = t.Output()
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go a.read(out)
	t.Cleanup(func() { // it has ended, or the test failed
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	})
	return a
}

func (a *acker) read(out io.Reader) {
	defer close(a.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			l.Err = fmt.Sprintf("%s: %v", s.Bytes(), err)
		}
		a.lines <- l
	}
}

// ask asks for the state of things; an answer must come within 5 s.
func (a *acker) ask() line {
	a.t.Helper()
	if _, err := io.WriteString(a.in, "?\n"); err != nil {
		a.t.Fatalf("the process is gone: %v", err)
	}
	return a.next(5 * time.Second)
}

func (a *acker) next(within time.Duration) line {
	a.t.Helper()
	select {
	case l, ok := <-a.lines:
		if !ok {
			a.t.Fatalf("the process is gone: %v", a.cmd.Wait())
		}
		if l.Err != "" {
			a.t.Fatalf("the process reports: %s", l.Err)
		}
		return l
	case <-time.After(within):
		a.t.Fatalf("no answer within %v", within)
	}
	return line{}
}

// until asks until the answer is what it is to be.
func (a *acker) until(what string, ok func(line) bool) line {
	a.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		l := a.ask()
		if ok(l) {
			return l
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("not within 20 s: %s; the state is %+v", what, l)
		}
	}
}

// refused waits until acks and health tell that the disk is full.
func (a *acker) refused() {
	a.t.Helper()
	a.until("acks are refused", func(l line) bool { return l.Refused != "" && l.Health != "" })
}

// acking waits until acks are confirmed again.
func (a *acker) acking() {
	a.t.Helper()
	from := a.ask().Acked
	a.until("acks are confirmed", func(l line) bool { return l.Acked > from+1000 && l.Refused == "" && l.Health == "" })
}

// end ends the process cleanly and returns what it confirmed.
func (a *acker) end() map[string]int64 {
	a.t.Helper()
	if err := a.in.Close(); err != nil {
		a.t.Fatal(err)
	}
	l := a.next(15 * time.Second)
	if err := a.cmd.Wait(); err != nil {
		a.t.Fatalf("the process ended with %v", err)
	}
	return l.Confirmed
}

// fill writes a file until the filesystem takes no more.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// C54: a disk that others fill while acks go on: acks fail with a clear error,
// health tells it, the process lives, all heals when space is freed, it shuts
// down while full, and nothing confirmed is missing.
func TestC54_DiskFullRefusesAndHeals(t *testing.T) {
	for _, mib := range []int{32, 64} {
		t.Run(fmt.Sprint(mib, "MiB"), func(t *testing.T) {
			dir := mountTmpfs(t, mib)
			a := startAcker(t, dir)
			for range 5 {
				a.acking()
				free := fill(t, dir)
				a.refused()
				free()
			}
			a.acking()
			free := fill(t, dir)
			a.refused()
			confirmed := a.end()
			hasConfirmed(t, dir, confirmed, free)
		})
	}
}

// TestStartOnFullDisk: the process dies on a full disk, and starts on it: it
// refuses acks, and heals.
func TestStartOnFullDisk(t *testing.T) {
	dir := mountTmpfs(t, 32)
	a := startAcker(t, dir)
	a.acking()
	free := fill(t, dir)
	a.refused()
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait() // killed
	again := startAcker(t, dir)
	again.refused()
	free()
	again.acking()
	hasConfirmed(t, dir, again.end(), func() {})
}

// TestStartWithoutRoom: where the ballast is gone too, the error says what to
// do, and the next start with room finds all.
func TestStartWithoutRoom(t *testing.T) {
	dir := mountTmpfs(t, 32)
	a := startAcker(t, dir)
	a.acking()
	confirmed := a.end()
	if err := os.Remove(filepath.Join(dir, BallastFile)); err != nil {
		t.Fatal(err)
	}
	free := fill(t, dir)
	g, err := New(Options{Dir: dir, Margin: 6 << 20, Ballast: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(filepath.Join(dir, "offsets"), badger.Options{Room: g.Room}); !errors.Is(err, ErrFull) {
		t.Fatalf("open without room: %v", err)
	}
	free()
	hasConfirmed(t, dir, confirmed, func() {})
}

// hasConfirmed opens the store, frees the disk and compares.
func hasConfirmed(t *testing.T, dir string, confirmed map[string]int64, free func()) {
	t.Helper()
	if len(confirmed) < childKeys/2 {
		t.Fatalf("only %d keys were confirmed", len(confirmed))
	}
	free()
	s, err := badger.Open(filepath.Join(dir, "offsets"), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, position := range confirmed {
		v, ok, err := s.Get(keyOf(name))
		if err != nil || !ok || v.Position < position {
			t.Errorf("key %s has position %d (%v, %v), confirmed was %d", name, v.Position, ok, err, position)
		}
	}
}

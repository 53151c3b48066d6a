package badger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// C24: the process is killed at a random ack, 50 times: everything confirmed
// is there, at once and in a copy of the directory, and the store opens.
func TestC24_KillLosesNothingConfirmed(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 24))
	dir := filepath.Join(t.TempDir(), "offsets")
	for round := range 50 {
		c := startChild(t, dir)
		confirmed := c.kill(c.ackedTo(1 + r.IntN(100)))
		if round%10 == 0 {
			to := filepath.Join(t.TempDir(), "offsets")
			copyDir(t, dir, to)
			checkAcks(t, to, confirmed)
		}
		checkAcks(t, dir, confirmed)
	}
}

// checkAcks opens a directory and holds it to a child's acks.
func checkAcks(t *testing.T, dir string, confirmed int64) {
	t.Helper()
	s, err := Open(dir, Options{Sizes: small, Logger: testLogger(t)})
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	defer mustClose(t, s)
	holdsAcks(t, s, confirmed)
}

// C70: a second process is refused at once, and told the path and the cause;
// after a kill the directory is free, 20 times.
func TestC70_SecondProcessIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "offsets")
	for range 20 {
		c := startChild(t, dir)
		c.ackedTo(1)
		second := startChild(t, dir)
		l := second.next()
		for _, want := range []string{dir, offsetstore.ErrLocked.Error(), fmt.Sprint("process ", c.cmd.Process.Pid)} {
			if !strings.HasPrefix(l, "error") || !strings.Contains(l, want) {
				t.Fatalf("the second process says %q, want it to tell %q", l, want)
			}
		}
		if err := second.cmd.Wait(); err == nil {
			t.Fatal("the second process ends as if all was well")
		}
		c.kill(0)
	}
}

// TestBadgersOwnLock: a tool of Badger's has the database open.
func TestBadgersOwnLock(t *testing.T) {
	p := filled(t)
	f, err := os.Open(filepath.Join(p.dir, dbDir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(); !errors.Is(err, offsetstore.ErrLocked) || !strings.Contains(err.Error(), p.dir) {
		t.Fatalf("open: %v, want ErrLocked with the path", err)
	}
}

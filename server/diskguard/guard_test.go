package diskguard

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// disk is a filesystem with free space on demand. The ballast takes its size
// while the file is there.
type disk struct {
	dir      string
	free     atomic.Int64
	inodes   atomic.Int64
	ballast  int64
	measured atomic.Int64

	mu  sync.Mutex
	err error
}

func newDisk(t *testing.T, free, ballast int64) *disk {
	d := &disk{dir: t.TempDir(), ballast: ballast}
	d.free.Store(free)
	d.inodes.Store(-1)
	return d
}

func (d *disk) usage(string) (Usage, error) {
	d.measured.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	u := Usage{Free: d.free.Load(), Total: 1 << 40, Inodes: d.inodes.Load()}
	if d.ballastExists() {
		u.Free -= d.ballast
	}
	return u, d.err
}

func (d *disk) ballastExists() bool {
	_, err := os.Stat(filepath.Join(d.dir, BallastFile))
	return err == nil
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *disk) guard(t *testing.T, margin int64) *Guard {
	t.Helper()
	g, err := New(Options{Dir: d.dir, Margin: margin, Ballast: d.ballast, Usage: d.usage})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refused holds what Measure says.
func refused(t *testing.T, g *Guard, want bool) {
	t.Helper()
	if err := g.Measure(); (err != nil) != want || (want && !errors.Is(err, ErrFull)) {
		t.Fatalf("measured: %v, want refused %v", err, want)
	}
}

func TestHysteresis(t *testing.T) {
	d := newDisk(t, 1000, 0)
	g := d.guard(t, 400)
	for _, c := range []struct {
		free    int64
		refused bool
	}{{1000, false}, {400, false}, {399, true}, {400, true}, {499, true}, {500, false}, {401, false}, {0, true}, {600, false}} {
		d.free.Store(c.free)
		refused(t, g, c.refused)
	}
}

func TestInodes(t *testing.T) {
	d := newDisk(t, 1000, 0)
	g := d.guard(t, 400)
	d.inodes.Store(minInodes - 1)
	refused(t, g, true)
	d.inodes.Store(minInodes)
	refused(t, g, false)
}

// TestUnmeasurable: what cannot be measured is no room.
func TestUnmeasurable(t *testing.T) {
	d := newDisk(t, 1000, 0)
	g := d.guard(t, 400)
	gone := errors.New("directory is gone")
	d.fail(gone)
	if err := g.Measure(); !errors.Is(err, gone) || errors.Is(err, ErrFull) {
		t.Fatalf("measured: %v", err)
	}
	if err := g.Room(1); !errors.Is(err, gone) {
		t.Fatalf("room: %v", err)
	}
	d.fail(nil)
	refused(t, g, false)
	if _, err := New(Options{Dir: filepath.Join(d.dir, "none"), Margin: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("guard of a directory that is not there: %v", err)
	}
}

// TestCheckIsCheap: checks within a millisecond share a measurement, later ones do not
// rely on it.
func TestCheckIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t, 1000, 0)
		g := d.guard(t, 400)
		before := d.measured.Load()
		for range 1000 {
			if err := g.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if n := d.measured.Load() - before; n > 0 {
			t.Fatalf("1000 checks measured %d times", n)
		}
		d.free.Store(10)
		<-time.After(fresh + 1) // fake time
		if err := g.Check(); !errors.Is(err, ErrFull) {
			t.Fatalf("check: %v", err)
		}
	})
}

func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t, 1000, 0)
		g := d.guard(t, 400)
		var told []bool
		cancel := g.Subscribe(func(err error) { told = append(told, err == nil) })
		g.Start()
		<-time.After(time.Second) // fake time
		d.free.Store(10)
		<-time.After(time.Second)
		d.free.Store(1000)
		refused(t, g, false)
		synctest.Wait() // told at once, whoever measured
		if len(told) != 2 || told[0] || !told[1] {
			t.Fatalf("told %v, want refused and then not", told)
		}
		cancel()
		d.free.Store(10)
		<-time.After(time.Second)
		g.Stop()
		g.Stop()
		if len(told) != 2 {
			t.Fatalf("told %v after cancel", told)
		}
		if err := g.Check(); err == nil {
			t.Fatal("a stopped guard does not check")
		}
	})
}

func TestStopWithoutStart(t *testing.T) {
	g := newDisk(t, 1000, 0).guard(t, 400)
	g.Stop()
}

func TestBallast(t *testing.T) {
	d := newDisk(t, 2000, 300)
	g := d.guard(t, 400)
	if !d.ballastExists() {
		t.Fatal("no ballast was made")
	}
	if err := g.Room(1700); err != nil || !d.ballastExists() {
		t.Fatalf("room that is there: %v, ballast %v", err, d.ballastExists())
	}
	d.free.Store(350) // of it the ballast has 300
	refused(t, g, true)
	if err := g.Room(351); !errors.Is(err, ErrFull) {
		t.Fatalf("room that is not there: %v", err)
	}
	if d.ballastExists() {
		t.Fatal("the ballast was not released")
	}
	if err := g.Room(350); err != nil {
		t.Fatalf("room of the ballast: %v", err)
	}
	// Its release opens nothing; nor does space that it would take again.
	d.free.Store(799)
	refused(t, g, true)
	g.refill()
	if d.ballastExists() {
		t.Fatal("the ballast took space that is needed")
	}
	d.free.Store(800)
	refused(t, g, false)
	g.refill()
	if !d.ballastExists() {
		t.Fatal("the ballast was not made anew")
	}
	refused(t, g, false)
	// The next start finds it.
	if again := d.guard(t, 400); !again.ballast {
		t.Fatal("the ballast was not found again")
	}
}

// TestBallastComplaint: a ballast that cannot be made though there is room, as with
// a quota, is told once, not with each look.
func TestBallastComplaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t, 1000, 10)
		d.dir = filepath.Join(d.dir, "nowhere")
		var log bytes.Buffer
		g, err := New(Options{Dir: d.dir, Margin: 100, Ballast: d.ballast, Usage: d.usage, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		g.Start()
		<-time.After(time.Minute)
		g.Stop()
		if n := strings.Count(log.String(), "cannot make the ballast"); n != 1 {
			t.Errorf("told %d times in a minute", n)
		}
	})
}

func TestBallastTakesItsSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), BallastFile)
	if ballastIsWhole(path, 1<<20) {
		t.Fatal("a ballast that is not there is whole")
	}
	if err := makeBallast(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if !ballastIsWhole(path, 1<<20) || ballastIsWhole(path, 2<<20) {
		t.Fatal("a ballast of 1 MiB is not one, or is one of 2 MiB")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	if ballastIsWhole(path, 1<<20) {
		t.Fatal("a hole is taken for a ballast")
	}
	if err := writeZeros(f, 3<<19); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if !ballastIsWhole(path, 1<<20) {
		t.Fatal("written zeros are not taken for a ballast")
	}
}

func TestStatfs(t *testing.T) {
	u, err := Statfs(t.TempDir())
	if err != nil || u.Total <= 0 || u.Free <= 0 || u.Free > u.Total {
		t.Fatalf("usage %+v, error %v", u, err)
	}
}

func TestMessageTellsWhatToDo(t *testing.T) {
	d := newDisk(t, 3<<20, 0)
	err := d.guard(t, 8<<20).Check()
	for _, want := range []string{d.dir, "3.0 MiB free", "10.0 MiB", "free some space"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("message %q does not tell %q", err, want)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	g, err := New(Options{Dir: b.TempDir(), Margin: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := g.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

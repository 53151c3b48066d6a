package badger

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// diskUse is how much space the files of a directory have.
func diskUse(t testing.TB, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		n += st.Blocks * 512
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// overwrite commits n times, 1,024 at a time, over a hundred keys.
func overwrite(t testing.TB, s *Store, n int) {
	t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 1024)
	for i := range n {
		slots <- struct{}{}
		wg.Add(1)
		s.Submit(ackOf(rand.IntN(100), int64(i)), func(err error) {
			if err != nil {
				t.Errorf("commit: %v", err)
			}
			<-slots
			wg.Done()
		})
	}
	wg.Wait()
}

// TestDiskUseIsBounded: values that are overwritten do not pile up.
func TestDiskUseIsBounded(t *testing.T) {
	p := newPlace(t)
	s := mustOpen(t, p)
	var uses []int64
	for range 4 {
		overwrite(t, s, 50_000)
		uses = append(uses, diskUse(t, p.dir)/mib)
	}
	t.Logf("MiB on disk after each 50,000 commits: %v", uses)
	if last, limit := uses[len(uses)-1], int64(20); last > limit {
		t.Errorf("%d MiB are in use, at most %d are to be", last, limit)
	}
}

// BenchmarkDiskUse tells what is on disk after b.N commits over a hundred keys.
func BenchmarkDiskUse(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	overwrite(b, s, b.N)
	b.ReportMetric(float64(diskUse(b, dir))/mib, "disk-MiB")
	b.ReportMetric(resident(b), "process-MiB")
}

// BenchmarkMemory tells what an empty store and one of 40,000 keys take.
func BenchmarkMemory(b *testing.B) {
	before := resident(b)
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	empty, heap := resident(b), heapMiB()
	for i := 0; i < 40_000; i += 100 {
		txn := &offsetstore.Txn{}
		for j := i; j < i+100; j++ {
			k := benchKey(j % 40)
			k.Subscriber.Name = "client-" + strconv.Itoa(j)
			txn.Puts = append(txn.Puts, offsetstore.Put{Key: k, Value: offsetstore.Value{Epoch: 1, Position: int64(j)}})
		}
		if err := offsetstore.Commit(b.Context(), s, txn); err != nil {
			b.Fatal(err)
		}
	}
	perKey := (heapMiB() - heap) * mib / 40_000
	for b.Loop() {
		if _, _, err := s.Get(benchKey(1)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(before, "process-MiB")
	b.ReportMetric(empty-before, "empty-store-MiB")
	b.ReportMetric(perKey, "bytes/key")
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / mib
}

// resident is the memory of the process in MiB, garbage given back.
func resident(b *testing.B) float64 {
	b.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / mib
}

// TestRefusalIsReadOnly: what the guard refuses is ErrReadOnly with its cause.
func TestRefusalIsReadOnly(t *testing.T) {
	p := newPlace(t)
	s := mustOpen(t, p)
	full := errors.New("disk is full")
	p.Fail(full)
	for what, err := range map[string]error{
		"commit": offsetstore.Commit(t.Context(), s, ackOf(1, 1)),
		"health": s.Healthy(),
	} {
		if !errors.Is(err, offsetstore.ErrReadOnly) || !errors.Is(err, full) || !strings.Contains(err.Error(), p.dir) {
			t.Errorf("%s: %v, want ErrReadOnly with cause and path", what, err)
		}
	}
	p.Fail(nil)
	mustCommit(t, s, ackOf(1, 1))
}

// TestNoRoomToOpenOrClose: both are refused with the cause; a close without
// room loses nothing.
func TestNoRoomToOpenOrClose(t *testing.T) {
	p := newPlace(t)
	full := errors.New("disk is full")
	var room error
	p.opt.Room = func(need int64) error {
		if need != small.Needs() {
			t.Errorf("asked for %d bytes, want %d", need, small.Needs())
		}
		return room
	}
	room = full
	if _, err := p.Open(); !errors.Is(err, offsetstore.ErrReadOnly) || !errors.Is(err, full) {
		t.Fatalf("open: %v, want ErrReadOnly with its cause", err)
	}
	room = nil
	s, err := Open(p.dir, p.opt)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, ackOf(1, 7))
	room = full
	if err := s.Close(); !errors.Is(err, full) || !errors.Is(err, errUnflushed) {
		t.Fatalf("close: %v, want that it is not flushed", err)
	}
	room = nil
	defer s.space.End()
	defer s.db.Close() // what the end of the process does
	to := filepath.Join(t.TempDir(), "offsets")
	copyDir(t, p.dir, to)
	p.dir = to
	again := mustOpen(t, p)
	if v, ok, err := again.Get(benchKey(1)); err != nil || !ok || v.Position != 7 {
		t.Fatalf("position is %d (%v, %v), want 7", v.Position, ok, err)
	}
}

// TestBrokenStaysReadOnly: after a commit that Badger failed, nothing is
// written or read of it; opening again mends it.
func TestBrokenStaysReadOnly(t *testing.T) {
	p := newPlace(t)
	s := mustOpen(t, p)
	mustCommit(t, s, ackOf(1, 1))
	if err := s.db.Close(); err != nil { // every commit fails now
		t.Fatal(err)
	}
	for range 2 {
		if err := offsetstore.Commit(t.Context(), s, ackOf(1, 2)); !errors.Is(err, offsetstore.ErrReadOnly) {
			t.Fatalf("commit: %v, want ErrReadOnly", err)
		}
	}
	if _, _, err := s.GetRecord("s", "k"); !errors.Is(err, offsetstore.ErrReadOnly) {
		t.Fatalf("read of a record: %v, want ErrReadOnly", err)
	}
	if v, _, err := s.Get(benchKey(1)); err != nil || v.Position != 1 {
		t.Fatalf("position is %d (%v), want the durable one, 1", v.Position, err)
	}
	mustClose(t, s)
	s = mustOpen(t, p)
	mustCommit(t, s, ackOf(1, 2))
}

// TestObserve: each commit is told, with what was in it.
func TestObserve(t *testing.T) {
	p := newPlace(t)
	var seen []Commit
	p.opt.Observe = func(c Commit) { seen = append(seen, c) }
	s := mustOpen(t, p)
	release := p.Hold()
	s.Submit(ackOf(1, 1), func(error) {}) // the others wait for it
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Add(1)
		s.Submit(ackOf(i%2, int64(i)), func(error) { wg.Done() })
	}
	release()
	wg.Wait()
	mustClose(t, s)
	transactions, writes := 0, 0
	for _, c := range seen {
		transactions += c.Transactions
		writes += c.Writes
		if c.Err != nil || c.Took <= 0 || c.Bytes <= 0 {
			t.Errorf("told of %+v", c)
		}
	}
	if transactions != 11 || len(seen) > 2 || writes > 4 {
		t.Errorf("told of %d commits, %d transactions, %d writes; want at most 2, 11, 4", len(seen), transactions, writes)
	}
}

// TestCommitsWaitForFlushes: with too many logs in use commits are refused
// instead of waiting inside Badger.
func TestCommitsWaitForFlushes(t *testing.T) {
	p := newPlace(t)
	s := mustOpen(t, p)
	mustCommit(t, s, ackOf(1, 1))
	mustClose(t, s)
	s = mustOpen(t, p)
	last := s.wal.last
	for n := last + 1; n <= last+maxLogs; n++ { // as if none was flushed
		if err := os.WriteFile(walPath(s.path(), n), []byte("x"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s.wal.last += maxLogs
	for range 2 {
		if err := offsetstore.Commit(t.Context(), s, ackOf(1, 2)); !errors.Is(err, offsetstore.ErrReadOnly) {
			t.Fatalf("commit: %v, want ErrReadOnly", err)
		}
	}
	for n := last + 1; n <= last+maxLogs; n++ {
		if err := os.Remove(walPath(s.path(), n)); err != nil {
			t.Fatal(err)
		}
	}
	s.wal.last, s.wal.spare = last, false
	mustCommit(t, s, ackOf(1, 2))
}

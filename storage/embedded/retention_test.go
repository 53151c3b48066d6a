package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// aged is a log whose clock the test moves and whose retention it calls.
type aged struct {
	*Log
	disk  *crashfs.FS
	opts  Options
	clock *atomic.Int64
}

func newAged(t *testing.T, o Options) *aged {
	a := &aged{disk: crashfs.New(), clock: new(atomic.Int64)}
	a.clock.Store(time.Hour.Milliseconds())
	o.Now = func() time.Time { return time.UnixMilli(a.clock.Load()) }
	o.RetentionInterval, o.CheckpointInterval, o.Partitions = -1, -1, 1
	a.opts = o
	a.open(t)
	return a
}

func (a *aged) open(t *testing.T) {
	t.Helper()
	a.opts.FS = a.disk
	a.Log = mustOpen(t, "/d", a.opts)
}

// crash loses power and opens again.
func (a *aged) crash(t *testing.T) {
	t.Helper()
	a.disk = a.disk.PowerLoss()
	a.open(t)
}

func (a *aged) wantBounds(t *testing.T, topic string, low, high int64) {
	t.Helper()
	gotLow, gotHigh, err := a.Bounds(t.Context(), topic, "0")
	if err != nil || gotLow != low || gotHigh != high {
		t.Fatalf("bounds of %s are %d..%d, %v, want %d..%d", topic, gotLow, gotHigh, err, low, high)
	}
	var re *storage.RangeError
	var b storage.Batch
	if err := a.Poll(t.Context(), storage.PollRequest{Topic: topic, Partition: "0", Start: low - 1}, &b); low > 0 && (!errors.As(err, &re) || re.Min != low || re.Max != high) {
		t.Fatalf("poll below the minimum: %v", err)
	}
}

func (a *aged) size() int64 {
	first, end := a.seg.Bounds()
	return end - first
}

func TestRetentionByAge(t *testing.T) {
	a := newAged(t, Options{Retention: time.Hour, SegmentSize: 4 << 10})
	for i := range 100 {
		mustAppend(t, a.Log, "t", kib(i))
		a.clock.Add(time.Minute.Milliseconds())
	}
	full := a.size()
	a.lookAtRetention()
	// The record of minute 40 is just one hour old.
	a.wantBounds(t, "t", 40, 100)
	if a.size() > full*7/10 {
		t.Errorf("%d of %d bytes are left", a.size(), full)
	}
	a.crash(t)
	a.wantBounds(t, "t", 40, 100)
	a.clock.Add(2 * time.Hour.Milliseconds())
	a.lookAtRetention()
	a.wantBounds(t, "t", 100, 100)
	a.crash(t)
	a.wantBounds(t, "t", 100, 100)
	if r := mustAppend(t, a.Log, "t", kib(0)); r[0].Offset != 100 {
		t.Errorf("an empty partition goes on at %d, want 100", r[0].Offset)
	}
	if at, err := a.OffsetByTime(t.Context(), "t", "0", time.UnixMilli(0), storage.Nearest); err != nil || at != 100 {
		t.Errorf("offset by time: %d, %v", at, err)
	}
}

// When the log is opened, retention has been looked at.
func TestRetentionAtOpen(t *testing.T) {
	a := newAged(t, Options{Retention: time.Hour, SegmentSize: 4 << 10})
	for i := range 20 {
		mustAppend(t, a.Log, "t", kib(i))
	}
	a.clock.Add(2 * time.Hour.Milliseconds())
	a.crash(t)
	a.wantBounds(t, "t", 20, 20)
	if n := len(a.seg.Segments()); n != 1 {
		t.Errorf("%d segments are left", n)
	}
}

func TestRetentionBySize(t *testing.T) {
	var dropped, size atomic.Int64
	a := newAged(t, Options{MaxBytes: 64 << 10, SegmentSize: 8 << 10, Observe: Observe{
		Dropped: func(n int64) { dropped.Add(n) }, Size: size.Store,
	}})
	for i := range 200 {
		mustAppend(t, a.Log, fmt.Sprint("t", i%2), kib(i))
	}
	full := a.size()
	a.lookAtRetention()
	if n := a.size(); n > 64<<10 || n < 48<<10 || dropped.Load() != full-n || size.Load() != n {
		t.Errorf("%d bytes are left of %d, counted %d and %d", n, full, dropped.Load(), size.Load())
	}
	for _, topic := range []string{"t0", "t1"} {
		low, high, err := a.Bounds(t.Context(), topic, "0")
		if err != nil || high != 100 || low < 65 || low > 75 {
			t.Errorf("bounds of %s: %d..%d, %v", topic, low, high, err)
		}
		if got := readAll(t, a.Log, topic, "0", low); int64(len(got)) != high-low {
			t.Errorf("%s has %d records from %d on", topic, len(got), low)
		}
		a.wantBounds(t, topic, low, high)
	}
	files, err := a.disk.List("/d/log")
	if err != nil {
		t.Fatal(err)
	}
	if want := 2*len(a.seg.Segments()) + 1; len(files) > want {
		t.Errorf("%d files are left of %d segments: %v", len(files), len(a.seg.Segments()), files)
	}
}

// A topic's own shorter retention moves its minimum alone; the space goes when
// nobody else's records lie there.
func TestRetentionOfTopic(t *testing.T) {
	a := newAged(t, Options{Retention: 10 * time.Hour, SegmentSize: 4 << 10})
	for name, cfg := range map[string]storage.TopicConfig{
		"short": {Retention: time.Minute}, "long": {Retention: 100 * time.Hour}, "plain": {},
	} {
		if _, err := a.CreateTopic(t.Context(), name, cfg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		for _, name := range []string{"short", "long", "plain"} {
			mustAppend(t, a.Log, name, kib(i))
		}
	}
	full := a.size()
	a.clock.Add(time.Hour.Milliseconds())
	mustAppend(t, a.Log, "short", kib(20))
	a.lookAtRetention()
	for range 2 {
		a.wantBounds(t, "short", 20, 21)
		a.wantBounds(t, "long", 0, 20)
		a.wantBounds(t, "plain", 0, 20)
		a.crash(t)
	}
	if a.size() < full {
		t.Error("segments with live records were dropped")
	}
	a.clock.Add(10 * time.Hour.Milliseconds())
	a.lookAtRetention()
	a.wantBounds(t, "long", 20, 20)
	if a.size() > full/4 {
		t.Errorf("%d of %d bytes are left", a.size(), full)
	}
}

// What was trimmed, and what belonged to a deleted topic, gives its space back.
func TestTrimAndDeleteFreeSpace(t *testing.T) {
	a := newAged(t, Options{SegmentSize: 4 << 10})
	for i := range 40 {
		mustAppend(t, a.Log, "a", kib(i))
		mustAppend(t, a.Log, "b", kib(i))
	}
	full := a.size()
	if err := a.Trim(t.Context(), "a", "0", 40); err != nil {
		t.Fatal(err)
	}
	a.lookAtRetention()
	if a.size() != full {
		t.Error("segments with live records were dropped")
	}
	if err := a.DeleteTopic(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	a.lookAtRetention()
	if a.size() > 8<<10 {
		t.Errorf("%d of %d bytes are left", a.size(), full)
	}
	a.crash(t)
	a.wantBounds(t, "a", 40, 40)
}

// A record that retention takes away while a reader is at it is out of range
// for it, not damaged.
func TestRetentionUnderReaders(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{MaxBytes: 1 << 20, SegmentSize: 64 << 10, TailBytes: 1, Partitions: 1, RetentionInterval: time.Millisecond, NoSync: true})
	mustAppend(t, l, "t", kib(0))
	stop := make(chan struct{})
	read := make(chan error, 1)
	go func() {
		var b storage.Batch
		var re *storage.RangeError
		at := int64(0)
		for {
			err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: at, MaxRecords: 100}, &b)
			switch {
			case errors.As(err, &re):
				at = re.Min
			case err != nil:
				read <- err
				return
			default:
				at = max(0, b.Next-500)
			}
			select {
			case <-stop:
				read <- nil
				return
			default:
			}
		}
	}()
	for i := range 5000 {
		mustAppend(t, l, "t", kib(i))
	}
	close(stop)
	if err := <-read; err != nil {
		t.Error(err)
	}
	if low, _, err := l.Bounds(t.Context(), "t", "0"); err != nil || low == 0 {
		t.Errorf("minimum %d, %v", low, err)
	}
}

// A clock that runs back moves no stamp back.
func TestStampsNeverRunBack(t *testing.T) {
	a := newAged(t, Options{})
	mustAppend(t, a.Log, "t", kib(0))
	first := a.clock.Load()
	a.clock.Add(-60_000)
	mustAppend(t, a.Log, "t", kib(1))
	a.crash(t)
	mustAppend(t, a.Log, "t", kib(2))
	for _, r := range readAll(t, a.Log, "t", "0", 0) {
		if r.Time != first {
			t.Errorf("record %d is stamped %d, want %d", r.Offset, r.Time, first)
		}
	}
}

// Segments that somebody removed by hand are told as a higher minimum, not
// passed over.
func TestRemovedSegmentsMoveMinimum(t *testing.T) {
	a := newAged(t, Options{SegmentSize: 4 << 10})
	for i := range 20 {
		mustAppend(t, a.Log, "t", kib(i))
	}
	mustClose(t, a.Log)
	if err := a.disk.Remove("/d/log/000000000001.seg"); err != nil {
		t.Fatal(err)
	}
	a.open(t)
	a.wantBounds(t, "t", 3, 20)
}

// A clock that is set ahead, for a moment or for good, costs no record that is
// not as old as it says.
func TestRetentionWhenTheClockIsSetAhead(t *testing.T) {
	const day = 24 * time.Hour
	for _, back := range []bool{false, true} {
		var ran atomic.Int64
		a := newAged(t, Options{Retention: 2 * day, Elapsed: func() time.Duration { return time.Duration(ran.Load()) }})
		pass := func(d time.Duration) {
			ran.Add(int64(d))
			a.clock.Add(d.Milliseconds())
			a.lookAtRetention()
		}
		if _, err := a.CreateTopic(t.Context(), "short", storage.TopicConfig{Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"short", "t"} {
			mustAppend(t, a.Log, topic, kib(0))
		}
		pass(time.Minute)
		a.clock.Add((365 * day).Milliseconds())
		pass(time.Minute)
		if back {
			a.clock.Add((-365 * day).Milliseconds())
			pass(time.Minute)
		}
		a.wantBounds(t, "short", 0, 1)
		a.wantBounds(t, "t", 0, 1)
		pass(2 * time.Hour)
		a.wantBounds(t, "short", 1, 1)
		a.wantBounds(t, "t", 0, 1)
		pass(day)
		a.wantBounds(t, "t", 0, 1)
		mustAppend(t, a.Log, "t", kib(1))
		pass(day)
		a.wantBounds(t, "t", 1, 2)
	}
}

package embedded

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// slowRemove is a file system whose first removal of a segment tells that it
// is there and waits.
type slowRemove struct {
	vfs.FS
	here, goOn chan struct{}
	waited     atomic.Bool
}

func (f *slowRemove) Remove(name string) error {
	if strings.HasSuffix(name, ".seg") && !f.waited.Swap(true) {
		close(f.here)
		<-f.goOn
	}
	return f.FS.Remove(name)
}

// A record that is synced and not readable yet stays, though all before it has
// expired and the log goes on to the next segment while space is freed.
func TestRetentionLeavesWhatIsBeingWritten(t *testing.T) {
	disk := &slowRemove{FS: crashfs.New(), here: make(chan struct{}), goOn: make(chan struct{})}
	var clock atomic.Int64
	clock.Store(time.Hour.Milliseconds())
	var l *Log
	var armed atomic.Bool
	var dropped atomic.Int64
	ended := make(chan struct{})
	l = mustOpen(t, "/d", Options{
		FS: disk, SegmentSize: 4 << 10, Partitions: 1, TailBytes: 1, Retention: time.Minute, RetentionInterval: -1,
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
		Observe: Observe{Commit: func(time.Duration, int, int) {
			if !armed.Swap(false) {
				return
			}
			go func() {
				defer close(ended)
				l.lookAtRetention()
			}()
			<-disk.here
		}, Dropped: func(n int64) { dropped.Add(min(n, 0)) }},
	})
	for i := range 11 { // three to a segment
		mustAppend(t, l, "t", kib(i))
	}
	clock.Add(time.Hour.Milliseconds())
	armed.Store(true)
	mustAppend(t, l, "t", kib(11)) // the last of its segment
	mustAppend(t, l, "t", kib(12))
	mustAppend(t, l, "t", []storage.Event{{Frame: make([]byte, 64<<10)}})
	if n := len(l.seg.Segments()); n != 6 {
		t.Fatalf("%d segments, want 6: the test does not show what it is to", n)
	}
	close(disk.goOn)
	<-ended
	got := readAll(t, l, "t", "0", 11)
	if len(got) != 3 || got[0].Offset != 11 {
		t.Errorf("%d records from 11 on", len(got))
	}
	if n := dropped.Load(); n < 0 {
		t.Errorf("%d bytes were dropped", n)
	}
	l.lookAtRetention()
	if n := len(l.seg.Segments()); n != 3 {
		t.Errorf("%d segments are left, want 3", n)
	}
}

// noSize is a file system that does not tell how large it is, as some in user
// space do not.
type noSize struct{ vfs.FS }

func (noSize) Space(string) (total, free int64, err error) { return 0, 0, nil }

// Of a file system without a size nothing follows for how large a log may grow.
func TestRetentionWithoutASize(t *testing.T) {
	o := Options{FS: noSize{crashfs.New()}, Partitions: 1, RetentionInterval: -1}
	l := mustOpen(t, "/d", o)
	for i := range 8 {
		mustAppend(t, l, "t", []storage.Event{{Frame: bytes.Repeat([]byte{byte(i)}, 1<<20)}})
	}
	l.lookAtRetention()
	if low, high, err := l.Bounds(t.Context(), "t", "0"); err != nil || low != 0 || high != 8 {
		t.Errorf("bounds %d..%d, %v", low, high, err)
	}
}

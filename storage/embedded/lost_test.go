package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// stopped is the disk of a log of one topic and partition that was closed, and
// its records.
func stopped(t *testing.T, o Options, appends int) (*crashfs.FS, map[string][]storage.Record) {
	t.Helper()
	disk := crashfs.New()
	o.FS, o.Partitions = disk, 1
	l := mustOpen(t, "/d", o)
	for i := range appends {
		mustAppend(t, l, "t", events("k", 2*i, 2))
	}
	want := map[string][]storage.Record{"0": readAll(t, l, "t", "0", 0)}
	mustClose(t, l)
	return disk, want
}

// Whatever byte of the directory has changed since an orderly stop, of the last
// write too: it is refused, or told to who reads it, or does no harm. It is never
// taken for what a crash tore off.
func TestDamageSinceAStop(t *testing.T) {
	for _, appends := range []int{1, 2, 5, 9} {
		o := Options{SegmentSize: 400}
		disk, want := stopped(t, o, appends)
		names, err := disk.List("/d/log")
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			names[i] = "log/" + names[i]
		}
		for _, name := range append(names, "topics", "cursors", "FORMAT") {
			var size int
			if err := disk.Corrupt("/d/"+name, func(b []byte) []byte { size = len(b); return b }); err != nil {
				t.Fatal(err)
			}
			for at := range size {
				mask := byte(1) << (at % 8)
				o.FS, o.Logger = disk.Kill(), quiet
				if err := o.FS.(*crashfs.FS).Corrupt("/d/"+name, func(b []byte) []byte { b[at] ^= mask; return b }); err != nil {
					t.Fatal(err)
				}
				checkTold(t, o, fmt.Sprintf("%d appends, %s byte %d", appends, name, at), want["0"])
			}
		}
	}
}

func checkTold(t *testing.T, o Options, what string, want []storage.Record) {
	t.Helper()
	l, err := Open("/d", o)
	if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNewerFormat) {
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer l.Close()
	var b storage.Batch
	for at := 0; at < len(want); {
		err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: int64(at)}, &b)
		if errors.Is(err, storage.ErrCorrupt) {
			return
		}
		if err != nil || len(b.Records) == 0 {
			t.Fatalf("%s: %d of %d records, %v", what, at, len(want), err)
		}
		for _, r := range b.Records {
			if string(r.Frame) != string(want[at].Frame) || r.Offset != int64(at) {
				t.Fatalf("%s: record %d is %d, %q", what, at, r.Offset, r.Frame)
			}
			at++
		}
	}
}

// Segments that are missing at the end are no shorter log: an orderly stop has
// noted how far it goes. A start that is refused changes nothing, and who can do
// without the records removes the note.
func TestLostEnd(t *testing.T) {
	for _, lost := range []int{1, 2, 100} {
		o := Options{SegmentSize: 400, Logger: quiet}
		disk, _ := stopped(t, o, 9)
		o.FS = disk
		removeNewest(t, disk, lost+1) // the newest is prepared and empty
		left, err := disk.List("/d/log")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open("/d", o); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "/d/log") || !strings.Contains(err.Error(), "/d/cursors") {
			t.Errorf("%d segments are lost: %v", lost, err)
		}
		if now, err := disk.List("/d/log"); err != nil || len(now) != len(left) {
			t.Errorf("a refused start has changed %v to %v, %v", left, now, err)
		}
		if err := disk.Remove("/d/cursors"); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, mustOpen(t, "/d", o), "t", events("k", 0, 1))
	}
}

func removeNewest(t *testing.T, disk *crashfs.FS, n int) {
	t.Helper()
	names, err := disk.List("/d/log")
	if err != nil {
		t.Fatal(err)
	}
	for i := len(names) - 1; i >= 0 && n > 0; i-- {
		if strings.HasSuffix(names[i], ".seg") {
			n--
		}
		if err := disk.Remove("/d/log/" + names[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// While publishing goes on and nobody reads, what is confirmed is noted with
// each checkpoint, and again only when it has grown.
func TestEndIsNoted(t *testing.T) {
	disk := crashfs.New()
	o := Options{FS: disk, SegmentSize: 400, Partitions: 1, CheckpointInterval: -1, Logger: quiet}
	l := mustOpen(t, "/d", o)
	mustAppend(t, l, "t", events("k", 0, 9))
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.FS = disk.Kill()
	removeNewest(t, o.FS.(*crashfs.FS), 1)
	if _, err := Open("/d", o); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("without the newest segment: %v", err)
	}
}

// Without syncs a loss of power may take the end of the log, but not what was
// noted of it: that is warned of, and the log goes on. Only once.
func TestLostEndWithoutSync(t *testing.T) {
	o := Options{SegmentSize: 400, NoSync: true}
	disk, _ := stopped(t, o, 9)
	removeNewest(t, disk, 3)
	var log bytes.Buffer
	o = Options{FS: disk, SegmentSize: 400, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range 2 {
		log.Reset()
		l := mustOpen(t, "/d", o)
		if warned := strings.Contains(log.String(), "level=WARN"); warned != (i == 0) {
			t.Errorf("start %d logs %q", i, log.String())
		}
		mustClose(t, l)
	}
}

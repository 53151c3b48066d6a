package seglog

import (
	"encoding/binary"
	"testing"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// A sync that failed is not made up for by one that succeeds: what it was to
// write is clean for the system. After a restart the log relies on nothing of
// that kind, not on the header of a segment whose first Write failed, nor on a
// Write that it finds whole.
func TestFailedSyncBeforeARestart(t *testing.T) {
	for _, c := range []struct {
		what   string
		before int // Writes with success: of these two fill the first segment
		spoilt bool
		drop   bool
	}{
		{"the first segment's header", 0, false, false},
		{"a new segment's header", 2, false, false},
		{"a new segment's header, alone", 2, false, true},
		{"a Write found whole", 1, true, false},
		{"a new segment's Write found whole", 2, true, true},
	} {
		disk := newDisk(t)
		l := mustOpen(t, disk, 256)
		var want []string
		for range c.before {
			mustWrite(t, l, "before|0123456789012345678901234567890123456789")
			want = append(want, "before|0123456789012345678901234567890123456789")
		}
		name := ""
		disk.SetHook(func(op crashfs.Op) error {
			switch {
			case op.Kind == "write":
				name = op.Name
			case op.Kind == "sync" && op.Name == name:
				return crashfs.ErrInjected
			}
			return nil
		})
		b := batch("failed|0123456789012345678901234567890123456789")
		if _, err := l.Write(b); err == nil {
			t.Fatalf("%s: the Write succeeded", c.what)
		}
		if c.spoilt { // as if the process had ended before it could wipe
			unwipe(t, disk, name, b)
			want = append(want, "failed|0123456789012345678901234567890123456789")
		}
		disk.SetHook(nil)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, disk, 256)
		wantContent(t, l, want...)
		mustWrite(t, l, "after|1")
		want = append(want, "after|1")
		if c.drop {
			first, _ := l.Bounds()
			segs := l.Segments()
			if err := l.DropBefore(segs[len(segs)-1].Base); err != nil {
				t.Fatal(err)
			}
			if now, _ := l.Bounds(); now == first {
				t.Fatalf("%s: nothing was dropped", c.what)
			}
			want = want[c.before:]
		}
		wantContent(t, mustOpen(t, disk.PowerLoss(), 256), want...)
	}
}

// unwipe puts a Write at the end of a file back, which is not synced by that.
func unwipe(t *testing.T, disk *crashfs.FS, name string, b *Batch) {
	t.Helper()
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	h := make([]byte, headerLen)
	if _, err := f.ReadAt(h, 0); err != nil {
		t.Fatal(err)
	}
	e, err := Split(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	base := int64(binary.LittleEndian.Uint64(h[8:]))
	if _, err := f.WriteAt(b.Bytes(), e.Pos-base+headerLen); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err == nil {
		t.Fatal("it was synced")
	}
}

package seglog

import (
	"fmt"
	"testing"
)

// A file that somebody has removed already keeps none of the others.
func TestDropWhatIsGone(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 256)
	for i := range 12 {
		mustWrite(t, l, fmt.Sprintf("m%d|0123456789", i))
	}
	segs := l.Segments()
	if err := disk.Remove(l.opts.name(segs[0].Seq)); err != nil {
		t.Fatal(err)
	}
	if err := l.DropBefore(segs[2].Base); err != nil {
		t.Error(err)
	}
	if first, _ := l.Bounds(); first != segs[2].Base {
		t.Errorf("the log begins at %d, want %d", first, segs[2].Base)
	}
}

package embedded_test

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// clock is the real clock, moved ahead, or set for a moment.
type clock struct{ ahead, fixed atomic.Int64 }

func (c *clock) now() time.Time {
	if at := c.fixed.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func open(t storagetest.T, dir string, o embedded.Options) *embedded.Log {
	t.Helper()
	l, err := embedded.Open(dir, o)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	return l
}

// harness runs the suite; place gives the directory and file system of a case.
func harness(o embedded.Options, place func(t storagetest.T, o *embedded.Options) (dir string)) storagetest.Harness {
	clk := &clock{}
	o.Now, o.Logger, o.RetentionInterval = clk.now, quiet, 5*time.Millisecond
	var dir string
	cur := o
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true,
			TopicID: true, AutoCreate: !o.NoAutoCreate, AnyName: true, DedupWindow: max(0, o.DedupWindow),
		},
		Open: func(t storagetest.T) storage.Backend {
			clk.ahead.Store(0)
			cur = o
			dir = place(t, &cur)
			return open(t, dir, cur)
		},
		Reopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			if err := b.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			return open(t, dir, cur)
		},
		AppendAt: func(t storagetest.T, b storage.Backend, topic string, frame []byte, at time.Time) {
			clk.fixed.Store(at.UnixMilli())
			defer clk.fixed.Store(0)
			if _, err := storage.AppendWait(t.Context(), b, topic, []storage.Event{{Frame: frame}}); err != nil {
				t.Fatalf("append at %v: %v", at, err)
			}
		},
		Advance: func(_ storagetest.T, _ storage.Backend, d time.Duration) { clk.ahead.Add(int64(d)) },
	}
}

// On a real disk, with the default sizes.
func TestConformance(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	o := embedded.Options{DedupWindow: 2 * time.Minute}
	storagetest.Run(t, harness(o, func(t storagetest.T, _ *embedded.Options) string {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatalf("directory: %v", err)
		}
		return dir
	}))
}

// With small segments and a small tail, so that most reads come from disk and
// over borders; a crash kills, loses power or tears.
func TestConformanceAfterCrashes(t *testing.T) {
	for name, crash := range map[string]func(*crashfs.FS) *crashfs.FS{
		"Kill":      (*crashfs.FS).Kill,
		"PowerLoss": (*crashfs.FS).PowerLoss,
		"Torn":      func(f *crashfs.FS) *crashfs.FS { return f.Torn(rand.IntN) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var disk *crashfs.FS
			o := embedded.Options{DedupWindow: 2 * time.Minute, SegmentSize: 4096, TailBytes: 1}
			if name == "Kill" {
				o.NoAutoCreate, o.DedupWindow = true, -1
			}
			var cur *embedded.Options
			h := harness(o, func(_ storagetest.T, o *embedded.Options) string {
				disk = crashfs.New()
				o.FS, cur = disk, o
				return "/data"
			})
			h.CrashReopen = func(t storagetest.T, b storage.Backend) storage.Backend {
				disk.Halt() // from now on it can report nothing as stored
				disk = crash(disk)
				t.Cleanup(func() {
					if err := b.Close(); err != nil && !errors.Is(err, crashfs.ErrHalted) {
						t.Errorf("close of the crashed log: %v", err)
					}
				})
				cur.FS = disk
				return open(t, "/data", *cur)
			}
			storagetest.Run(t, h)
		})
	}
}

package memory_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// testClock is the real clock, moved ahead, or set for a moment.
type testClock struct{ ahead, fixed atomic.Int64 }

func (c *testClock) now() time.Time {
	if at := c.fixed.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

// harness runs the suite on a memory log with these options.
func harness(opts memory.Options) storagetest.Harness {
	clock := &testClock{}
	opts.Clock = clock.now
	window := max(opts.DedupWindow, 0)
	if opts.DedupWindow == 0 {
		window = memory.DefaultDedupWindow
	}
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true, Liter: true,
			TopicID: true, AutoCreate: !opts.NoAutoCreate, AnyName: true, DedupWindow: window,
		},
		Open: func(storagetest.T) storage.Backend {
			clock.ahead.Store(0)
			return memory.New(opts)
		},
		Reopen: func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*memory.Backend).Reopen() },
		CrashReopen: func(_ storagetest.T, b storage.Backend) storage.Backend {
			return b.(*memory.Backend).Crash()
		},
		AppendAt: func(t storagetest.T, b storage.Backend, topic string, frame []byte, at time.Time) {
			clock.fixed.Store(at.UnixMilli())
			defer clock.fixed.Store(0)
			if _, err := storage.AppendWait(t.Context(), b, topic, []storage.Event{{Frame: frame}}); err != nil {
				t.Fatalf("append at %v: %v", at, err)
			}
		},
		Advance: func(_ storagetest.T, _ storage.Backend, d time.Duration) { clock.ahead.Add(int64(d)) },
	}
}

func TestConformance(t *testing.T) { storagetest.Run(t, harness(memory.Options{})) }

// Offsets with gaps, some of them large, and partitions named as by a broker
// of another kind.
func TestConformanceWithGaps(t *testing.T) {
	storagetest.Run(t, harness(memory.Options{
		NoAutoCreate:  true,
		DedupWindow:   -1,
		Gap:           func(_, _ string, offset int64) int64 { return offset % 5 * 1000 },
		PartitionName: func(i int) string { return fmt.Sprintf("broker-a:%d", i) },
	}))
}

// liteHarness runs the suite of lite topics on a memory log with these options.
func liteHarness(opts memory.Options) storagetest.LiteHarness {
	h := storagetest.LiteHarness{
		Open:        func(storagetest.T) storage.Backend { return memory.New(opts) },
		Reopen:      func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*memory.Backend).Reopen() },
		CrashReopen: func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*memory.Backend).Crash() },
		MakeTopic: func(t storagetest.T, b storage.Backend, topic string) {
			if _, err := b.(*memory.Backend).CreateTopic(t.Context(), topic, storage.TopicConfig{}); err != nil {
				t.Fatalf("make a topic: %v", err)
			}
		},
		DeleteParent: func(t storagetest.T, b storage.Backend, parent string) {
			if err := b.(*memory.Backend).DeleteTopic(t.Context(), parent); err != nil {
				t.Fatalf("delete a parent: %v", err)
			}
		},
	}
	if opts.NoAutoCreate {
		h.MakeParent = func(t storagetest.T, b storage.Backend, parent string) {
			if err := b.(*memory.Backend).CreateLiteParent(parent); err != nil {
				t.Fatalf("make a parent: %v", err)
			}
		}
	}
	return h
}

func TestLiteConformance(t *testing.T) { storagetest.RunLite(t, liteHarness(memory.Options{})) }

func TestLiteConformanceWithGaps(t *testing.T) {
	storagetest.RunLite(t, liteHarness(memory.Options{
		NoAutoCreate: true, DedupWindow: -1, Gap: func(_, _ string, offset int64) int64 { return offset % 5 * 1000 },
	}))
}

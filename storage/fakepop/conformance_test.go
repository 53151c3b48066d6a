package fakepop_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testClock is the real clock, moved ahead, or set for a moment.
type testClock struct{ ahead, fixed atomic.Int64 }

func (c *testClock) now() time.Time {
	if at := c.fixed.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

func harness() storagetest.Harness {
	clock := &testClock{}
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true, Acker: true, Liter: true,
			TopicID: true, AutoCreate: true, AnyName: true, DedupWindow: memory.DefaultDedupWindow,
		},
		Open: func(t storagetest.T) storage.Backend {
			clock.ahead.Store(0)
			br := fakepop.New(fakepop.Options{Clock: clock.now})
			t.Cleanup(func() { _ = br.Close() })
			return br.Open()
		},
		Reopen:      func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*fakepop.Backend).Reopen() },
		CrashReopen: func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*fakepop.Backend).Crash() },
		AppendAt: func(t storagetest.T, b storage.Backend, topic string, frame []byte, at time.Time) {
			clock.fixed.Store(at.UnixMilli())
			defer clock.fixed.Store(0)
			if _, err := storage.AppendWait(t.Context(), b, topic, []storage.Event{{Frame: frame}}); err != nil {
				t.Fatalf("append at %v: %v", at, err)
			}
		},
		Advance: func(_ storagetest.T, b storage.Backend, d time.Duration) {
			clock.ahead.Add(int64(d))
			b.(*fakepop.Backend).Broker().Wake()
		},
	}
}

func TestConformance(t *testing.T) { storagetest.Run(t, harness()) }

// popHarness runs the suite of a log that hands records out.
func popHarness() storagetest.PopHarness {
	clock := &testClock{}
	return storagetest.PopHarness{
		Open: func(t storagetest.T) storage.Backend {
			clock.ahead.Store(0)
			br := fakepop.New(fakepop.Options{Clock: clock.now})
			t.Cleanup(func() { _ = br.Close() })
			return br.Open()
		},
		Another:     func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*fakepop.Backend).Broker().Open() },
		CrashReopen: func(_ storagetest.T, b storage.Backend) storage.Backend { return b.(*fakepop.Backend).Crash() },
		Advance: func(_ storagetest.T, b storage.Backend, d time.Duration) {
			clock.ahead.Add(int64(d))
			b.(*fakepop.Backend).Broker().Wake()
		},
		Places: true, Ordered: true, Counts: true,
	}
}

func TestPopConformance(t *testing.T) { storagetest.RunPop(t, popHarness()) }

// bareClient is a client without the remoting port, which closes the real one.
type bareClient struct {
	storage.Backend
	b *fakepop.Backend
}

func (c bareClient) Close() error            { return c.b.Close() }
func (c bareClient) Unwrap() storage.Backend { return c.Backend }

// Without the remoting port.
func TestPopConformanceBare(t *testing.T) {
	h := popHarness()
	open := h.Open
	h.Places, h.Another, h.CrashReopen = false, nil, nil
	h.Open = func(t storagetest.T) storage.Backend {
		b := open(t).(*fakepop.Backend)
		return bareClient{b.Bare(), b}
	}
	h.MakeTopic = func(t storagetest.T, b storage.Backend, topic string, partitions int) {
		if _, err := b.(bareClient).b.CreateTopic(t.Context(), topic, storage.TopicConfig{Partitions: partitions}); err != nil {
			t.Fatalf("%v", err)
		}
	}
	advance := h.Advance
	h.Advance = func(t storagetest.T, b storage.Backend, d time.Duration) { advance(t, b.(bareClient).b, d) }
	storagetest.RunPop(t, h)
}

// Lite topics are read by position, beside the groups.
func TestLiteConformance(t *testing.T) {
	storagetest.RunLite(t, storagetest.LiteHarness{
		Open:        harness().Open,
		Reopen:      harness().Reopen,
		CrashReopen: harness().CrashReopen,
		MakeTopic: func(t storagetest.T, b storage.Backend, topic string) {
			if _, err := b.(*fakepop.Backend).CreateTopic(t.Context(), topic, storage.TopicConfig{}); err != nil {
				t.Fatalf("make a topic: %v", err)
			}
		},
	})
}

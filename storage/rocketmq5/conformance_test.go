package rocketmq5_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/fakeproxy"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a broker whose clock can be moved, and a proxy before it.
type rig struct {
	ahead atomic.Int64
	br    *fakepop.Broker
	proxy *fakeproxy.Proxy
	bare  bool
}

func newRig(t storagetest.T, bare bool, o fakeproxy.Options) *rig {
	r := &rig{bare: bare}
	r.br = fakepop.New(fakepop.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }})
	o.MakesGroups = bare
	r.proxy = fakeproxy.New(r.br, o)
	t.Cleanup(func() {
		r.proxy.Close()
		if err := r.br.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// open opens a log.
func (r *rig) open(t storagetest.T, o rocketmq5.Options) storage.Backend {
	o.Logger = slog.New(slog.DiscardHandler)
	port := r.br
	if r.bare {
		port = nil
	}
	b, err := rocketmq5.OpenFake(o, r.proxy.Dial, port)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b
}

// topic makes a topic.
func (r *rig) topic(t storagetest.T, name string, partitions int) {
	be := r.br.Open()
	defer be.Close()
	if _, err := be.CreateTopic(t.Context(), name, storage.TopicConfig{Partitions: partitions}); err != nil {
		t.Fatalf("topic: %v", err)
	}
}

// client is a log with its rig.
type client struct {
	storage.Backend
	rig *rig
}

func (c client) Unwrap() storage.Backend { return c.Backend }

func popHarness(bare bool, o fakeproxy.Options) storagetest.PopHarness {
	h := storagetest.PopHarness{
		Open: func(t storagetest.T) storage.Backend {
			r := newRig(t, bare, o)
			return client{r.open(t, rocketmq5.Options{}), r}
		},
		CrashReopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			c := b.(client)
			if err := c.Close(); err != nil { // its receipts stay as they are
				t.Errorf("close: %v", err)
			}
			return client{c.rig.open(t, rocketmq5.Options{}), c.rig}
		},
		MakeTopic: func(t storagetest.T, b storage.Backend, topic string, partitions int) {
			b.(client).rig.topic(t, topic, partitions)
		},
		Advance: func(_ storagetest.T, b storage.Backend, d time.Duration) {
			r := b.(client).rig
			r.ahead.Add(int64(d))
			r.br.Wake()
		},
		Places: !bare, Ordered: !bare, Counts: true, Parallel: true,
	}
	if !bare {
		h.Another = func(t storagetest.T, b storage.Backend) storage.Backend {
			r := b.(client).rig
			return client{r.open(t, rocketmq5.Options{}), r}
		}
	}
	return h
}

func TestPopConformance(t *testing.T) { storagetest.RunPop(t, popHarness(false, fakeproxy.Options{})) }

// Without the remoting port.
func TestPopConformanceBare(t *testing.T) {
	storagetest.RunPop(t, popHarness(true, fakeproxy.Options{}))
}

package servertest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	memstore "github.com/ackmesh/ackmesh/offsetstore/memory"
	"github.com/ackmesh/ackmesh/server/dispatch"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// pops is a broker that hands records out, and an instance on it that can die.
type pops struct {
	t     *testing.T
	br    *fakepop.Broker
	store *memstore.Store
	be    *fakepop.Backend
	in    *Instance
	opts  Options
	over  func(offsetstore.Store) offsetstore.Store // what is between the instance and the store; nil: nothing
}

// popping starts a broker whose topics have so many partitions, and an instance.
func popping(t *testing.T, partitions int, o ...fakepop.Options) *pops {
	t.Helper()
	opts := fakepop.Options{}
	if len(o) > 0 {
		opts = o[0]
	}
	opts.Partitions = partitions
	p := &pops{t: t, br: fakepop.New(opts), store: Store(t)}
	t.Cleanup(func() { _ = p.br.Close() })
	p.start()
	return p
}

// start connects a new instance to the broker.
func (p *pops) start() *Instance {
	p.t.Helper()
	be := p.br.Open()
	p.t.Cleanup(func() { _ = be.Close() })
	p.be = be
	o := p.opts
	o.Backend, o.Store = be, p.store
	if p.over != nil {
		o.Store = p.over(p.store)
	}
	p.in = Start(p.t, o)
	return p.in
}

// crash ends the instance as a killed process does: from one moment on nothing
// of it reaches the broker or the disk. The next one is not started.
func (p *pops) crash() {
	p.t.Helper()
	p.be.Cut()
	p.store.FailWrites(errors.New("the process is dead"))
	p.in.Stop()
	p.store.FailWrites(nil)
}

// group is the group of a client's subscriber on topic t.
func group(client string) string {
	return dispatch.GroupName("t", offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client})
}

// counts is what a client's group did.
func (p *pops) counts(client string) fakepop.Counts { return p.br.Counts("t", group(client)) }

// sum adds up counts by message.
func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// untilAcked waits until n messages of a client's group are acked, and requires
// that none was acked twice.
func (p *pops) untilAcked(client string, n int) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		c := p.counts(client)
		if len(c.Acks) >= n {
			if len(c.Acks) > n {
				p.t.Fatalf("%d messages acked at the broker, want %d", len(c.Acks), n)
			}
			for id, k := range c.Acks {
				if k != 1 {
					p.t.Fatalf("message %s acked %d times at the broker", id, k)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%d messages acked at the broker, want %d: %+v", len(c.Acks), n, c)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// entries counts what is on disk about single messages.
func (p *pops) entries() (n int) {
	p.t.Helper()
	if err := p.store.ScanRecords("pop", "", "", func(string, []byte) bool { n++; return true }); err != nil {
		p.t.Fatal(err)
	}
	return n
}

var _ storage.Backend = (*fakepop.Backend)(nil)

// TestPop_Spine is the way of one event: published, popped, delivered, DURABLE,
// acked at the broker, forgotten.
func TestPop_Spine(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(100)...)
		got := s.Take(100)
		seen := map[string]bool{}
		for _, g := range got {
			seen[g.Data()] = true
			if g.Attempt != 1 || g.Frame.GetAttributes()["empopck"] == "" || len(g.Partition) < 9 {
				t.Fatalf("delivery %s with %v", Show([]Got{g}), g.Frame.GetAttributes())
			}
		}
		if len(seen) != 100 {
			t.Fatalf("%d different events came", len(seen))
		}
		if c := p.counts("c"); sum(c.AckCalls) != 0 {
			t.Fatalf("acked at the broker before any client: %+v", c)
		}
		s.AckDurable(got...)
		p.untilAcked("c", 100)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if n := p.br.Outstanding("t", group("c")); n != 0 {
			t.Fatalf("%d records are popped and not acked", n)
		}
	})
}

func ptr[T any](v T) *T { return &v }

// popBubble runs a test with fake time, on a log of its own.
func popBubble(t *testing.T, fn func(t *testing.T)) { t.Helper(); synctest.Test(t, fn) }

// publishKey publishes one event with a key.
func publishKey(t *testing.T, in *Instance, topic, key, data string) {
	t.Helper()
	PublishKey(t, in.Mesh(), topic, key, data)
}

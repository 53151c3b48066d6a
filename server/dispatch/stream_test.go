package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

func discard(mem.BufferSlice) error { return nil }

// TestWriterThatFailsIsABreak: a connection that breaks while it is written to
// breaks, however soon the reader notices.
func TestWriterThatFailsIsABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s := r.open("c", sinkFunc(func(mem.BufferSlice) error { return errors.New("connection reset") }))
		r.publish(1)
		<-s.Done()
		if s.EndedHere() {
			t.Error("a stream whose connection broke counts as ended by the server")
		}
	})
}

// TestTableStaysSmall: deliveries that are never answered do not keep those that
// are.
func TestTableStaysSmall(t *testing.T) {
	s := &Stream{d: &Dispatcher{Metrics: &Metrics{}}, bindings: map[uint32]*binding{}, lateCheck: maxLate, compactAt: minCompact}
	b := &binding{s: s, id: 1}
	s.bindings[1] = b
	id := uint64(1)
	add := func() uint64 {
		s.table = append(s.table, &outBatch{first: id, n: 1, mask: 1, held: 1, b: b, p: &part{l: &loop{}}})
		b.used++
		id++
		return id - 1
	}
	for range 250 {
		add() // never answered
	}
	last := add()
	for range 10_000 {
		next := add() // so that one is always outstanding at the end
		if err := s.Ack([]Answered{{First: last, Last: last}}); err != nil {
			t.Fatal(err)
		}
		last = next
	}
	if len(s.table) > 2*252+minCompact {
		t.Errorf("%d entries for 251 deliveries", len(s.table))
	}
}

// block keeps a loop busy until release is called.
func block(l *loop) (release func()) {
	begun, ch := make(chan struct{}), make(chan struct{})
	l.post(event{kind: evCall, call: func() { close(begun); <-ch }})
	<-begun
	return func() { close(ch) }
}

// TestResetGivenUp: a reset whose caller goes away leaves nothing frozen.
func TestResetGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		got := make(chan struct{}, 10)
		r.open("c", sinkFunc(func(mem.BufferSlice) error { got <- struct{}{}; return nil }))
		synctest.Wait()
		release := block(r.loop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.d.Reset(ctx, ResetRequest{
			Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, To: Place{At: Earliest},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		release()
		r.publish(1)
		select {
		case <-got:
		case <-time.After(time.Minute):
			t.Error("nothing is delivered any more")
		}
	})
}

// TestResetDuringSlowCommit: a reset whose caller goes away while it is written is
// finished all the same: afterwards store and machine are of one epoch.
func TestResetDuringSlowCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.open("c", sinkFunc(discard))
		r.publish(3)
		synctest.Wait()
		release := r.store.HoldWrites()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { <-time.After(time.Minute); release() }()
		sub := offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}
		_, err := r.d.Reset(ctx, ResetRequest{Topic: "t", Subscriber: sub, To: Place{At: AtOffset, Offset: 1}})
		<-time.After(2 * time.Minute)
		key := offsetstore.Key{Topic: "t", Subscriber: sub, Partition: "0"}
		v, _, gerr := r.store.Get(key)
		live, ok, lerr := r.d.Live(t.Context(), key)
		if gerr != nil || lerr != nil || !ok {
			t.Fatal(gerr, lerr, ok)
		}
		if v.Epoch != live.Epoch {
			t.Errorf("reset: %v; then the store is in epoch %d, the machine in %d: its acks are lost", err, v.Epoch, live.Epoch)
		}
	})
}

// TestStaleChunk: what was read of a topic before it was made anew is not taken
// for the new one's.
func TestStaleChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.open("c", sinkFunc(discard))
		l := r.loop()
		covered := false
		err := l.call(t.Context(), func() {
			f := &fetched{req: storage.PollRequest{TopicID: "another", Start: 5}, batch: &storage.Batch{Start: 5, Next: 9}}
			l.arrived(f, time.Now())
			covered = l.cache.covers(5)
		})
		if err != nil || covered {
			t.Errorf("%v, in the window: %v", err, covered)
		}
	})
}

// TestExtendsAreBounded: a client that extends without end does not fill a loop's
// inbox.
func TestExtendsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s := r.open("c", sinkFunc(discard))
		r.publish(640)
		synctest.Wait()
		l := r.loop()
		release := block(l)
		stop := time.After(5 * time.Second)
		for n := 0; n < 20_000; n++ {
			select {
			case <-stop:
				n = 20_000
			default:
			}
			if err := s.Extend([]Answered{{First: 1, Last: 1 << 62}}, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		l.mu.Lock()
		n := len(l.inbox)
		l.mu.Unlock()
		release()
		if n > maxExtends+1000 {
			t.Errorf("%d events wait", n)
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.extends != 0 {
			t.Errorf("%d extensions are still counted", s.extends)
		}
	})
}

// refusing is a store that refuses the next writes without being unhealthy.
type refusing struct {
	offsetstore.Store
	times atomic.Int64
}

func (s *refusing) Submit(txn *offsetstore.Txn, done func(error)) {
	if s.times.Add(-1) >= 0 {
		go done(errors.New("no luck"))
		return
	}
	s.Store.Submit(txn, done)
}

// TestIDsRunOut: streams that wait for ids go on though reserving them failed.
func TestIDsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		bad := &refusing{Store: r.store}
		bad.times.Store(3)
		r.d.ids.mu.Lock()
		r.d.ids.store, r.d.ids.next = bad, r.d.ids.limit
		r.d.ids.mu.Unlock()
		got := make(chan struct{}, 10)
		r.open("c", sinkFunc(func(mem.BufferSlice) error { got <- struct{}{}; return nil }))
		r.publish(1)
		select {
		case <-got:
		case <-time.After(time.Minute):
			t.Error("nothing is delivered")
		}
	})
}

// TestDrainSeesTimeouts: a stream whose last deliveries time out while it drains
// is quiet then.
func TestDrainSeesTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.open("c", sinkFunc(discard))
		r.publish(1)
		synctest.Wait()
		begun := time.Now()
		r.d.Drain(t.Context(), time.Hour)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the drain took %v, the ack timeout is 30 s", took)
		}
	})
}

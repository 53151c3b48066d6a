package dispatch

import (
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// noting is a store that notes for how many acks each write of a position stands.
type noting struct {
	offsetstore.Store
	mu   sync.Mutex
	acks []int
}

func (s *noting) Submit(txn *offsetstore.Txn, done func(error)) {
	if len(txn.Puts) > 0 {
		s.mu.Lock()
		s.acks = append(s.acks, txn.Acks)
		s.mu.Unlock()
	}
	s.Store.Submit(txn, done)
}

// TestCommitsOfOrderedSubscribersAreInAHurry: the store may wait for more where only
// answers to acks wait for it, which is not so where the next records of keys do.
func TestCommitsOfOrderedSubscribersAreInAHurry(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{})
			store := &noting{Store: r.store}
			r.d.store = store
			got := make(chan struct{}, 10)
			s := r.openAs("c", Settings{Mode: Broadcast, Ordered: ordered}, 4<<20,
				sinkFunc(func(mem.BufferSlice) error { got <- struct{}{}; return nil }))
			r.publish(3)
			<-got
			synctest.Wait()
			s.mu.Lock()
			first := s.table[0].first
			s.mu.Unlock()
			store.mu.Lock()
			store.acks = nil
			store.mu.Unlock()
			if err := s.Ack([]Answered{{First: first, Last: first + 2}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			want := 3
			if ordered {
				want = 0
			}
			if len(store.acks) != 1 || store.acks[0] != want {
				t.Errorf("ordered %v: 3 acks are written with Acks %v, want [%d]", ordered, store.acks, want)
			}
		})
	}
}

// TestRetriesDoNotWaitForMoreAcks: what comes again waits for the commit that tells
// of its attempt, so that this one is not held up, also behind one of many acks.
func TestRetriesDoNotWaitForMoreAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		r := newRig(t, Config{})
		s := r.open("c", sinkFunc(func(mem.BufferSlice) error { return nil }))
		r.publish(n)
		synctest.Wait()
		s.mu.Lock()
		first := s.table[0].first
		s.mu.Unlock()
		last := first + n - 1
		if err := s.Ack([]Answered{{First: first, Last: last - 1}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Nack([]Answered{{First: last, Last: last}}, 0, false, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // no time passes
		if acked, sent := r.d.Metrics.Acked.Load(), r.d.Metrics.Delivered.Load(); acked != n-1 || sent != n+1 {
			t.Errorf("behind %d acks, a record is nacked: %d deliveries, want %d at once", acked, sent, n+1)
		}
	})
}

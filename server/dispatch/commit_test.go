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

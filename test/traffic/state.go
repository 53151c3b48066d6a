package traffic

import (
	"context"
	"sync"

	"github.com/ackmesh/ackmesh/offset"
)

// Counts is how much is under way now.
type Counts struct {
	// Acks, Publishes and Opens were sent and are not answered.
	Acks, Publishes, Opens int
	// Streams are open or being opened.
	Streams int
	// Published is how many events are confirmed.
	Published int
}

// state is what all clients of a Run share.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	counts  Counts
	got     map[string]map[string]*offset.Set // by subscriber and partition
	topics  map[string]int                    // confirmed events of each topic
}

func newState() *state {
	return &state{changed: make(chan struct{}), got: map[string]map[string]*offset.Set{}, topics: map[string]int{}}
}

// update changes the counts and wakes who waits for it.
func (s *state) update(fn func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.counts)
	s.wake()
}

func (s *state) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until cond, which is called under the lock, holds.
func (s *state) await(ctx context.Context, cond func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deliver notes a record that came to a subscriber.
func (s *state) deliver(sub, partition string, off int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got[sub] == nil {
		s.got[sub] = map[string]*offset.Set{}
	}
	if s.got[sub][partition] == nil {
		s.got[sub][partition] = &offset.Set{}
	}
	if s.got[sub][partition].Add(offset.Range{First: off, Last: off}) > 0 {
		s.wake()
	}
}

// records is how many records a subscriber got. The lock is held.
func (s *state) records(sub string) (n int) {
	for _, set := range s.got[sub] {
		n += int(set.Len())
	}
	return n
}

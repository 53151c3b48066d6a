package dispatch

import (
	"context"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// subscriberLocks has one lock for each subscriber of a topic that somebody holds
// or waits for, whether the topic is in use or not.
type subscriberLocks struct {
	mu  sync.Mutex
	all map[countKey]*subscriberLock
}

type subscriberLock struct {
	held  chan struct{} // full while somebody holds it
	users int           // who holds it or waits
}

// lock waits for the lock of a subscriber, or for ctx.
func (s *subscriberLocks) lock(ctx context.Context, topic string, sub offsetstore.Subscriber) error {
	key := countKey{topic, sub}
	s.mu.Lock()
	l := s.all[key]
	if l == nil {
		l = &subscriberLock{held: make(chan struct{}, 1)}
		if s.all == nil {
			s.all = map[countKey]*subscriberLock{}
		}
		s.all[key] = l
	}
	l.users++
	s.mu.Unlock()
	select {
	case l.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		s.leave(key)
		return ctx.Err()
	}
}

// unlock gives a lock back.
func (s *subscriberLocks) unlock(topic string, sub offsetstore.Subscriber) {
	key := countKey{topic, sub}
	s.mu.Lock()
	l := s.all[key]
	s.mu.Unlock()
	<-l.held
	s.leave(key)
}

func (s *subscriberLocks) leave(key countKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.all[key]; l != nil {
		if l.users--; l.users == 0 {
			delete(s.all, key)
		}
	}
}

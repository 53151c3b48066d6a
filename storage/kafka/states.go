package kafka

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage/internal/remnants"
)

// states keeps what is remembered of partitions while the log is open.
type states struct {
	// ahead is how many bytes are being fetched at pull offsets, or lie in
	// remnants.
	ahead atomic.Int64

	mu    sync.Mutex // guards parts
	parts map[stateKey]*partition
}

type stateKey struct {
	topic, topicID string
	number         int32
}

func newStates() *states { return &states{parts: map[stateKey]*partition{}} }

// of finds or makes the state of a partition.
func (s *states) of(topic, topicID string, number int32) *partition {
	key := stateKey{topic, topicID, number}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[key]
	if p == nil {
		p = &partition{remnants: remnants.Remnants[*chunk]{Bytes: &s.ahead}}
		s.parts[key] = p
	}
	return p
}

// forget drops what is remembered of a topic.
func (s *states) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.parts {
		if key.topic == topic {
			p.end()
			delete(s.parts, key)
		}
	}
}

// expire drops remnants that nobody has asked for.
func (s *states) expire(now time.Time) {
	s.mu.Lock()
	all := make([]*partition, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.remnants.Expire(now)
	}
}

// partition is what is remembered of one.
type partition struct {
	// seen is the highest end that a broker has told.
	seen atomic.Int64
	// remnants are rests of fetches, and what was fetched ahead.
	remnants remnants.Remnants[*chunk]

	mu     sync.Mutex // guards what follows; held while remnants are dropped
	coming *prefetch  // under way; nil: none
	epoch  int        // how often the remnants were dropped
	ended  bool       // nothing is kept any more: the topic was deleted
}

// see notes the end that a broker tells.
func (p *partition) see(end int64) {
	for {
		old := p.seen.Load()
		if end <= old || p.seen.CompareAndSwap(old, end) {
			return
		}
	}
}

// keep keeps the rest of a chunk for who goes on there.
func (p *partition) keep(c *chunk) { p.remnants.Keep(c.start, c.size, c) }

// take returns the rest of a chunk that goes on at an offset; nil: none.
func (p *partition) take(start int64) *chunk {
	c, _ := p.remnants.Take(start)
	return c
}

// drop forgets all remnants, and what is being fetched ahead.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.remnants.Drop()
}

// end is drop for good.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.remnants.End()
}

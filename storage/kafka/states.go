package kafka

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// remnantAge is how long records that were fetched, and not yet asked
	// for, are kept.
	remnantAge = 2 * time.Second
	// remnantsKept bounds the remnants of one partition.
	remnantsKept = 4
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
		p = &partition{ahead: &s.ahead}
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
		p.expire(now)
	}
}

// partition is what is remembered of one.
type partition struct {
	// seen is the highest end that a broker has told.
	seen atomic.Int64
	// ahead is that of states.
	ahead *atomic.Int64

	mu       sync.Mutex // guards what follows
	remnants []remnant  // oldest first
	coming   *prefetch  // under way; nil: none
	epoch    int        // how often the remnants were dropped
	ended    bool       // nothing is kept any more: the topic was deleted
}

// remnant is what is left of a fetch.
type remnant struct {
	chunk *chunk
	at    time.Time
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
func (p *partition) keep(c *chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepLocked(c)
}

// keepLocked is keep; the lock is held.
func (p *partition) keepLocked(c *chunk) {
	if p.ended {
		return
	}
	if len(p.remnants) == remnantsKept {
		p.cut(0, 1)
	}
	p.remnants = append(p.remnants, remnant{chunk: c, at: time.Now()})
	p.ahead.Add(c.size)
}

// cut takes remnants i to k-1 out; the lock is held.
func (p *partition) cut(i, k int) {
	for _, r := range p.remnants[i:k] {
		p.ahead.Add(-r.chunk.size)
	}
	p.remnants = slices.Delete(p.remnants, i, k)
}

// take returns the rest of a chunk that goes on at an offset; nil: none. Only
// one caller gets it.
func (p *partition) take(start int64) *chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.remnants {
		if r.chunk.start == start && time.Since(r.at) < remnantAge {
			p.cut(i, i+1)
			return r.chunk
		}
	}
	return nil
}

// drop forgets all remnants.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.cut(0, len(p.remnants))
}

// end is drop for good.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.cut(0, len(p.remnants))
}

func (p *partition) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.remnants) && now.Sub(p.remnants[n].at) > remnantAge {
		n++
	}
	p.cut(0, n)
}

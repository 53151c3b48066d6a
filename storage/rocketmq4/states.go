package rocketmq4

import (
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage/internal/remnants"
)

// states keeps what is remembered of queues while the log is open.
type states struct {
	mu    sync.Mutex // guards parts
	parts map[stateKey]*partition
}

type stateKey struct{ topic, topicID, name string }

func newStates() *states { return &states{parts: map[stateKey]*partition{}} }

// of finds or makes the state of a queue.
func (s *states) of(topic, topicID, name string, ids *identities) *partition {
	key := stateKey{topic, topicID, name}
	s.mu.Lock()
	p := s.parts[key]
	s.mu.Unlock()
	if p != nil {
		return p
	}
	saved := ids.takeSaved(topic, topicID, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.parts[key]; p == nil {
		p = &partition{}
		p.anchors.load(saved)
		p.seen = p.anchors.end()
		s.parts[key] = p
	}
	return p
}

// forget drops what is remembered of a topic.
func (s *states) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.parts {
		if key.topic == topic {
			delete(s.parts, key)
		}
	}
}

// anchorsOf lists what is to be saved of the queues of a topic.
func (s *states) anchorsOf(topic, topicID string) map[string][]anchor {
	parts := map[string]*partition{}
	s.mu.Lock()
	for key, p := range s.parts {
		if key.topic == topic && key.topicID == topicID {
			parts[key.name] = p
		}
	}
	s.mu.Unlock()
	saved := map[string][]anchor{}
	for name, p := range parts {
		p.mu.Lock()
		if list := p.anchors.saved(); len(list) > 0 {
			saved[name] = list
		}
		p.mu.Unlock()
	}
	return saved
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

// partition is what is remembered of one queue.
type partition struct {
	remnants remnants.Remnants[*chunk] // rests of pulls

	mu        sync.Mutex // guards what follows
	low, high int64      // bounds as last told by the master
	toldAt    time.Time
	removed   int64               // below it nothing is left, whatever the master tells
	gaps      map[int64]time.Time // where a message could not be read, since when
	seen      int64               // the highest maximum ever told
	source    int64               // number of the broker to read from, as was suggested
	anchors   anchors
	knownAt   time.Time // when the queue was last known again
}

// told notes the bounds that the master tells, and returns the minimum as it
// is.
func (p *partition) told(low, high int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed <= high {
		low = max(low, p.removed)
	}
	p.low, p.high, p.toldAt = low, high, time.Now()
	p.seen = max(p.seen, high)
	return low
}

// reached notes a maximum that a slave tells: the queue is that long at least.
func (p *partition) reached(high int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.high, p.seen = max(p.high, high), max(p.seen, high)
}

// gapTime is how long a message cannot be read before it is taken for removed:
// a broker may not find one that it has, and then skips all up to the next file
// of its log.
const gapTime = 2 * time.Second

// gapsKept bounds what is remembered of such messages.
const gapsKept = 64

// isGap notes that the message at an offset could not be read, and tells whether
// it is missing for good.
func (p *partition) isGap(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset < p.removed {
		return true
	}
	since, ok := p.gaps[offset]
	if !ok {
		if p.gaps == nil || len(p.gaps) >= gapsKept {
			p.gaps = map[int64]time.Time{}
		}
		since = time.Now()
		p.gaps[offset] = since
	}
	return time.Since(since) >= gapTime
}

// recognize notes that the queue was known again.
func (p *partition) recognize() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knownAt = time.Now()
}

// isDoubtful tells whether the queue was not known again for long: nothing new
// may have come because the topic is another one, as long as the old.
func (p *partition) isDoubtful() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.knownAt) >= holdTime
}

// remove notes that nothing is left below an offset.
func (p *partition) remove(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = max(p.removed, offset)
	p.toldAt = time.Time{}
}

// bounds returns those told last, and when.
func (p *partition) bounds() (low, high int64, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.low, p.high, p.toldAt
}

// highest is the maximum told last.
func (p *partition) highest() int64 {
	_, high, _ := p.bounds()
	return high
}

// wasSeen is the highest maximum ever told.
func (p *partition) wasSeen() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// appended notes that a message was stored.
func (p *partition) appended(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, offset+1)
}

// suggest notes from which broker to read next.
func (p *partition) suggest(number int64) {
	p.mu.Lock()
	p.source = number
	p.mu.Unlock()
}

func (p *partition) suggested() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source
}

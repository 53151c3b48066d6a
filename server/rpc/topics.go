package rpc

import (
	"sync"
	"sync/atomic"
)

// topicCounts counts events by topic: the first 1,000 topics apart, all others
// together.
type topicCounts struct {
	byTopic sync.Map // string to *atomic.Int64
	n       atomic.Int64
	other   atomic.Int64
}

const (
	maxTopicCounts = 1000
	otherTopics    = "other"
)

func (t *topicCounts) add(topic string, events int64) {
	if events > 0 {
		t.of(topic).Add(events)
	}
}

func (t *topicCounts) of(topic string) *atomic.Int64 {
	if topic == otherTopics {
		return &t.other
	}
	if c, ok := t.byTopic.Load(topic); ok {
		return c.(*atomic.Int64) // nothing else is stored
	}
	if t.n.Load() >= maxTopicCounts {
		return &t.other
	}
	c, known := t.byTopic.LoadOrStore(topic, new(atomic.Int64))
	if !known {
		t.n.Add(1)
	}
	return c.(*atomic.Int64)
}

// EachTopic calls fn for each topic that events were published to, and last for
// those beyond the first 1,000 together, as "other".
func (p *Publisher) EachTopic(fn func(topic string, events int64)) {
	p.topics.byTopic.Range(func(topic, c any) bool {
		fn(topic.(string), c.(*atomic.Int64).Load())
		return true
	})
	fn(otherTopics, p.topics.other.Load())
}

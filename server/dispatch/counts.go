package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// Counts is what was done for one subscriber of a topic since the start. All
// fields may be read at any time.
type Counts struct {
	Delivered    atomic.Int64                  // frames handed to streams
	Redelivered  [delivery.Causes]atomic.Int64 // of these, not for the first time, by cause
	Acked        atomic.Int64                  // deliveries acked, durable
	DeadLettered atomic.Int64
	Expired      atomic.Int64
}

// maxCounts bounds the subscribers of topics that are counted apart.
const maxCounts = 1000

// Other is the topic and the subscriber under which the rest is counted.
const Other = "other"

// countTable holds the Counts of the first maxCounts subscribers, and one for
// all others. They stay until the end, as counters must.
type countTable struct {
	mu    sync.Mutex
	known map[countKey]*Counts
	other Counts
}

type countKey struct {
	topic string
	sub   offsetstore.Subscriber
}

// of is where to count for a subscriber of a topic.
func (t *countTable) of(topic string, sub offsetstore.Subscriber) *Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := countKey{topic, sub}
	c := t.known[key]
	if c == nil {
		if len(t.known) >= maxCounts {
			return &t.other
		}
		if t.known == nil {
			t.known = map[countKey]*Counts{}
		}
		c = &Counts{}
		t.known[key] = c
	}
	return c
}

// EachCount calls fn for each subscriber of a topic that was ever here, and last
// for all beyond the first 1,000 together, under the name Other.
func (d *Dispatcher) EachCount(fn func(topic, subscriber string, c *Counts)) {
	d.counts.mu.Lock()
	list := make(map[countKey]*Counts, len(d.counts.known))
	for k, c := range d.counts.known {
		list[k] = c
	}
	d.counts.mu.Unlock()
	for k, c := range list {
		fn(k.topic, k.sub.String(), c)
	}
	fn(Other, Other, &d.counts.other)
}

// latencyBounds are the upper bounds of Latency's buckets but the last.
var latencyBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute,
}

// Latency counts durations by size. A batch of equal ones costs as much as one.
type Latency struct {
	buckets [len(latencyBounds) + 1]atomic.Int64
	sum     atomic.Int64 // ns
}

func (h *Latency) observe(d time.Duration, n int) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	h.buckets[i].Add(int64(n))
	h.sum.Add(int64(d) * int64(n))
}

// Read returns how many there were, their sum in seconds, and how many were at
// most each bound in seconds.
func (h *Latency) Read() (count uint64, sum float64, byBound map[float64]uint64) {
	byBound = make(map[float64]uint64, len(latencyBounds))
	for i := range h.buckets {
		count += uint64(h.buckets[i].Load())
		if i < len(latencyBounds) {
			byBound[latencyBounds[i].Seconds()] = count
		}
	}
	return count, float64(h.sum.Load()) / float64(time.Second), byBound
}

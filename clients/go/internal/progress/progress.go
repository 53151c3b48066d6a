// Package progress remembers how far subscribers are, as the server told it and
// as confirmed acks add to it, so that a client can resume on an instance that
// does not know. It holds no lock; the owner does.
package progress

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/offset"
)

const (
	// MaxAhead is the most finished ranges that a Position names.
	MaxAhead = 1000
	// maxKept bounds the ranges kept for a partition. What comes above it is
	// forgotten, which costs repeats at a takeover, never a loss.
	maxKept = 10 * MaxAhead
)

// Position is what Partition says to the outside.
type Position struct {
	Topic, Subscriber, Partition string
	Next                         int64
	Epoch                        uint64
	Ahead                        []offset.Range
}

// Partition is one subscriber's progress in one partition.
type Partition struct {
	topic, subscriber, partition string
	known                        bool // next was told
	next                         int64
	ahead                        offset.Set
	epoch                        atomic.Uint64
}

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.topic }

// Name is the partition's name.
func (p *Partition) Name() string { return p.partition }

// Subscriber is the subscriber as the server spells it, `client/NAME` or
// `share/NAME`.
func (p *Partition) Subscriber() string { return p.subscriber }

// Stale reports whether frames of that epoch were sent before a reset that the
// client knows of. It may be called without the owner's lock.
func (p *Partition) Stale(epoch uint64) bool { return epoch < p.epoch.Load() }

// Finished adds offsets first to last, which were acked durably in that epoch.
func (p *Partition) Finished(epoch uint64, first, last int64) {
	if !p.known || epoch != p.epoch.Load() || last < p.next {
		return
	}
	if len(p.ahead.Ranges()) >= maxKept {
		return
	}
	p.ahead.Add(offset.Range{First: max(first, p.next), Last: last})
	p.settle()
}

// settle moves next over what is finished.
func (p *Partition) settle() {
	if end := p.ahead.EndOf(p.next); end > p.next {
		p.next = end
		p.ahead.TrimBelow(end)
	}
}

// replace takes over what the server says is so now.
func (p *Partition) replace(pos *Position) {
	p.known, p.next = true, pos.Next
	p.epoch.Store(pos.Epoch)
	p.ahead.Clear()
	p.add(pos.Ahead)
}

// advance takes over news of a progress; within an epoch it only moves up.
func (p *Partition) advance(pos *Position) {
	switch epoch := p.epoch.Load(); {
	case !p.known || pos.Epoch > epoch:
		p.replace(pos)
	case pos.Epoch == epoch:
		p.next = max(p.next, pos.Next)
		p.ahead.TrimBelow(p.next)
		p.add(pos.Ahead)
	}
}

func (p *Partition) add(ranges []offset.Range) {
	for _, r := range ranges {
		if r.Last >= p.next && len(p.ahead.Ranges()) < maxKept {
			p.ahead.Add(offset.Range{First: max(r.First, p.next), Last: r.Last})
		}
	}
	p.settle()
}

func (p *Partition) position() Position {
	ranges := p.ahead.Ranges()
	return Position{
		Topic: p.topic, Subscriber: p.subscriber, Partition: p.partition,
		Next: p.next, Epoch: p.epoch.Load(),
		Ahead: slices.Clone(ranges[:min(len(ranges), MaxAhead)]),
	}
}

type key struct{ topic, subscriber, partition string }

// Table holds the partitions of a stream. The zero value is empty and ready.
type Table struct{ m map[key]*Partition }

// Partition returns the partition's progress, made unknown if there is none.
func (t *Table) Partition(topic, subscriber, partition string) *Partition {
	k := key{topic, subscriber, partition}
	if p := t.m[k]; p != nil {
		return p
	}
	if t.m == nil {
		t.m = make(map[key]*Partition)
	}
	p := &Partition{topic: topic, subscriber: subscriber, partition: partition}
	t.m[k] = p
	return p
}

// Replace takes over a position that is so, even if it is lower: of Opened, and
// of the notices about corrections and resets.
func (t *Table) Replace(pos *Position) {
	t.Partition(pos.Topic, pos.Subscriber, pos.Partition).replace(pos)
}

// Advance takes over a position of AckResult. What is older than what is known
// changes nothing.
func (t *Table) Advance(pos *Position) {
	t.Partition(pos.Topic, pos.Subscriber, pos.Partition).advance(pos)
}

// Forget drops a subscriber of a topic.
func (t *Table) Forget(topic, subscriber string) {
	for k := range t.m {
		if k.topic == topic && k.subscriber == subscriber {
			delete(t.m, k)
		}
	}
}

// Positions returns all positions that are known, in order of topic, subscriber
// and partition.
func (t *Table) Positions() []Position {
	out := make([]Position, 0, len(t.m))
	for _, p := range t.m {
		if p.known {
			out = append(out, p.position())
		}
	}
	slices.SortFunc(out, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Subscriber, b.Subscriber), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

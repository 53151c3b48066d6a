package embedded

import (
	"context"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/storage"
)

// stickyEvents is how many events without a key go to one partition before
// the next has its turn: long runs are cheaper for everyone.
const stickyEvents = 64

// pending is one Append on its way.
type pending struct {
	topic   *topic
	events  []storage.Event
	done    storage.AppendDone
	parts   []uint16   // partition of each event
	keys    []dedupKey // of each event; empty: none has one
	bytes   int
	results []storage.Appended
	hash    hasher
}

var pendings = sync.Pool{New: func() any { return new(pending) }}

// Append implements storage.Backend. It waits for the disk only where it has
// to make the topic.
func (l *Log) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	t, err := l.ensure(ctx, topic)
	if err != nil {
		return err
	}
	p, _ := pendings.Get().(*pending) // it holds nothing else
	p.topic, p.events, p.done, p.bytes = t, events, done, 0
	err = p.place(l.opts.MaxRecordBytes, l.opts.DedupWindow > 0)
	if err == nil {
		err = l.queue.put(ctx, p)
	}
	if err != nil {
		p.free() // the committer has not seen it
	}
	return err
}

// place chooses the partitions and makes the dedup keys.
func (p *pending) place(limit int, dedup bool) error {
	p.parts, p.keys = p.parts[:0], p.keys[:0]
	keyless := 0
	for i := range p.events {
		e := &p.events[i]
		if len(e.Frame) > limit {
			return fmt.Errorf("embedded log: event %d for topic %q has %d bytes, at most %d are allowed: %w", i, p.topic.name, len(e.Frame), limit, storage.ErrTooLarge)
		}
		p.bytes += len(e.Frame) + recordCost
		if e.Key == "" {
			keyless++
		}
	}
	p.choose(keyless)
	if dedup {
		p.makeKeys()
	}
	return nil
}

// recordCost is what an event costs beside its frame, for the bounds.
const recordCost = 64

func (p *pending) choose(keyless int) {
	n := uint64(len(p.topic.parts))
	turn := p.topic.spread.Add(uint64(keyless)) - uint64(keyless)
	for i := range p.events {
		if key := p.events[i].Key; key != "" {
			p.parts = append(p.parts, uint16(xxhash.Sum64String(key)%n))
			continue
		}
		p.parts = append(p.parts, uint16(turn/stickyEvents%n))
		turn++
	}
}

func (p *pending) makeKeys() {
	keyed := false
	for i := range p.events {
		k := p.hash.key(p.topic.num, p.events[i].DedupKey)
		keyed = keyed || k != dedupKey{}
		p.keys = append(p.keys, k)
	}
	if !keyed {
		p.keys = p.keys[:0]
	}
}

// key is the dedup key of event i; zero: none.
func (p *pending) key(i int) dedupKey {
	if len(p.keys) == 0 {
		return dedupKey{}
	}
	return p.keys[i]
}

// answer tells the fate of the events and gives p back for use by others.
func (p *pending) answer(err error) {
	done, results := p.done, p.results
	if err != nil {
		results = nil
	}
	p.free()
	done(results, err)
}

func (p *pending) free() {
	p.topic, p.events, p.done, p.results = nil, nil, nil, nil
	pendings.Put(p)
}

// queue holds what waits for the committer, bounded in bytes.
type queue struct {
	limit int
	work  chan struct{} // a token: there is something to do

	mu     sync.Mutex
	items  []*pending
	spare  []*pending    // memory for items
	bytes  int           // of items and of what the committer has taken
	room   chan struct{} // closed and replaced when bytes falls
	wanted bool          // somebody waits for room
	closed bool
}

func (q *queue) init(limit int) {
	q.limit = limit
	q.work = make(chan struct{}, 1)
	q.room = make(chan struct{})
}

// put adds p; it waits for room, bounded by ctx. One larger than the bound
// goes alone.
func (q *queue) put(ctx context.Context, p *pending) error {
	for {
		room, err := q.tryPut(p)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryPut adds p or returns what to wait for.
func (q *queue) tryPut(p *pending) (room <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
	if q.bytes > 0 && q.bytes+p.bytes > q.limit {
		q.wanted = true
		return q.room, nil
	}
	q.bytes += p.bytes
	q.items = append(q.items, p)
	q.signal()
	return nil, nil
}

func (q *queue) signal() {
	select {
	case q.work <- struct{}{}:
	default:
	}
}

// take returns all that waits; it waits for the first. more is false when the
// queue is closed and empty. The slice is valid until the next call.
func (q *queue) take() (items []*pending, more bool) {
	for {
		<-q.work
		q.mu.Lock()
		items, closed := q.items, q.closed
		q.items, q.spare = q.spare[:0], items
		q.mu.Unlock()
		if closed {
			q.signal() // for the next call
		}
		if len(items) > 0 || closed {
			return items, len(items) > 0
		}
	}
}

// release gives back the room of what is written.
func (q *queue) release(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= bytes
	q.makeRoom()
}

func (q *queue) makeRoom() {
	if q.wanted {
		close(q.room)
		q.room, q.wanted = make(chan struct{}), false
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.makeRoom()
	q.signal()
}

package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// runEvents and runBytes end a run of events without a key.
	runEvents, runBytes = 128, 64 << 10
	// giveUp is how long a broker is tried that cannot be reached.
	giveUp = 30 * time.Second
	// batchMax is how many messages are sent at once.
	batchMax = 1024
)

// queue is what was appended and is not yet answered: a queue for each
// partition, with a goroutine while it is not empty.
type queue struct {
	l    *Log
	room *semaphore.Weighted // bytes

	haste context.Context // ends when nothing is tried again any more
	hurry context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex // guards what follows, and all of topicQueue and partQueue
	closed bool
	topics map[string]*topicQueue
	calls  int // not ended
	idle   chan struct{}
}

// topicQueue is a topic to which events are appended.
type topicQueue struct {
	name    string
	info    *topicInfo // nil: not looked up yet
	parts   []*partQueue
	byName  map[string]*partQueue
	waiting []*call // for the look-up
	looking bool
	looked  time.Time

	run                 int // partition of events without a key
	runEvents, runBytes int
}

// partQueue is one partition to which events are appended.
type partQueue struct {
	topic   string
	topicID string
	name    string
	up      bool
	items   []*item
	sending bool
}

func newQueue(l *Log) *queue {
	q := &queue{l: l, room: semaphore.NewWeighted(l.opts.QueueBytes), topics: map[string]*topicQueue{}, idle: make(chan struct{})}
	q.haste, q.hurry = context.WithCancel(context.Background())
	return q
}

// put takes a call in; false: the log is closed.
func (q *queue) put(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.calls++
	t := q.topics[c.topic]
	if t == nil {
		t = &topicQueue{name: c.topic, byName: map[string]*partQueue{}}
		q.topics[c.topic] = t
	}
	if t.info == nil {
		t.waiting = append(t.waiting, c)
	} else {
		q.place(t, c)
	}
	if !t.looking && (t.info == nil || time.Since(t.looked) > q.l.opts.lookAgain) {
		t.looking = true
		q.wg.Go(func() { q.look(t) })
	}
	return true
}

// place puts the items of a call into their partitions; the lock is held.
func (q *queue) place(t *topicQueue, c *call) {
	for i := range c.items {
		it := &c.items[i]
		p := t.choose(it)
		it.part = p
		p.items = append(p.items, it)
		if !p.sending {
			p.sending = true
			q.wg.Go(func() { q.serve(p) })
		}
	}
}

// choose is the partition of an event. Keys stay where they are while a broker
// is down; events without one go elsewhere.
func (t *topicQueue) choose(it *item) *partQueue {
	if it.key != "" {
		return t.parts[partitionOf(it.key, len(t.parts))]
	}
	if t.runEvents++; t.runEvents > runEvents || t.runBytes > runBytes {
		t.run, t.runEvents, t.runBytes = t.run+1, 1, 0
	}
	t.runBytes += len(it.msg.Body)
	for range t.parts {
		if p := t.parts[t.run%len(t.parts)]; p.up {
			return p
		}
		t.run++
	}
	return t.parts[t.run%len(t.parts)]
}

// serve sends what is in a partition's queue until it is empty.
func (q *queue) serve(p *partQueue) {
	var items []*item
	for {
		q.mu.Lock()
		n, size := 0, 0
		for n < len(p.items) && n < batchMax && (n == 0 || size+p.items[n].size <= q.l.opts.BatchBytes) {
			size += p.items[n].size
			n++
		}
		items = append(items[:0], p.items[:n]...)
		clear(p.items[:n])
		if p.items = p.items[n:]; n == 0 {
			p.items, p.sending = nil, false
		}
		q.mu.Unlock()
		if n == 0 {
			return
		}
		q.l.sendAll(q.haste, p, items)
		clear(items)
	}
}

// over notes that a call is over, but for done.
func (q *queue) over(c *call) {
	q.room.Release(c.size)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls--
	q.tellIdle()
}

// tellIdle closes idle when nothing is under way any more; the lock is held.
func (q *queue) tellIdle() {
	if q.closed && q.calls == 0 {
		select {
		case <-q.idle:
		default:
			close(q.idle)
		}
	}
}

// look looks a topic up, for the first time or again.
func (q *queue) look(t *topicQueue) {
	q.mu.Lock()
	first := t.info == nil
	q.mu.Unlock()
	info, err := q.find(t.name, first)
	if q.haste.Err() != nil {
		err = errClosed()
	}
	q.mu.Lock()
	t.looking, t.looked = false, time.Now()
	var failed []*call
	switch {
	case err == nil && !t.use(info):
		err = fmt.Errorf("rocketmq4: topic %q has no queue that may be written, look at its perm: %w", t.name, storage.ErrUnavailable)
		failed = q.drop(t)
	case err == nil:
		for _, c := range t.waiting {
			q.place(t, c)
		}
		t.waiting = nil
	case first || errors.Is(err, storage.ErrTopicNotFound):
		failed = q.drop(t)
	}
	q.mu.Unlock()
	for _, c := range failed {
		q.l.fail(c, err)
	}
}

// find finds a topic. The first time it is worth some patience.
func (q *queue) find(topic string, first bool) (info *topicInfo, err error) {
	until := time.Now().Add(giveUp)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if first {
			info, err = q.l.ensure(q.haste, topic)
		} else {
			info, err = q.l.meta.ask(q.haste, topic)
		}
		if !first || !errors.Is(err, storage.ErrUnavailable) || time.Until(until) < pause {
			return info, err
		}
		if sleep(q.haste, pause) != nil {
			return nil, err
		}
	}
}

// drop makes the next Append to a topic look it up; the lock is held. It
// returns the calls that wait for that.
func (q *queue) drop(t *topicQueue) []*call {
	if q.topics[t.name] == t {
		q.lookAnew(t)
	}
	waiting := t.waiting
	t.waiting = nil
	return waiting
}

// use takes in what is known of a topic; false: nothing of it may be written.
// What is queued for a partition that is gone stays in its queue.
func (t *topicQueue) use(info *topicInfo) bool {
	var parts []*partQueue
	for i := range info.parts {
		part := &info.parts[i]
		if !part.writable {
			continue
		}
		p := t.byName[part.name]
		if p == nil || p.topicID != info.id {
			p = &partQueue{topic: t.name, topicID: info.id, name: part.name}
			t.byName[part.name] = p
		}
		p.up = part.master() != ""
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return false
	}
	t.info, t.parts = info, parts
	return true
}

// forget makes the next Append to a topic look it up.
func (q *queue) forget(topic string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.topics[topic]; t != nil && t.info != nil {
		q.lookAnew(t)
	}
}

// lookAnew has a topic looked up with the next Append. While something of it is
// queued it is kept, so that what comes then goes behind that; the lock is held.
func (q *queue) lookAnew(t *topicQueue) {
	t.info, t.parts = nil, nil
	for _, p := range t.byName {
		if p.sending {
			return
		}
	}
	delete(q.topics, t.name)
}

// close lets what was appended be written, for as long as RequestTimeout; the
// rest fails.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.tellIdle()
	q.mu.Unlock()
	timer := time.NewTimer(q.l.opts.RequestTimeout)
	defer timer.Stop()
	select {
	case <-q.idle:
	case <-timer.C:
	}
	q.hurry()
	<-q.idle
	q.wg.Wait()
}

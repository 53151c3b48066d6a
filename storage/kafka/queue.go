package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// inFlight bounds the messages of one partition that the producer has.
	// Its channels have as much room, so that it never waits for one
	// partition while it could serve another.
	inFlight = 2048
	// sendBatch is how many messages are taken out of the queues at once.
	sendBatch = 512
	// runEvents and runBytes end a run of events without a key.
	runEvents, runBytes = 128, 64 << 10
)

// queue is what was appended and is not yet in the producer: a queue for each
// partition.
type queue struct {
	l    *Log
	room *semaphore.Weighted // bytes

	lookups context.Context // for looking up topics; ends when close begins
	stop    context.CancelFunc
	wake    chan struct{} // a token: look at ready
	ended   chan struct{} // closed to end pump
	wg      sync.WaitGroup

	mu        sync.Mutex // guards what follows, and all of topicQueue and partQueue
	closed    bool
	producer  *producer   // takes what is sent now
	producers []*producer // that one, and older ones that still have messages
	topics    map[string]*topicQueue
	ready     []*partQueue // with messages that the producer may have
	calls     int          // not ended
	idle      chan struct{}
}

// topicQueue is a topic to which events are appended.
type topicQueue struct {
	name    string
	info    *topicInfo // nil: not looked up yet
	parts   []*partQueue
	waiting []*call // for the look-up
	looking bool
	looked  time.Time

	run                 int // partition of events without a key
	runEvents, runBytes int
}

// partQueue is one partition to which events are appended.
type partQueue struct {
	name     string
	number   int32
	state    *partition
	items    []*item
	inFlight int
	producer *producer // has what is in flight
	isReady  bool
}

func newQueue(l *Log) *queue {
	q := &queue{
		l: l, room: semaphore.NewWeighted(l.opts.QueueBytes), wake: make(chan struct{}, 1),
		ended: make(chan struct{}), topics: map[string]*topicQueue{}, idle: make(chan struct{}),
	}
	q.lookups, q.stop = context.WithCancel(context.Background())
	q.renew()
	q.wg.Go(q.pump)
	return q
}

// renew begins with a new producer; the lock is held, or nobody else knows q.
// A partition goes over to it when the old one has no message of it any more,
// so messages keep their order. It is needed when a topic was made again: the
// brokers then refuse the numbers that the old producer goes on with.
func (q *queue) renew() {
	old := q.producer
	q.producer = newProducer(q)
	q.producers = append(q.producers, q.producer)
	if old != nil {
		q.retire(old)
	}
}

// retire closes a producer that is not in use any more, and has no messages;
// the lock is held.
func (q *queue) retire(p *producer) {
	i := slices.Index(q.producers, p)
	if p == q.producer || p.messages > 0 || i < 0 || q.closed {
		return // close closes those that are left
	}
	q.producers = slices.Delete(q.producers, i, i+1)
	q.wg.Go(p.close)
}

// put takes a call in; false: the log is closed.
func (q *queue) put(c *call) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.calls++
	t := q.topics[c.topic]
	if t == nil {
		t = &topicQueue{name: c.topic}
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
	q.mu.Unlock()
	q.signal()
	return true
}

// signal makes pump look.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// place puts the items of a call into their partitions; the lock is held.
func (q *queue) place(t *topicQueue, c *call) {
	for i := range c.items {
		it := &c.items[i]
		p := t.choose(it)
		it.part, it.state, it.msg.Partition = p, p.state, p.number
		p.items = append(p.items, it)
		q.makeReady(p)
	}
}

// choose is the partition of an event.
func (t *topicQueue) choose(it *item) *partQueue {
	if key := it.msg.Key; key != nil {
		b, _ := key.Encode() // a string: never fails
		return t.parts[partitionOf(string(b), len(t.parts))]
	}
	if t.runEvents++; t.runEvents > runEvents || t.runBytes > runBytes {
		t.run, t.runEvents, t.runBytes = t.run+1, 1, 0
	}
	t.runBytes += it.msg.Value.Length()
	return t.parts[t.run%len(t.parts)]
}

// makeReady notes that a partition has messages to send, where it may send
// them; the lock is held.
func (q *queue) makeReady(p *partQueue) {
	sendable := p.inFlight == 0 || p.producer == q.producer && p.inFlight < inFlight
	if !p.isReady && len(p.items) > 0 && sendable {
		p.isReady = true
		q.ready = append(q.ready, p)
	}
}

// take takes messages for the producer, of each partition in turn.
func (q *queue) take(dst []*item) ([]*item, *producer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.ready) > 0 && len(dst) < sendBatch {
		p := q.ready[0]
		q.ready = q.ready[1:]
		p.isReady = false
		if p.inFlight > 0 && p.producer != q.producer {
			continue // the producer has just been renewed
		}
		p.producer = q.producer
		n := min(len(p.items), inFlight-p.inFlight, sendBatch-len(dst))
		dst = append(dst, p.items[:n]...)
		clear(p.items[:n])
		p.items = p.items[n:]
		p.inFlight += n
		q.producer.messages += n
		q.makeReady(p)
	}
	return dst, q.producer
}

// landed notes that the producer has dealt with items.
func (q *queue) landed(items []*item) {
	q.mu.Lock()
	for _, it := range items {
		p := it.part
		p.inFlight--
		p.producer.messages--
		q.retire(p.producer)
		q.makeReady(p)
	}
	q.mu.Unlock()
	q.signal()
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
	var info *topicInfo
	var err error
	if t.info == nil {
		info, err = q.l.ensure(q.lookups, t.name)
	} else {
		info, err = q.lookForMore(t)
	}
	if q.lookups.Err() != nil {
		err = errClosed()
	}
	q.mu.Lock()
	t.looking, t.looked = false, time.Now()
	var failed []*call
	switch {
	case err == nil && len(info.parts) == 0:
		err = fmt.Errorf("kafka: topic %q has no partitions yet: %w", t.name, storage.ErrUnavailable)
		failed = q.drop(t)
	case err == nil:
		if t.info != nil && t.info.id != info.id {
			q.renew()
		}
		t.use(q.l, info)
		for _, c := range t.waiting {
			q.place(t, c)
		}
		t.waiting = nil
	case t.info == nil || errors.Is(err, storage.ErrTopicNotFound):
		failed = q.drop(t)
	}
	q.mu.Unlock()
	for _, c := range failed {
		q.l.fail(c, err)
	}
	q.signal()
}

// lookForMore asks whether a topic has got more partitions; the producer must
// know of them first.
func (q *queue) lookForMore(t *topicQueue) (*topicInfo, error) {
	info, err := q.l.meta.ask(q.lookups, t.name)
	if err == nil && len(info.parts) != len(t.parts) {
		q.mu.Lock()
		p := q.producer
		q.mu.Unlock()
		err = p.refresh(t.name)
	}
	return info, err
}

// drop makes the next Append to a topic look it up; the lock is held. It
// returns the calls that wait for that.
func (q *queue) drop(t *topicQueue) []*call {
	if q.topics[t.name] == t {
		delete(q.topics, t.name)
	}
	waiting := t.waiting
	t.waiting = nil
	return waiting
}

// use takes in what is known of a topic.
func (t *topicQueue) use(l *Log, info *topicInfo) {
	t.info = info
	t.parts = t.parts[:min(len(t.parts), len(info.parts))]
	for i := len(t.parts); i < len(info.parts); i++ {
		t.parts = append(t.parts, &partQueue{name: strconv.Itoa(i), number: int32(i)})
	}
	for i, p := range t.parts {
		p.state = l.states.of(t.name, info.id, int32(i))
	}
}

// forget fails what is queued for a topic that was deleted.
func (q *queue) forget(topic string) {
	var items []*item
	q.mu.Lock()
	t := q.topics[topic]
	if t != nil && t.info != nil {
		delete(q.topics, topic)
		q.renew()
		for _, p := range t.parts {
			items = append(items, p.items...)
			p.items = nil
		}
	}
	q.mu.Unlock()
	for _, it := range items {
		q.l.finish(it, fmt.Errorf("kafka: topic %q was deleted: %w", topic, storage.ErrTopicNotFound))
	}
}

// pump hands messages to the producer.
func (q *queue) pump() {
	var items []*item
	for {
		select {
		case <-q.ended:
			return
		case <-q.wake:
		}
		for {
			var p *producer
			if items, p = q.take(items[:0]); len(items) == 0 {
				break
			}
			p.send(items)
		}
	}
}

// close lets what was appended be written, for as long as RequestTimeout; the
// rest fails.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.tellIdle()
	q.mu.Unlock()
	q.stop()
	timer := time.NewTimer(q.l.opts.RequestTimeout)
	defer timer.Stop()
	select {
	case <-q.idle:
	case <-timer.C:
		for _, p := range q.left() {
			p.hurry()
		}
		q.failQueued()
	}
	<-q.idle
	close(q.ended)
	q.wg.Wait()
	for _, p := range q.left() {
		p.close()
	}
}

// left lists the producers that are not closed.
func (q *queue) left() []*producer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.producers)
}

// failQueued fails what the producer has not got yet.
func (q *queue) failQueued() {
	var items []*item
	q.mu.Lock()
	for _, t := range q.topics {
		for _, p := range t.parts {
			items = append(items, p.items...)
			p.items = nil
		}
	}
	q.mu.Unlock()
	for _, it := range items {
		q.l.finish(it, errClosed())
	}
}

package ackmesh

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	"github.com/ackmesh/ackmesh/frame"
)

// maxPartial is how many requests that are not full may be under way. With fewer,
// an event is sent at once; with so many, what comes in the meantime gathers until
// a request is full or one is answered. The server gathers commits in the same
// way, so waiting costs no more than it saves.
const maxPartial = 4

// publisher gathers events into requests and keeps account of them until they are
// answered. pubstream.go sends them.
type publisher struct {
	c    *Client
	cfg  *PublishConfig
	room *semaphore.Weighted
	wake chan struct{} // has a token when there may be something to do
	done chan struct{} // closed when run has ended

	answers atomic.Uint64 // received so far
	talking sync.Mutex    // held while results are told: one at a time

	mu      sync.Mutex
	started bool
	closed  bool
	lastID  uint64
	ages    uint64               // of the youngest batch
	open    map[string]*pubBatch // of each topic the batch in queue that takes more
	queue   []*pubBatch          // to be sent
	later   []*pubBatch          // to be sent again when due
	sent    []*pubBatch          // under way, in the order of sending
	telling []*pubBatch          // answered or given up, and their results are being told
	partial int                  // of sent, those not full
	slow    map[string]*pace     // of each topic that was published to too fast
	looked  time.Time            // when take looked for the next request
	bounds  requestBounds
}

func newPublisher(c *Client) *publisher {
	return &publisher{
		c: c, cfg: &c.cfg.Publish,
		room: semaphore.NewWeighted(c.cfg.Publish.MaxInFlightBytes),
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		open: make(map[string]*pubBatch),
		slow: make(map[string]*pace),
	}
}

// add takes an event in. it says who waits for it.
func (p *publisher) add(ctx context.Context, topic string, e *Event, it pubItem) error {
	if e == nil {
		return badEvent("it is nil")
	}
	if err := e.check(); err != nil {
		return err
	}
	var f wire.Frame
	e.complete(&f, p.c.cfg.Source, p.c.ids)
	if n := len(f.Attrs) + f.Extras; n > frame.MaxPublishAttributes {
		return badEvent("%d attributes with the id and source that are filled in, at most %d", n, frame.MaxPublishAttributes)
	}
	size := f.Size()
	it.weight = min(int64(size), p.cfg.MaxInFlightBytes)
	if err := p.acquire(ctx, it.weight); err != nil {
		return err
	}
	if err := p.enqueue(topic, &f, size, it); err != nil {
		p.room.Release(it.weight)
		return err
	}
	return nil
}

// acquire waits for room.
func (p *publisher) acquire(ctx context.Context, weight int64) error {
	if p.room.TryAcquire(weight) {
		return nil
	}
	if err := p.room.Acquire(ctx, weight); err != nil {
		return fmt.Errorf("ackmesh: publish: %w while %d bytes in flight are the most", err, p.cfg.MaxInFlightBytes)
	}
	return nil
}

func (p *publisher) enqueue(topic string, f *wire.Frame, size int, it pubItem) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	bytes, events := p.most()
	b := p.open[topic]
	if b == nil || !b.fits(size, bytes, events) || time.Until(b.expires) < p.cfg.Timeout-p.cfg.Timeout/8 {
		b = p.begin(topic, size)
	}
	b.add(f, size, it)
	b.full = len(b.items) >= events || len(*b.bytes) >= bytes
	if len(b.items) == 1 || b.full {
		p.signal()
	}
	return nil
}

// begin makes a new open batch for a topic; the one before is full, or so old that
// an event in it would be tried for too short a time.
func (p *publisher) begin(topic string, size int) *pubBatch {
	if old := p.open[topic]; old != nil {
		old.full = true
		p.signal()
	}
	capacity := max(p.cfg.MaxBatchBytes, wire.EventFieldSize(size)+len(topic)) + 16
	b := newBatch(topic, capacity, time.Now().Add(p.cfg.Timeout))
	p.ages++
	b.age = p.ages
	p.open[topic] = b
	p.queue = append(p.queue, b)
	if !p.started {
		p.started = true
		go p.run()
	}
	return b
}

// signal tells run that there may be something to do.
func (p *publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns the next request to send, sealed and counted as sent; nil if none
// may be sent now.
func (p *publisher) take(now time.Time) *pubBatch {
	for {
		b, hopeless := p.pick(now)
		if hopeless == nil {
			return b
		}
		p.fail([]*pubBatch{hopeless}, p.sizeError(hopeless))
	}
}

// pick is take, but for an event that is too large to be sent, which is off the lists
// and for the caller to fail.
func (p *publisher) pick(now time.Time) (b, hopeless *pubBatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bringDue(now)
	p.looked = now
	i := p.nextToSend(now)
	if i < 0 {
		return nil, nil
	}
	if hopeless = p.divide(i); hopeless != nil {
		return nil, hopeless
	}
	b = p.queue[i]
	p.queue = slices.Delete(p.queue, i, i+1)
	if p.open[b.topic] == b {
		delete(p.open, b.topic)
	}
	if b.buf == nil {
		p.lastID++
		b.seal(p.lastID)
	}
	p.sent = append(p.sent, b)
	if !b.full {
		p.partial++
	}
	if s := p.slow[b.topic]; s != nil {
		s.room--
	}
	return b, nil
}

// bringDue puts what is to be sent again and is due back in the queue, before what is
// younger. p.mu is held.
func (p *publisher) bringDue(now time.Time) {
	p.later = slices.DeleteFunc(p.later, func(b *pubBatch) bool {
		if b.due.After(now) {
			return false
		}
		i := slices.IndexFunc(p.queue, func(q *pubBatch) bool { return q.age > b.age })
		if i < 0 {
			i = len(p.queue)
		}
		p.queue = slices.Insert(p.queue, i, b)
		return true
	})
}

// answered takes the answered request off the list. Answers come in order.
func (p *publisher) answered(id uint64) (*pubBatch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) == 0 || p.sent[0].id != id {
		return nil, status.Errorf(codes.Internal, "ackmesh: answer to request %d, which is not the next one", id)
	}
	b := p.sent[0]
	p.sent = slices.Delete(p.sent, 0, 1)
	p.telling = append(p.telling, b)
	if !b.full {
		p.partial--
	}
	p.signal()
	return b, nil
}

// settle tells the events of an answered request their results, and puts those
// that are to be repeated into a new one.
func (p *publisher) settle(b *pubBatch, r *wire.PublishResponse) {
	whole := statusError(r.Status)
	if len(r.Events) != len(b.items) && (len(r.Events) > 0 || whole == nil) {
		whole = status.Errorf(codes.Internal, "ackmesh: answer names %d events of %d", len(r.Events), len(b.items))
	}
	inParts := p.refusedForSize(b, whole)
	p.talking.Lock()
	var again *pubBatch
	var partition string
	now, fate := time.Now(), fates{}
	for i, it := range b.items {
		err := whole
		var e *wire.PublishedEvent
		if len(r.Events) == len(b.items) {
			e = &r.Events[i]
			err = statusError(e.Status)
		}
		fate.follows(err)
		if (fate.repeatable || inParts) && now.Add(fate.wait).Before(b.expires) {
			again = p.again(again, b, it, now, &fate)
			continue
		}
		p.finish(b, it, e, b.told(err), &partition)
	}
	p.talking.Unlock()
	if inParts && again != nil { // at once, since the server waits for nothing
		again.due = now
	}
	p.paced(b.topic, fate.longest, fate.why)
	p.conclude(b, again)
}

// again adds an event of b to what is to be sent again. The pause before is what the
// answer asks for, else one of ours.
func (p *publisher) again(again, b *pubBatch, it pubItem, now time.Time, why *fates) *pubBatch {
	if again == nil {
		again = newBatch(b.topic, len(*b.bytes)+topicFieldSize(b.topic), b.expires)
		again.age, again.tries, again.full, again.open = b.age, b.tries, true, b.open
	}
	due := now.Add(why.wait)
	if why.wait <= 0 && again.tries == b.tries {
		again.tries++
		pauses := backoff{min: p.c.cfg.BackoffMin, max: p.c.cfg.BackoffMax, attempt: b.tries}
		due = now.Add(pauses.next())
	}
	if due.After(again.due) {
		again.due = due
	}
	again.last, again.open = why.err, again.open || !undone(why.err)
	again.readd(b, it)
	return again
}

// finish tells one event its result. partition is the last one's, which is mostly
// this one's too.
func (p *publisher) finish(b *pubBatch, it pubItem, e *wire.PublishedEvent, err error, partition *string) {
	p.room.Release(it.weight)
	if !it.wanted() {
		return
	}
	r := Result{Err: err}
	if e != nil {
		r.ID = string(e.ID)
		if err == nil {
			if *partition != string(e.Partition) {
				*partition = string(e.Partition)
			}
			r.Partition, r.Offset = *partition, e.Offset
		}
	}
	if r.ID == "" {
		r.ID = b.eventID(it)
	}
	it.tell(r)
}

// conclude ends a request; again, if not nil, takes over whom it owes.
func (p *publisher) conclude(b, again *pubBatch) {
	p.mu.Lock()
	p.telling = slices.DeleteFunc(p.telling, func(x *pubBatch) bool { return x == b })
	flushes := b.flushes
	b.flushes = nil
	if again != nil {
		again.flushes, flushes = flushes, nil
		p.later = append(p.later, again)
		p.signal()
	}
	p.mu.Unlock()
	for _, f := range flushes {
		f.finish()
	}
	b.free()
}

// flush returns a channel that is closed when all that was taken is answered.
func (p *publisher) flush() <-chan struct{} {
	w := &flushWait{done: make(chan struct{})}
	w.left.Store(1)
	p.mu.Lock()
	for _, list := range [][]*pubBatch{p.queue, p.later, p.sent, p.telling} {
		for _, b := range list {
			b.flushes = append(b.flushes, w)
			w.left.Add(1)
		}
	}
	p.mu.Unlock()
	w.finish()
	return w.done
}

// fail ends requests with an error.
func (p *publisher) fail(batches []*pubBatch, err error) {
	var none string
	for _, b := range batches {
		p.talking.Lock()
		for _, it := range b.items {
			p.finish(b, it, nil, err, &none)
		}
		p.talking.Unlock()
		p.conclude(b, nil)
	}
}

// lists are all the lists of requests, in the order of their age.
func (p *publisher) lists() []*[]*pubBatch { return []*[]*pubBatch{&p.sent, &p.later, &p.queue} }

// drop takes off the lists, and returns, the requests that which says. The caller
// fails them.
func (p *publisher) drop(which func(*pubBatch) bool, lists ...*[]*pubBatch) []*pubBatch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var dropped []*pubBatch
	for _, list := range lists {
		for _, b := range *list {
			if which(b) {
				dropped = append(dropped, b)
			}
		}
		*list = slices.DeleteFunc(*list, which)
	}
	for _, b := range dropped {
		if p.open[b.topic] == b {
			delete(p.open, b.topic)
		}
	}
	p.telling = append(p.telling, dropped...)
	return dropped
}

// expire fails what has been tried for too long.
func (p *publisher) expire(last error, lists ...*[]*pubBatch) {
	now := time.Now()
	late := p.drop(func(b *pubBatch) bool { return !now.Before(b.expires) }, lists...)
	for _, b := range late {
		p.fail([]*pubBatch{b}, p.lateError(b, last))
	}
}

// requeue puts what was under way on a broken stream back in front, in order. They
// count as full, since they take no more.
func (p *publisher) requeue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.sent {
		b.full, b.open = true, true
	}
	p.restart()
	p.queue = append(slices.Clone(p.sent), p.queue...)
	p.sent, p.partial = nil, 0
}

// nextEvent is when something will be due or expire; the zero time if nothing.
func (p *publisher) nextEvent() time.Time {
	t := p.nextExpiry()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.later {
		t = earlier(t, b.due)
	}
	if paced := p.nextPaced(); !paced.IsZero() {
		t = earlier(t, paced)
	}
	return t
}

// nextExpiry is when something will expire; the zero time if nothing.
func (p *publisher) nextExpiry() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var t time.Time
	for _, b := range p.later {
		t = earlier(t, b.expires)
	}
	for _, list := range [][]*pubBatch{p.sent, p.queue} { // the oldest first
		if len(list) > 0 {
			t = earlier(t, list[0].expires)
		}
	}
	return t
}

// earlier is the earlier time; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// idle reports whether nothing is owed, and whether no more will come.
func (p *publisher) idle() (idle, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)+len(p.later)+len(p.sent) == 0, p.closed
}

// close takes no more, and returns when all that was taken is answered, or the
// Client is cut off.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	started := p.started
	p.mu.Unlock()
	p.signal()
	if started {
		<-p.done
	}
}

package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/cursorfile"
)

const (
	defaultMaxRecords = 4096
	defaultMaxBytes   = 1 << 20
	// holdTime is how long a broker is asked to hold one pull; a longer wait is
	// several. It is also how soon it is noticed that a queue shrank.
	holdTime = 5 * time.Second
	// unseenPause is the pause before a message is looked for again that is not
	// visible yet.
	unseenPause = 10 * time.Millisecond
	// unavailablePause is how often a broker that is down is looked for.
	unavailablePause = 100 * time.Millisecond
)

// reading is a Poll under way.
type reading struct {
	l     *Log
	req   storage.PollRequest
	batch *storage.Batch
	until time.Time // end of the wait

	at    *place
	start int64
	size  int             // bytes of frames in the batch
	moved int             // pulls that the broker found to be outside its bounds
	mark  cursorfile.Mark // of the pull offset
}

// Poll implements storage.Backend. It reads in the caller's goroutine. Where a
// pull brought more than was asked for, the rest is kept for a Poll that goes on
// there. With Start = Cursor and none set it begins at the minimum.
func (l *Log) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	if req.Start < 0 && req.Start != storage.Cursor {
		return fmt.Errorf("rocketmq4: topic %q partition %q: start %d is below 0: %w", req.Topic, req.Partition, req.Start, storage.ErrInvalid)
	}
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	req.Default(defaultMaxRecords, defaultMaxBytes)
	r := &reading{l: l, req: req, batch: batch, until: time.Now().Add(req.Wait)}
	if err := r.run(inner); err != nil {
		batch.Reset()
		return l.outcome(ctx, err)
	}
	return nil
}

func (r *reading) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := r.patient(ctx)
	if errors.Is(err, storage.ErrTopicChanged) && r.req.TopicID == "" {
		// It was made again before this Poll began, as far as the caller knows.
		r.batch.Reset()
		err = r.patient(ctx)
	}
	return err
}

// patient reads; a broker that is down, or has moved, is looked for as long as
// the wait lasts.
func (r *reading) patient(ctx context.Context) error {
	since := time.Time{}
	for {
		err := r.once(ctx, since)
		if !errors.Is(err, storage.ErrUnavailable) || time.Until(r.until) < unavailablePause || r.moved > maxMoved {
			return err
		}
		if err := sleep(ctx, unavailablePause); err != nil {
			return err
		}
		r.batch.Reset()
		since = time.Now()
	}
}

// once reads, knowing of the topic what was told after since.
func (r *reading) once(ctx context.Context, since time.Time) error {
	if err := r.begin(ctx, since); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return r.missing(ctx, err)
	}
	rebase(r.batch)
	if r.req.Start == storage.Cursor && r.batch.Next > r.batch.Start {
		r.l.cursors.Move(r.mark, r.batch.Next)
	}
	return nil
}

// missing makes sure that a topic which a broker does not know is missing.
func (r *reading) missing(ctx context.Context, err error) error {
	if !errors.Is(err, storage.ErrTopicNotFound) {
		return err
	}
	t, askErr := r.l.meta.ask(ctx, r.at.topic)
	switch {
	case askErr != nil:
		return r.l.notFound(r.at.topic, askErr)
	case t.id != r.at.topicID:
		return changedTo(r.at, t.id)
	}
	return fmt.Errorf("rocketmq4: %v: the name server has a route, but broker %s does not know the topic, and says %q: %w", r.at, r.at.broker, err.Error(), storage.ErrUnavailable)
}

// changedTo says that a topic was made again.
func changedTo(at *place, id string) error {
	return fmt.Errorf("rocketmq4: %w: topic %q has the identity %q, not %q", storage.ErrTopicChanged, at.topic, id, at.topicID)
}

// begin finds the queue and where to start.
func (r *reading) begin(ctx context.Context, since time.Time) (err error) {
	if r.at, err = r.l.place(ctx, r.req.Topic, r.req.Partition, since); err != nil {
		return err
	}
	if r.req.TopicID != "" && r.req.TopicID != r.at.topicID {
		return fmt.Errorf("rocketmq4: %w: topic %q has the identity %q, not %q", storage.ErrTopicChanged, r.at.topic, r.at.topicID, r.req.TopicID)
	}
	if err := r.l.ready(ctx, r.at); err != nil {
		return err
	}
	r.start, r.size = r.req.Start, 0
	if r.start == storage.Cursor {
		next, set, mark := r.l.cursors.Begin(r.at.topic, r.at.topicID, r.at.name)
		if r.mark = mark; !set {
			if next, _, err = r.l.boundsNow(ctx, r.at, 0); err != nil {
				return err
			}
		}
		r.start = next
	}
	r.batch.Start, r.batch.Next = r.start, r.start
	return nil
}

// fill reads until there is a record, or the wait is over.
func (r *reading) fill(ctx context.Context) error {
	if c, ok := r.at.state.remnants.Take(r.start); ok {
		return r.deliver(c)
	}
	for {
		if err := r.inRange(ctx); err != nil {
			return err
		}
		if r.start < r.at.state.highest() {
			done, err := r.more(ctx)
			if done || err != nil {
				return err
			}
			continue
		}
		left := time.Until(r.until)
		if left <= 0 {
			return nil
		}
		if err := r.await(ctx, min(left, holdTime)); err != nil {
			return err
		}
	}
}

// more reads what is there. It is done when there are records, or the wait is
// over and there is nothing more.
func (r *reading) more(ctx context.Context) (done bool, err error) {
	c, err := r.l.checked(ctx, r.at, r.start)
	switch {
	case errors.Is(err, errMoved):
		return false, r.outOfDate(ctx)
	case err != nil:
		return false, err
	case c.first() == r.start && len(c.msgs) > 0:
		return true, r.deliverAll(ctx, c)
	case c.first() > r.start && r.at.state.isGap(r.start):
		return false, r.pass(ctx, c.first())
	}
	// The message is not visible, though the maximum is above it.
	if left := time.Until(r.until); left > 0 {
		return false, sleep(ctx, min(unseenPause, left))
	}
	return true, nil
}

// first is the offset of the first message, or where reading goes on.
func (c *chunk) first() int64 {
	if len(c.msgs) > 0 {
		return c.msgs[0].QueueOffset
	}
	return c.next
}

// pass goes on behind a gap, unless it reaches down to the minimum: then
// retention has removed what was there, and inRange says so.
func (r *reading) pass(ctx context.Context, next int64) error {
	if err := r.l.findLow(ctx, r.at); err != nil {
		return err
	}
	if r.at.state.gone(r.start) {
		return nil
	}
	r.l.opts.Logger.Warn("rocketmq4: messages are missing amid a queue", "topic", r.at.topic, "partition", r.at.name, "from", r.start, "to", next-1)
	r.start, r.batch.Next = next, next
	return nil
}

// gone tells whether an offset is below all that is left.
func (p *partition) gone(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.removed
}

// outOfDate forgets bounds that a broker has contradicted. One that goes on to
// contradict itself is not asked for ever: it leaves a message about each pull.
func (r *reading) outOfDate(ctx context.Context) error {
	r.at.state.mu.Lock()
	r.at.state.toldAt = time.Time{}
	r.at.state.mu.Unlock()
	if r.moved++; r.moved > maxMoved {
		return fmt.Errorf("rocketmq4: %v: the broker refuses offset %d, which is within the bounds that it tells: %w", r.at, r.start, storage.ErrUnavailable)
	}
	return sleep(ctx, unseenPause)
}

// maxMoved is how often a broker may contradict its bounds within one Poll.
const maxMoved = 3

// await waits at the broker for a message at r.start.
func (r *reading) await(ctx context.Context, wait time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err := r.l.pull(limited, r.at, r.start, 1, wait)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errMoved):
		return r.outOfDate(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return nil // the broker looks at its clock seldom
	}
	return err
}

// deliverAll delivers a chunk, and what follows as long as there is room and
// more to come.
func (r *reading) deliverAll(ctx context.Context, c *chunk) error {
	for {
		if err := r.deliver(c); err != nil {
			return err
		}
		room := len(r.batch.Records) <= r.req.MaxRecords/2 && r.size <= r.req.MaxBytes/2
		if r.batch.Next != c.next || c.next >= r.at.state.highest() || !room {
			return nil
		}
		next, err := r.l.checked(ctx, r.at, c.next)
		if err != nil || len(next.msgs) == 0 || next.first() != c.next {
			return nil //nolint:nilerr // there are records: the next Poll tells
		}
		c = next
	}
}

// deliver puts messages into the batch, as many as are wanted, and keeps the
// rest.
func (r *reading) deliver(c *chunk) error {
	n, err := r.l.pack(r, c.msgs)
	if err != nil {
		return err
	}
	r.batch.Next = c.next
	if n < len(c.msgs) {
		rest := &chunk{start: c.msgs[n].QueueOffset, msgs: c.msgs[n:], next: c.next}
		r.batch.Next = rest.start
		r.at.state.remnants.Keep(rest.start, 0, rest)
	}
	return nil
}

// inRange makes sure that r.start is within bounds that were told lately, of a
// queue that was known again lately.
func (r *reading) inRange(ctx context.Context) error {
	low, high, told := r.at.state.bounds()
	doubtful := r.at.state.isDoubtful()
	if low <= r.start && r.start <= high && time.Since(told) < boundsAge && !doubtful {
		return nil
	}
	if low <= r.start && r.start <= high && !told.IsZero() && r.at.master() == "" && len(r.at.addrs) > 0 {
		return nil // a slave goes on while there is no master
	}
	low, high, err := r.l.boundsNow(ctx, r.at, r.start)
	inside := low <= r.start && r.start <= high
	if err == nil && (!inside || doubtful) {
		err = r.l.verify(ctx, r.at)
	}
	if err != nil || inside {
		return err
	}
	r.l.opts.Observe.OutOfRange(r.at.topic, r.at.name, r.start, low, high)
	return fmt.Errorf("rocketmq4: %w", &storage.RangeError{Topic: r.at.topic, Partition: r.at.name, Offset: r.start, Min: low, Max: high})
}

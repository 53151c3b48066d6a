package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/cursorfile"
)

const (
	defaultMaxRecords = 4096
	defaultMaxBytes   = 1 << 20
	minFetchBytes     = 64 << 10
	// aheadBytes is what may be fetched ahead, in all partitions together,
	// before fetches ask for no more than tightFetchBytes.
	aheadBytes      = 64 << 20
	tightFetchBytes = 1 << 20
)

// reading is a Poll under way.
type reading struct {
	l     *Log
	req   storage.PollRequest
	batch *storage.Batch
	until time.Time // end of the wait
	fresh bool      // the topic's identity was asked for during this Poll

	at    place
	start int64
	mark  cursorfile.Mark // of the pull offset
}

// Poll implements storage.Backend. It reads in the caller's goroutine, on a
// connection of its own while it does. Where a fetch brought more than was
// asked for, the rest is kept for a Poll that goes on there, and what follows is
// fetched meanwhile. With Start = Cursor and none set it begins at the minimum.
func (l *Log) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	if req.Start < 0 && req.Start != storage.Cursor {
		return fmt.Errorf("kafka: topic %q partition %q: start %d is below 0: %w", req.Topic, req.Partition, req.Start, storage.ErrInvalid)
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
	err := r.once(ctx, time.Time{})
	if errors.Is(err, storage.ErrTopicChanged) && r.req.TopicID == "" && !r.fresh {
		// It was made again before this Poll began.
		r.batch.Reset()
		err = r.once(ctx, time.Now())
	}
	return err
}

// once reads, knowing of the topic what was told after since.
func (r *reading) once(ctx context.Context, since time.Time) error {
	if err := r.begin(ctx, since); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	if r.req.Start == storage.Cursor && r.batch.Next > r.batch.Start {
		r.l.cursors.Move(r.mark, r.batch.Next)
	}
	return nil
}

// begin finds the partition and where to start.
func (r *reading) begin(ctx context.Context, since time.Time) (err error) {
	began := time.Now()
	if r.at, err = r.l.place(ctx, r.req.Topic, r.req.Partition, since); err != nil {
		return err
	}
	if !r.identityFits() {
		if r.at, err = r.l.place(ctx, r.req.Topic, r.req.Partition, time.Now()); err != nil {
			return err
		}
		if !r.identityFits() {
			return fmt.Errorf("kafka: %w: topic %q has the identity %q, not %q", storage.ErrTopicChanged, r.at.topic, r.at.topicID, r.req.TopicID)
		}
	}
	r.fresh = !r.at.askedAt.Before(began)
	r.start = r.req.Start
	if r.start == storage.Cursor {
		err = r.atCursor(ctx)
	}
	r.batch.Start, r.batch.Next = r.start, r.start
	return err
}

func (r *reading) identityFits() bool { return r.req.TopicID == "" || r.req.TopicID == r.at.topicID }

func (r *reading) atCursor(ctx context.Context) (err error) {
	next, set, mark := r.l.cursors.Begin(r.at.topic, r.at.topicID, r.at.name)
	r.mark = mark
	if !set {
		next, err = r.l.offset(ctx, &r.at, sarama.OffsetOldest, r.until)
	}
	r.start = next
	return err
}

// fill reads until there is a record, or nothing but offsets that hold none up to
// the end, or the wait is over.
func (r *reading) fill(ctx context.Context) error {
	if c := r.at.partition.takeComing(ctx, r.start); c != nil {
		return r.deliver(c)
	}
	pause := time.Duration(0)
	for {
		if pause > 0 {
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
		c, err := r.fetch(ctx)
		if err != nil {
			return err
		}
		if len(c.pieces) > 0 {
			return r.deliver(c)
		}
		// An empty answer at once, although there are offsets: nothing but
		// batches that compaction has emptied.
		pause = min(2*pause+10*time.Millisecond, 500*time.Millisecond)
		if c.next > r.start || c.end <= r.start {
			pause = 0
		}
		r.start = c.next
		r.batch.Next = c.next
		if c.next >= c.end && c.next > r.batch.Start {
			return nil
		}
		if left := time.Until(r.until); left <= pause && (c.next >= c.end || pause > 0) {
			return nil
		}
	}
}

// fetch reads from r.start on, wherever the leader goes meanwhile.
func (r *reading) fetch(ctx context.Context) (c *chunk, err error) {
	err = r.l.atLeader(ctx, &r.at, r.until, func(ctx context.Context, addr string) (err error) {
		wait := min(max(time.Until(r.until), 0), maxFetchWait)
		bytes, done := r.fetchBytes()
		defer done()
		c, err = r.l.fetch(ctx, addr, &r.at, r.start, bytes, wait)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			return r.outOfRange(ctx)
		}
		return err
	})
	return c, err
}

// fetchBytes is how much to ask for: at the pull offset more than is wanted
// now, for it is where reading goes on. A request costs a broker as much as
// some hundred kilobytes, so far behind the end it is a lot more, while there
// is room for that until done is called.
func (r *reading) fetchBytes() (n int, done func()) {
	if r.req.Start != storage.Cursor {
		return max(minFetchBytes, r.req.MaxBytes), func() {}
	}
	n = r.l.opts.FetchBytes
	ahead := &r.l.states.ahead
	if r.at.partition.seen.Load() > r.start && ahead.Load() < aheadBytes {
		ahead.Add(int64(n))
		return max(n, r.req.MaxBytes), func() { ahead.Add(-int64(n)) }
	}
	return max(min(n, tightFetchBytes), r.req.MaxBytes), func() {}
}

// outOfRange finds out what an offset that the broker refuses is outside of.
// The topic may have been made again, or the bounds be such that it should
// not have refused: then it is tried again.
func (r *reading) outOfRange(ctx context.Context) error {
	again, err := r.l.place(ctx, r.at.topic, r.at.name, time.Now())
	if err != nil {
		return err
	}
	if again.topicID != r.at.topicID {
		return changed(&r.at, again.topicID)
	}
	r.at = again
	low, high, err := r.l.bounds(ctx, &r.at, r.until)
	switch {
	case err != nil:
		return err
	case high == 0 && r.start > 0:
		return fmt.Errorf("kafka: %v: the broker says that it is empty and always was, but it was read up to %d: %w", r.at, r.start, storage.ErrUnknown)
	case low <= r.start && r.start <= high:
		return fmt.Errorf("kafka: %v: the broker refuses offset %d, and says that it holds %d to %d: %w", r.at, r.start, low, high, storage.ErrUnavailable)
	}
	r.l.opts.Observe.OutOfRange(r.at.topic, r.at.name, r.start, low, high)
	return fmt.Errorf("kafka: %w", &storage.RangeError{Topic: r.at.topic, Partition: r.at.name, Offset: r.start, Min: low, Max: high})
}

// deliver puts records into the batch, as many as are wanted, and keeps the
// rest.
func (r *reading) deliver(c *chunk) error {
	if err := r.l.pack(r.batch, c, r.req.MaxRecords, r.req.MaxBytes); err != nil {
		return err
	}
	r.batch.Next = c.start
	if len(c.pieces) > 0 {
		r.prefetch(c)
		r.at.partition.keep(c)
	}
	return nil
}

package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Bounds of a batch where the request has none.
const (
	defaultRecords = 1000
	defaultBytes   = 1 << 20
)

// reading is a Poll under way.
type reading struct {
	topic      *topic
	part       *partition
	start      int64
	own        bool   // reads from the pull offset
	seeks      uint64 // of the partition when the Poll began
	maxRecords int
	maxBytes   int
	once       bool // does not wait
}

// Poll reads records of one partition. A pull offset that nothing has set
// counts as the minimum.
func (b *Backend) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := b.log.begin(req)
	if err != nil {
		return err
	}
	return b.poll(ctx, r, req.Wait, batch)
}

func (b *Backend) poll(ctx context.Context, r *reading, wait time.Duration, batch *storage.Batch) error {
	wake, err := r.read(b.log.opts.Clock(), batch)
	if err != nil || wake == nil || wait <= 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for err == nil && wake != nil {
		select {
		case <-wake:
			wake, err = r.read(b.log.opts.Clock(), batch)
		case <-timer.C:
			return nil
		case <-r.topic.gone:
			err = b.log.goneError(r.topic.name)
		case <-ctx.Done():
			err = ctx.Err()
		case <-b.done:
			err = fmt.Errorf("memory: %w", storage.ErrClosed)
		}
	}
	if err != nil {
		batch.Reset()
	}
	return err
}

// goneError says what became of a topic that was deleted under a reader.
func (l *log) goneError(name string) error {
	if _, err := l.lookup(name); err != nil {
		return err
	}
	return fmt.Errorf("memory: topic %q: %w", name, storage.ErrTopicChanged)
}

// newReading is a Poll with the bounds of a request.
func newReading(req storage.PollRequest) *reading {
	r := &reading{start: req.Start, maxRecords: req.MaxRecords, maxBytes: req.MaxBytes}
	if r.maxRecords <= 0 {
		r.maxRecords = defaultRecords
	}
	if r.maxBytes <= 0 {
		r.maxBytes = defaultBytes
	}
	return r
}

// begin finds what a request wants to read and where it starts.
func (l *log) begin(req storage.PollRequest) (*reading, error) {
	r := newReading(req)
	err := l.with(req.Topic, req.Partition, func(t *topic, p *partition) error {
		if req.TopicID != "" && req.TopicID != t.id {
			return fmt.Errorf("memory: topic %q has the identity %s, not %s: %w", t.name, t.id, req.TopicID, storage.ErrTopicChanged)
		}
		r.topic, r.part = t, p
		if req.Start == storage.Cursor {
			p.expire(l.opts.Clock(), t.retention)
			r.own, r.seeks, r.start = true, p.seeks, p.pullOffset()
		}
		return nil
	})
	return r, err
}

// pullOffset is where reading from the pull offset goes on.
func (p *partition) pullOffset() int64 {
	if p.cursor == noCursor {
		return p.min
	}
	return p.cursor
}

// read fills the batch. Where there is no record it returns a channel that
// is closed when there may be one.
func (r *reading) read(now time.Time, batch *storage.Batch) (wake <-chan struct{}, err error) {
	found, wake, err := r.take(now, batch)
	if err == nil {
		copyOut(found, batch)
	}
	return wake, err
}

// take chooses the records and moves the pull offset. Records do not change,
// so they are copied later, without the lock.
func (r *reading) take(now time.Time, batch *storage.Batch) (found []record, wake <-chan struct{}, err error) {
	t, p := r.topic, r.part
	t.mu.Lock()
	defer t.mu.Unlock()
	p.expire(now, t.retention)
	if r.start < p.min || r.start > p.next {
		return nil, nil, t.rangeError(p, r.start)
	}
	from := p.index(r.start)
	to := r.end(p.records, from)
	found = p.records[from:to]
	batch.Start, batch.Next = r.start, p.offsetAt(to)
	if len(found) == 0 && !r.once {
		wake = p.waiter()
	}
	if r.own && p.seeks == r.seeks {
		p.cursor = batch.Next
	}
	return found, wake, nil
}

// end is the place behind the last record that fits the batch.
func (r *reading) end(records []record, from int) int {
	to, bytes := from, 0
	for to < len(records) && to-from < r.maxRecords {
		bytes += len(records[to].frame)
		if bytes > r.maxBytes && to > from {
			break
		}
		to++
	}
	return to
}

// copyOut copies records into a batch.
func copyOut(found []record, batch *storage.Batch) {
	size := 0
	for _, r := range found {
		size += len(r.frame)
	}
	batch.Buf = slices.Grow(batch.Buf, size)
	batch.Records = slices.Grow(batch.Records, len(found))
	for _, r := range found {
		at := len(batch.Buf)
		batch.Buf = append(batch.Buf, r.frame...)
		frame := batch.Buf[at:len(batch.Buf):len(batch.Buf)]
		batch.Records = append(batch.Records, storage.Record{Offset: r.offset, Time: r.time, Frame: frame, LeaderEpoch: r.epoch})
	}
}

// Cursor is the pull offset of a partition; ok is false while nothing has set
// it, and for a topic or partition that is not there.
func (b *Backend) Cursor(topicName, partitionName string) (next int64, ok bool) {
	if err := b.enter(); err != nil {
		return 0, false
	}
	defer b.leave()
	next = noCursor
	err := b.log.with(topicName, partitionName, func(_ *topic, p *partition) error {
		next = p.cursor
		return nil
	})
	if err != nil || next == noCursor {
		return 0, false
	}
	return next, true
}

// Seek sets the pull offset. An offset outside the bounds is taken; the next
// Poll then fails with a RangeError. Errors: ErrTopicNotFound,
// ErrPartitionNotFound, ErrInvalid for an offset below 0, ErrClosed.
func (b *Backend) Seek(_ context.Context, topicName, partitionName string, next int64) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if next < 0 {
		return fmt.Errorf("memory: topic %q partition %q: pull offset %d is below 0: %w", topicName, partitionName, next, storage.ErrInvalid)
	}
	return b.log.with(topicName, partitionName, func(_ *topic, p *partition) error {
		p.cursor = next
		p.seeks++
		return nil
	})
}

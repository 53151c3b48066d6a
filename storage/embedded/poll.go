package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	defaultMaxRecords = 4096
	defaultMaxBytes   = 1 << 20
)

// poll is what one Poll needs, kept for the next.
type poll struct {
	runs  []runRef
	wake  chan struct{} // a token: look again
	timer *time.Timer
}

func newPoll() *poll {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &poll{wake: make(chan struct{}, 1), timer: t}
}

// Poll implements storage.Backend. It copies what it returns; it waits without
// a goroutine, and any number of idle partitions costs nothing but their
// callers. With Start = Cursor and none set it begins at the minimum.
func (l *Log) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	p, err := l.partition(req.Topic, req.Partition)
	if err != nil {
		return err
	}
	if req.TopicID != "" && req.TopicID != p.topic.id {
		return fmt.Errorf("embedded log: %w: topic %q has the identity %s, not %s", storage.ErrTopicChanged, req.Topic, p.topic.id, req.TopicID)
	}
	if req.MaxRecords <= 0 {
		req.MaxRecords = defaultMaxRecords
	}
	if req.MaxBytes <= 0 {
		req.MaxBytes = defaultMaxBytes
	}
	start, seeks := p.start(req.Start)
	ps, _ := l.polls.Get().(*poll) // it holds nothing else
	err = l.pollFrom(ctx, p, ps, start, req, batch)
	l.polls.Put(ps)
	if err != nil {
		batch.Reset()
		return err
	}
	if req.Start == storage.Cursor && batch.Next > batch.Start {
		l.moveCursor(p, batch.Next, seeks)
	}
	return nil
}

// start is where a poll begins, with the number of seeks so far.
func (p *partition) start(asked int64) (start int64, seeks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case asked != storage.Cursor:
		return asked, p.seeks
	case p.cursor == storage.Cursor:
		return p.min, p.seeks
	}
	return p.cursor, p.seeks
}

func (l *Log) pollFrom(ctx context.Context, p *partition, ps *poll, start int64, req storage.PollRequest, batch *storage.Batch) error {
	batch.Start, batch.Next = start, start
	if err := l.tryRead(p, ps, start, req, batch); err != nil || batch.Next > start || req.Wait <= 0 {
		return err
	}
	ps.timer.Reset(req.Wait)
	defer ps.timer.Stop()
	for {
		if p.await(start, ps.wake) {
			if over, err := l.sleep(ctx, ps); over || err != nil {
				p.unwait(ps.wake)
				return err
			}
		}
		if err := l.tryRead(p, ps, start, req, batch); err != nil || batch.Next > start {
			return err
		}
	}
}

// sleep waits for a wake; over tells that the time is up.
func (l *Log) sleep(ctx context.Context, ps *poll) (over bool, err error) {
	select {
	case <-ps.wake:
		return false, nil
	case <-ps.timer.C:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	case <-l.closing:
		return true, fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
}

// tryRead reads what is there now. Where nothing is, batch.Next is still
// start, or behind it if the rest up to the end is a gap.
func (l *Log) tryRead(p *partition, ps *poll, start int64, req storage.PollRequest, batch *storage.Batch) error {
	end, err := p.plan(ps, start, req)
	if err != nil {
		return err
	}
	if len(ps.runs) == 0 {
		batch.Next = end
		return nil
	}
	return l.readRuns(p, ps.runs, start, req, batch)
}

// plan lists the runs to read, enough for the request, and returns the end of
// the partition.
func (p *partition) plan(ps *poll, start int64, req storage.PollRequest) (end int64, err error) {
	ps.runs = ps.runs[:0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(start); err != nil || start == p.next {
		return p.next, err
	}
	records, bytes := 0, 0
	for it := p.runs.seek(start); records < req.MaxRecords && bytes < req.MaxBytes; it.next() {
		r, ok := it.run()
		if !ok {
			break
		}
		ps.runs = append(ps.runs, r)
		records += int(r.end() - max(r.first, start))
		if r.first >= start {
			bytes += r.size
		}
	}
	return p.next, nil
}

// check tells why an offset cannot be read. The caller holds mu.
func (p *partition) check(start int64) error {
	if p.topic.gone.Load() {
		return fmt.Errorf("embedded log: %w: %q was deleted", storage.ErrTopicNotFound, p.topic.name)
	}
	if start < p.min || start > p.next {
		return fmt.Errorf("embedded log: %w", &storage.RangeError{Topic: p.topic.name, Partition: p.name, Offset: start, Min: p.min, Max: p.next})
	}
	return nil
}

// await registers for a wake if there is nothing to read at start.
func (p *partition) await(start int64, wake chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next > start || p.min > start || p.topic.gone.Load() {
		return false
	}
	p.waiters = append(p.waiters, wake)
	return true
}

// unwait takes back await, whether the wake has come or not.
func (p *partition) unwait(wake chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiters {
		if w == wake {
			last := len(p.waiters) - 1
			p.waiters[i] = p.waiters[last]
			p.waiters = p.waiters[:last]
			return
		}
	}
	select {
	case <-wake:
	default:
	}
}

// wake wakes all who wait. The caller holds mu.
func (p *partition) wake() {
	for _, w := range p.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	clear(p.waiters)
	p.waiters = p.waiters[:0]
}

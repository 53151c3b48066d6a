package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// runKeeper saves the pull offsets and looks at retention now and then.
func (l *Log) runKeeper() {
	save, stopSave := ticker(l.opts.CheckpointInterval)
	defer stopSave()
	look, stopLook := ticker(l.opts.RetentionInterval)
	defer stopLook()
	retry, stopRetry := ticker(l.retryInterval())
	defer stopRetry()
	for {
		select {
		case <-l.closing:
			return
		case <-save:
			if err := l.Checkpoint(context.Background()); err != nil && !errors.Is(err, storage.ErrClosed) {
				l.opts.Logger.Warn("embedded log: checkpoint failed, tried again later", "err", err)
			}
		case <-look:
			l.lookAtRetention()
		case <-retry:
			l.retryTopics()
		}
	}
}

// retryInterval is how often a failed save of the topics is tried again.
func (l *Log) retryInterval() time.Duration {
	if l.opts.RetentionInterval > 0 {
		return min(time.Second, l.opts.RetentionInterval)
	}
	return time.Second
}

// ticker is a time.Ticker that never ticks where d is not positive.
func ticker(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// retryTopics writes the topics file again after a failure that left it open
// what is on disk.
func (l *Log) retryTopics() {
	if !l.unsaved.Load() || l.enter(context.Background()) != nil {
		return
	}
	defer l.leave()
	if err := l.saveTopics(l.allTopics(), nil); err != nil {
		l.opts.Logger.Warn("embedded log: topics not saved, no records are taken until they are", "err", err)
	}
}

func (l *Log) lookAtRetention() {
	if l.enter(context.Background()) != nil {
		return // closing
	}
	defer l.leave()
	if err := l.retain(); err != nil {
		l.opts.Logger.Warn("embedded log: retention failed, tried again later", "err", err)
	}
}

// retain moves the minima to what age and size leave, first on disk and then
// for readers, and frees segments that hold nothing else. The caller has
// entered, or is alone.
func (l *Log) retain() error {
	mins := l.newMins()
	if len(mins) > 0 {
		if err := l.saveTopics(l.allTopics(), mins); err != nil {
			return err
		}
		for p, m := range mins {
			p.setMin(m)
		}
	}
	return l.free()
}

// newMins finds the partitions whose minimum moves up. A clock that is set ahead
// makes no record older.
func (l *Log) newMins() map[*partition]int64 {
	cut := l.sizeCut()
	now := l.opts.Now()
	l.steps.Look(now, l.opts.Elapsed())
	mins := map[*partition]int64{}
	for _, t := range l.allTopics() {
		oldest := int64(math.MinInt64)
		if keep := l.keepFor(t); keep > 0 {
			oldest = now.Add(-keep).Add(-l.steps.Ahead(keep)).UnixMilli()
		}
		for _, p := range t.parts {
			if m := p.minAt(cut, oldest); m > 0 {
				mins[p] = m
			}
		}
	}
	return mins
}

// keepFor is how long a topic's records are kept; 0: for ever.
func (l *Log) keepFor(t *topic) time.Duration {
	keep := max(l.opts.Retention, 0)
	if t.retention > 0 && (keep == 0 || t.retention < keep) {
		keep = t.retention
	}
	return keep
}

// sizeCut is the position from which on the log fits MaxBytes: the begin of a
// segment.
func (l *Log) sizeCut() int64 {
	if l.opts.MaxBytes < 0 {
		return 0
	}
	segs := l.seg.Segments()
	_, end := l.seg.Bounds()
	for _, s := range segs {
		if end-s.Base <= l.opts.MaxBytes {
			return s.Base
		}
	}
	return segs[len(segs)-1].Base
}

// minAt is the minimum without runs before a position or older than a time; 0
// where that moves nothing.
func (p *partition) minAt(cut, oldest int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, ok := p.runs.first()
	if !ok || first.pos >= cut && first.time >= oldest {
		return 0
	}
	m := p.next
	it := p.runs.seekPos(cut)
	if r, ok := it.run(); ok {
		m = r.first
	}
	it = p.runs.seekTime(oldest)
	if r, ok := it.run(); !ok {
		m = p.next
	} else {
		m = max(m, r.first)
	}
	if m <= p.min {
		return 0
	}
	return m
}

// setMin moves the minimum up for readers.
func (p *partition) setMin(m int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m <= p.min {
		return
	}
	p.min = m
	p.runs.trim(m)
	p.wake()
}

// free removes the segments before the first that holds a live record. What is
// written and not yet readable is live, whatever the partitions say.
func (l *Log) free() error {
	live := l.readable.Load()
	first, _ := l.seg.Bounds()
	for _, t := range l.allTopics() {
		for _, p := range t.parts {
			live = min(live, p.firstPos())
		}
	}
	dropped := l.seg.Segments()
	if err := l.seg.DropBefore(live); err != nil {
		return l.logError(err)
	}
	now, end := l.seg.Bounds()
	if l.opts.Observe.Size != nil {
		l.opts.Observe.Size(end - now)
	}
	if now == first {
		return nil
	}
	if l.opts.Observe.Dropped != nil {
		l.opts.Observe.Dropped(now - first)
	}
	for _, s := range dropped {
		if s.End > now {
			break
		}
		if err := l.opts.FS.Remove(l.indexName(s.Seq)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("embedded log: remove index of a dropped segment: %w", err)
		}
	}
	return nil
}

// firstPos is the position of the partition's first live run.
func (p *partition) firstPos() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.runs.seek(p.min)
	if r, ok := it.run(); ok {
		return r.pos
	}
	return math.MaxInt64
}

// Trim implements storage.Trimmer. The new minimum is durable when it returns.
func (l *Log) Trim(ctx context.Context, topic, name string, before int64) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.leave()
	p, err := l.partition(topic, name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	low, high := p.min, p.next
	p.mu.Unlock()
	if before > high {
		return fmt.Errorf("embedded log: trim topic %q partition %q before %d, which is above its end %d: %w", topic, name, before, high, storage.ErrInvalid)
	}
	if before <= low {
		return nil
	}
	if err := l.saveTopics(l.allTopics(), map[*partition]int64{p: before}); err != nil {
		return fmt.Errorf("embedded log: trim topic %q partition %q: %w", topic, name, err)
	}
	p.setMin(before)
	return nil
}

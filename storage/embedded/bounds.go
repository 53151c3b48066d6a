package embedded

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Bounds implements storage.Bounder.
func (l *Log) Bounds(_ context.Context, topic, partition string) (low, high int64, err error) {
	p, err := l.partition(topic, partition)
	if err != nil {
		return 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.min, p.next, nil
}

// OffsetByTime implements storage.Bounder. Records have whole milliseconds; of
// two equally near times the earlier is meant.
func (l *Log) OffsetByTime(_ context.Context, topic, partition string, t time.Time, m storage.TimeMatch) (int64, error) {
	p, err := l.partition(topic, partition)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	after, ok := p.firstFrom(ceilMilli(t))
	if !ok {
		return p.next, nil
	}
	if m == storage.Nearest && time.UnixMilli(after.time).After(t) {
		before, ok := p.lastBefore(after)
		if ok && t.Sub(time.UnixMilli(before.time)) <= time.UnixMilli(after.time).Sub(t) {
			after, _ = p.firstFrom(before.time) // the first of equal ones
		}
	}
	return max(after.first, p.min), nil
}

// ceilMilli is the first whole millisecond that is not before t.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// firstFrom is the first live run of a time or later. The caller holds mu.
func (p *partition) firstFrom(ms int64) (runRef, bool) {
	it := p.runs.seekTime(ms)
	r, ok := it.run()
	if ok && r.end() <= p.min {
		it = p.runs.seek(p.min)
		r, ok = it.run()
	}
	return r, ok
}

// lastBefore is the live run before another. The caller holds mu.
func (p *partition) lastBefore(r runRef) (runRef, bool) {
	before, ok := p.runs.before(r.first)
	return before, ok && before.end() > p.min
}

// Fingerprint implements storage.Fingerprinter. The log has no leader epochs.
func (l *Log) Fingerprint(ctx context.Context, topic, partition string, next int64) (f storage.Fingerprint, ok bool, err error) {
	p, err := l.partition(topic, partition)
	if err != nil {
		return f, false, err
	}
	offset, ok := p.lastBelow(next)
	if !ok {
		return f, false, nil
	}
	batch, _ := l.batches.Get().(*storage.Batch) // it holds nothing else
	defer l.batches.Put(batch)
	err = l.Poll(ctx, storage.PollRequest{Topic: topic, Partition: partition, TopicID: p.topic.id, Start: offset, MaxRecords: 1}, batch)
	if err != nil || len(batch.Records) == 0 {
		return f, false, err
	}
	return batch.Records[0].Fingerprint(), true, nil
}

// lastBelow is the highest offset held below next.
func (p *partition) lastBelow(next int64) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.runs.before(next)
	offset := min(next, r.end()) - 1
	return offset, ok && offset >= p.min
}

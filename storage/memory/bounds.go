package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// visit calls f with a partition from which expired records are dropped.
func (b *Backend) visit(topicName, partitionName string, f func(*topic, *partition) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	now := b.log.opts.Clock()
	return b.log.with(topicName, partitionName, func(t *topic, p *partition) error {
		p.expire(now, t.retention)
		return f(t, p)
	})
}

// Bounds returns the lowest offset that may be read and the one that the next
// record will get.
func (b *Backend) Bounds(_ context.Context, topicName, partitionName string) (min, max int64, err error) {
	err = b.visit(topicName, partitionName, func(_ *topic, p *partition) error {
		min, max = p.min, p.next
		return nil
	})
	return min, max, err
}

// OffsetByTime finds the offset that a time of append means. Times are kept
// in milliseconds.
func (b *Backend) OffsetByTime(_ context.Context, topicName, partitionName string, at time.Time, m storage.TimeMatch) (offset int64, err error) {
	err = b.visit(topicName, partitionName, func(_ *topic, p *partition) error {
		ms := at.UnixMilli()
		switch m {
		case storage.Nearest:
			offset = p.nearest(ms)
		case storage.AtOrAfter:
			if at.After(time.UnixMilli(ms)) {
				ms++ // a record of ms itself is before the time
			}
			offset = p.atOrAfter(ms)
		default:
			return fmt.Errorf("memory: time match %d, give Nearest or AtOrAfter: %w", m, storage.ErrInvalid)
		}
		return nil
	})
	return offset, err
}

// Trim moves a partition's minimum up to before, which need not be the offset
// of a record.
func (b *Backend) Trim(_ context.Context, topicName, partitionName string, before int64) error {
	return b.visit(topicName, partitionName, func(t *topic, p *partition) error {
		if before > p.next {
			return fmt.Errorf("memory: topic %q partition %q: trim to %d, the maximum is %d: %w", t.name, p.name, before, p.next, storage.ErrInvalid)
		}
		p.trim(before)
		return nil
	})
}

// Fingerprint implements storage.Fingerprinter.
func (b *Backend) Fingerprint(_ context.Context, topicName, partitionName string, next int64) (f storage.Fingerprint, ok bool, err error) {
	err = b.visit(topicName, partitionName, func(_ *topic, p *partition) error {
		if i := p.index(next); i > 0 {
			r := p.records[i-1]
			rec := storage.Record{Offset: r.offset, Time: r.time, Frame: r.frame, LeaderEpoch: r.epoch}
			f, ok = rec.Fingerprint(), true
		}
		return nil
	})
	return f, ok, err
}

package kafka

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

// Fingerprint implements storage.Fingerprinter. Kafka reads only forward, so
// where there is a gap before next, reading begins ever further back.
func (l *Log) Fingerprint(ctx context.Context, topic, partition string, next int64) (f storage.Fingerprint, ok bool, err error) {
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		r, err := l.lastBelow(ctx, at, next)
		if err != nil || r == nil {
			return unknown(err)
		}
		frame, _, err := appendFrame(nil, r)
		if err != nil {
			return err
		}
		rec := r.record(frame)
		f, ok = rec.Fingerprint(), true
		return nil
	})
	return f, ok, err
}

// lastBelow finds the record at the highest offset below next; nil: there is
// none.
func (l *Log) lastBelow(ctx context.Context, at *place, next int64) (*rec, error) {
	low, high, err := l.bounds(ctx, at, l.patience())
	if err != nil {
		return nil, err
	}
	next = min(next, high)
	for step, until := int64(1), next; until > low; step *= 8 {
		from := max(next-step, low)
		r, err := l.lastBetween(ctx, at, from, until)
		if err != nil || r != nil {
			return r, err
		}
		until = from
	}
	return nil, nil
}

// lastBetween finds the last record from one offset up to another.
func (l *Log) lastBetween(ctx context.Context, at *place, from, until int64) (last *rec, err error) {
	for from < until {
		var c *chunk
		err := l.atLeader(ctx, at, l.patience(), func(ctx context.Context, addr string) (err error) {
			c, err = l.fetchChecked(ctx, addr, at, from, minFetchBytes, 0)
			return err
		})
		if err != nil {
			return nil, explainRange(at, err)
		}
		for i := range c.recs {
			if c.recs[i].offset >= until {
				return last, nil
			}
			last = &c.recs[i]
		}
		if c.next == from {
			break // nothing is there, as far as can be read
		}
		from = c.next
	}
	return last, nil
}

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
		f, ok = r.Fingerprint(), true
		return nil
	})
	return f, ok, err
}

// lastBelow finds the record at the highest offset below next; nil: there is
// none.
func (l *Log) lastBelow(ctx context.Context, at *place, next int64) (*storage.Record, error) {
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
func (l *Log) lastBetween(ctx context.Context, at *place, from, until int64) (last *storage.Record, err error) {
	for from < until {
		var c *chunk
		err := l.atLeader(ctx, at, l.patience(), func(ctx context.Context, addr string) (err error) {
			c, err = l.fetch(ctx, addr, at, from, minFetchBytes, 0)
			return err
		})
		if err != nil {
			return nil, explainRange(at, err)
		}
		done := false
		if last, done, err = c.last(until, last); err != nil || done {
			return last, err
		}
		if c.next == from {
			break // nothing is there, as far as can be read
		}
		from = c.next
	}
	return last, nil
}

// last is the last record below an offset, or the given one where there is none,
// as Poll returns it; done tells that there are others behind it. The chunk is
// given back.
func (c *chunk) last(until int64, other *storage.Record) (last *storage.Record, done bool, err error) {
	defer c.free()
	var p *piece
	var r *rec
	for _, q := range c.pieces {
		for i := range q.recs {
			if done = q.recs[i].offset >= until; done {
				break
			}
			p, r = q, &q.recs[i]
		}
	}
	if r == nil {
		return other, done, nil
	}
	frame, _, err := p.appendFrame(nil, r)
	rec := r.record(frame)
	return &rec, done, err
}

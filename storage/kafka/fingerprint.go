package kafka

import (
	"context"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint implements storage.Fingerprinter: a hash of offset, time, key
// and value of the record as it lies in Kafka, and the leader epoch that it
// was written in. Kafka reads only forward, so where there is a gap before
// next, reading begins ever further back.
func (l *Log) Fingerprint(ctx context.Context, topic, partition string, next int64) (hash uint64, leaderEpoch int32, ok bool, err error) {
	leaderEpoch = -1
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		r, err := l.lastBelow(ctx, at, next)
		if err == nil && r != nil {
			hash, leaderEpoch, ok = r.hash(), r.epoch, true
		}
		return unknown(err)
	})
	return hash, leaderEpoch, ok, err
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

func (r *rec) hash() uint64 {
	var d xxhash.Digest
	d.Reset()
	var head [24]byte
	binary.LittleEndian.PutUint64(head[:], uint64(r.offset))
	binary.LittleEndian.PutUint64(head[8:], uint64(r.time))
	binary.LittleEndian.PutUint64(head[16:], uint64(len(r.key)))
	for _, b := range [][]byte{head[:], r.key, r.value} {
		_, _ = d.Write(b) // a hash takes everything
	}
	return d.Sum64()
}

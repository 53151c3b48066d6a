package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// found is the answer to the question after an offset.
type found struct {
	offset int64 // -1: there is none
	time   int64 // of the record, ms since 1970; -1: not asked for
}

// Bounds implements storage.Bounder. The maximum is what may be read next to
// the newest record: the high watermark, with Options.ReadCommitted the last
// stable offset. An end of 0 of a partition that was longer is not believed:
// then, and while the partition has no leader, the answer is ErrUnknown.
func (l *Log) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		low, high, err = l.bounds(ctx, at, l.patience())
		return unknown(err)
	})
	return low, high, err
}

// visit calls f with a partition.
func (l *Log) visit(ctx context.Context, topic, partition string, f func(context.Context, *place) error) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	at, err := l.place(inner, topic, partition, time.Time{})
	if err == nil {
		err = f(inner, &at)
		if errors.Is(err, storage.ErrTopicChanged) { // before this call, as far as the caller knows
			if at, err = l.place(inner, topic, partition, time.Now()); err == nil {
				err = f(inner, &at)
			}
		}
	}
	return l.outcome(ctx, err)
}

// patience is how long calls that nobody waits for else try.
func (l *Log) patience() time.Time { return time.Now().Add(l.opts.RequestTimeout / 2) }

// unknown says of what cannot be reached that it is not known.
func unknown(err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	return err
}

func (l *Log) bounds(ctx context.Context, at *place, patience time.Time) (low, high int64, err error) {
	if low, err = l.offset(ctx, at, sarama.OffsetOldest, patience); err != nil {
		return 0, 0, err
	}
	if high, err = l.offset(ctx, at, sarama.OffsetNewest, patience); err != nil {
		return 0, 0, err
	}
	if seen := at.partition.seen.Load(); high == 0 && seen > 0 {
		return 0, 0, fmt.Errorf("kafka: %v: the broker says that it is empty and always was, but it has been seen to end at %d: %w", at, seen, storage.ErrUnknown)
	}
	at.partition.see(high)
	return min(low, high), high, nil
}

// offset asks for a bound.
func (l *Log) offset(ctx context.Context, at *place, which int64, patience time.Time) (int64, error) {
	f, err := l.ask(ctx, at, which, patience)
	if err == nil && f.offset < 0 {
		return 0, fmt.Errorf("kafka: %v: the broker does not tell its bounds: %w", at, storage.ErrUnavailable)
	}
	return f.offset, err
}

// ask asks the leader for the first record of a time, in ms since 1970, or
// later, or for a bound.
func (l *Log) ask(ctx context.Context, at *place, when int64, patience time.Time) (f found, err error) {
	err = l.atLeader(ctx, at, patience, func(ctx context.Context, addr string) error {
		req := sarama.NewOffsetRequest(sarama.MaxVersion)
		req.IsolationLevel = l.isolation()
		req.AddBlock(at.topic, at.number, when, 1)
		var res *sarama.OffsetResponse
		err := l.links.call(ctx, addr, func(b *sarama.Broker) (err error) {
			res, err = b.GetAvailableOffsets(req)
			return err
		})
		if err != nil {
			return err
		}
		block := res.GetBlock(at.topic, at.number)
		if block == nil {
			return fmt.Errorf("kafka: broker %s left %v out of its answer: %w", addr, at, storage.ErrUnavailable)
		}
		if block.Err != sarama.ErrNoError {
			return block.Err
		}
		f = found{offset: block.Offset, time: block.Timestamp}
		return nil
	})
	return f, err
}

// OffsetByTime implements storage.Bounder. AtOrAfter is exact also where times
// run back, as those that producers set may. Nearest chooses between that
// record and the nearest of those before it; where times run back, a later
// record may be nearer still.
func (l *Log) OffsetByTime(ctx context.Context, topic, partition string, t time.Time, m storage.TimeMatch) (offset int64, err error) {
	if m != storage.Nearest && m != storage.AtOrAfter {
		return 0, fmt.Errorf("kafka: time match %d, give Nearest or AtOrAfter: %w", m, storage.ErrInvalid)
	}
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		offset, err = l.offsetByTime(ctx, at, t, m)
		return unknown(err)
	})
	return offset, err
}

func (l *Log) offsetByTime(ctx context.Context, at *place, t time.Time, m storage.TimeMatch) (int64, error) {
	patience := l.patience()
	after, err := l.ask(ctx, at, ceilMilli(t), patience)
	if err != nil {
		return 0, err
	}
	if after.offset < 0 {
		_, high, err := l.bounds(ctx, at, patience)
		return high, err
	}
	if m == storage.AtOrAfter || !time.UnixMilli(after.time).After(t) {
		return after.offset, nil
	}
	return l.nearest(ctx, at, t, after, patience)
}

// ceilMilli is the first whole millisecond since 1970 that is not before t.
// What is before 1970 is 0: lower numbers ask for bounds.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return max(ms, 0)
}

// nearest looks for a record before another one, which is after t, that is as
// near to t. Records before it are all before t, so the latest of them is
// searched for, by halves, with the question that brokers answer: which is
// the first of a time or later?
func (l *Log) nearest(ctx context.Context, at *place, t time.Time, after found, patience time.Time) (int64, error) {
	best := after.offset
	low := ceilMilli(t.Add(-time.UnixMilli(after.time).Sub(t)))
	for high := ceilMilli(t); low < high; {
		middle := low + (high-low)/2
		f, err := l.ask(ctx, at, middle, patience)
		switch {
		case err != nil:
			return 0, err
		case f.offset >= 0 && f.offset < after.offset:
			best, low = f.offset, f.time+1
		default:
			high = middle
		}
	}
	return best, nil
}

// Trim implements storage.Trimmer. The user needs DELETE on the topic.
func (l *Log) Trim(ctx context.Context, topic, partition string, before int64) error {
	return l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		low, high, err := l.bounds(ctx, at, l.patience())
		switch {
		case err != nil:
			return err
		case before > high:
			return fmt.Errorf("kafka: %v: trim to %d, the maximum is %d: %w", at, before, high, storage.ErrInvalid)
		case before <= low:
			return nil
		}
		defer at.partition.drop()
		return l.deleteRecords(ctx, at, before)
	})
}

func (l *Log) deleteRecords(ctx context.Context, at *place, before int64) error {
	req := &sarama.DeleteRecordsRequest{Version: 2, Timeout: l.opts.RequestTimeout / 2, Topics: map[string]*sarama.DeleteRecordsRequestTopic{
		at.topic: {PartitionOffsets: map[int32]int64{at.number: before}},
	}}
	return l.atLeader(ctx, at, l.patience(), func(ctx context.Context, addr string) error {
		var res *sarama.DeleteRecordsResponse
		err := l.links.call(ctx, addr, func(b *sarama.Broker) (err error) {
			res, err = b.DeleteRecords(req)
			return err
		})
		if err != nil {
			return err
		}
		topic := res.Topics[at.topic]
		if topic == nil || topic.Partitions[at.number] == nil {
			return fmt.Errorf("kafka: broker %s left %v out of its answer: %w", addr, at, storage.ErrUnavailable)
		}
		if code := topic.Partitions[at.number].Err; code != sarama.ErrNoError {
			return explain(fmt.Sprintf("trim %v to %d", at, before), code)
		}
		return nil
	})
}

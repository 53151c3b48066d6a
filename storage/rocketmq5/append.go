package rocketmq5

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// recordOverhead is what a message is taken to need besides its body.
const recordOverhead = 512

// call is one Append under way.
type call struct {
	topic   string
	lite    string // the lite topic of topic; empty: topic itself
	size    int64
	items   []item
	results []storage.Appended
	left    atomic.Int64 // items without a result
	done    storage.AppendDone
}

// item is one event of a call.
type item struct {
	call    *call
	at      int // its place in the call
	event   *storage.Event
	born    time.Time
	until   time.Time // then it fails
	typ     v2.MessageType
	msg     session.Outgoing
	retyped bool // its topic turned out to be of another type once
}

// Append implements storage.Backend. What becomes of an event depends on the
// type of the topic:
//
//   - NORMAL: a message of type NORMAL, in batches; RocketMQ chooses the queue,
//     also for events with a key;
//   - FIFO: a message of type FIFO whose group is the key, or its hash where
//     RocketMQ does not take it: events of one key keep their order;
//   - DELAY: a message that is due at emdeliverytime, or at once;
//   - several types: by emdeliverytime, then by key, else NORMAL.
//
// A message is durable as the brokers are set up to be. Which queue it is in is
// not told: Appended.Partition is the queue where the topic has only one, else
// "id:" and the message id, which Poll takes as well.
//
// An event above Options.MaxRecordBytes refuses all with ErrTooLarge. While
// brokers cannot be reached events wait for Options.WriteTimeout, then fail with
// ErrUnavailable; such an event may be in the log all the same. Sent again by
// this call it has the same message id: who pops both soon after each other
// knows it again.
func (l *Log) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkTopic(topic); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	c, err := l.newCall(topic, events, done)
	if err != nil {
		return err
	}
	return l.put(ctx, inner, c)
}

// put has a call sent. inner is ctx, ended with the log too.
func (l *Log) put(ctx, inner context.Context, c *call) error {
	if len(c.items) == 0 {
		c.done(c.results, nil)
		return nil
	}
	if err := l.send.room.Acquire(inner, c.size); err != nil {
		return l.outcome(ctx, err)
	}
	if !l.send.put(c) {
		l.send.room.Release(c.size)
		return errClosed()
	}
	return nil
}

func (l *Log) newCall(topic string, events []storage.Event, done storage.AppendDone) (*call, error) {
	c := &call{topic: topic, items: make([]item, len(events)), results: make([]storage.Appended, len(events)), done: done}
	c.left.Store(int64(len(events)))
	now := time.Now()
	for i := range events {
		e := &events[i]
		if len(e.Frame) > l.opts.MaxRecordBytes {
			return nil, fmt.Errorf("rocketmq5: topic %q: event %d takes %d bytes as a frame, at most %d are taken; raise rocketmq5.max-record, and maxMessageSize of proxies and brokers: %w",
				topic, i, len(e.Frame), l.opts.MaxRecordBytes, storage.ErrTooLarge)
		}
		if len(e.Frame) == 0 {
			return nil, fmt.Errorf("rocketmq5: topic %q: event %d is empty, RocketMQ takes no empty message: %w", topic, i, storage.ErrInvalid)
		}
		c.items[i] = item{call: c, at: i, event: e, born: now, until: now.Add(l.opts.WriteTimeout)}
		c.size += int64(len(e.Frame) + recordOverhead)
	}
	c.size = min(c.size, l.opts.QueueBytes)
	return c, nil
}

// finish takes the fate of an item, and tells when it was the call's last one.
// Nobody else may use the item afterwards.
func (s *sender) finish(it *item, partition string, offset int64, err error) {
	c := it.call
	c.results[it.at] = storage.Appended{Partition: partition, Offset: offset, Err: err}
	if err != nil {
		c.results[it.at] = storage.Appended{Err: err}
	}
	if c.left.Add(-1) == 0 {
		s.room.Release(c.size)
		c.done(c.results, nil)
	}
}

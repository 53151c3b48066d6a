package rocketmq4

import (
	"context"
	"fmt"
	"sync/atomic"
	"unicode/utf16"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// recordOverhead is what an event is taken to need besides key and frame.
const recordOverhead = 256

// maxKey is the longest key that is written as a property; longer ones only
// place the event.
const maxKey = 8 << 10

// call is one Append under way.
type call struct {
	topic   string
	size    int64
	items   []item
	results []storage.Appended
	left    atomic.Int64 // items without a result
	done    storage.AppendDone
}

// item is one event of a call.
type item struct {
	call *call
	at   int // its place in the call
	key  string
	size int
	part *partQueue
	msg  remoting.OutMessage
}

// Append implements storage.Backend. A key's partition is the one that
// RocketMQ's own SelectMessageQueueByHash chooses for it: the hash of the key
// as a string of Java, modulo the number of partitions. Events without a key go
// to one partition in runs, then to the next. An event above
// Options.MaxRecordBytes refuses all with ErrTooLarge; one that the broker
// finds too large fails alone.
//
// A topic that was not used yet is looked up meanwhile: that it is missing is
// told to done. While a broker cannot be reached events wait for about 30
// seconds, then fail with ErrUnavailable. An event of which it is not known
// whether it was stored fails so at once: it is not sent a second time.
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
	if len(events) == 0 {
		done(c.results, nil)
		return nil
	}
	if err := l.queue.room.Acquire(inner, c.size); err != nil {
		return l.outcome(ctx, err)
	}
	if !l.queue.put(c) {
		l.queue.room.Release(c.size)
		return errClosed()
	}
	return nil
}

// newCall makes the messages of the events.
func (l *Log) newCall(topic string, events []storage.Event, done storage.AppendDone) (*call, error) {
	c := &call{topic: topic, items: make([]item, len(events)), results: make([]storage.Appended, len(events)), done: done}
	c.left.Store(int64(len(events)))
	for i := range events {
		e, it := &events[i], &c.items[i]
		it.call, it.at, it.key = c, i, e.Key
		it.size = recordOverhead + len(e.Key) + len(e.Frame)
		it.msg.Body = e.Frame
		if len(e.Key) <= maxKey {
			it.msg.Properties = properties(e.Key)
		}
		if it.size > l.opts.MaxRecordBytes {
			return nil, fmt.Errorf("rocketmq4: topic %q: event %d takes %d bytes as a frame with its key, at most %d are taken; raise rocketmq4.max-record, and maxMessageSize of the brokers: %w",
				topic, i, it.size, l.opts.MaxRecordBytes, storage.ErrTooLarge)
		}
		c.size += int64(it.size)
	}
	c.size = min(c.size, l.opts.QueueBytes)
	return c, nil
}

// finish takes the fate of an item, and tells when it was the call's last one.
// Nobody else may use the item afterwards.
func (l *Log) finish(it *item, offset int64, err error) {
	c := it.call
	r := &c.results[it.at]
	r.Err = err
	if err == nil {
		r.Partition, r.Offset = it.part.name, offset
	}
	if c.left.Add(-1) == 0 {
		l.queue.over(c)
		c.done(c.results, nil)
	}
}

// fail tells that nothing of a call was stored.
func (l *Log) fail(c *call, err error) {
	l.queue.over(c)
	c.done(nil, err)
}

// hashOfKey is String.hashCode of Java: 31 times what was before plus the next
// UTF-16 unit.
func hashOfKey(key string) int32 {
	h := int32(0)
	for _, r := range key {
		if r1, r2 := utf16.EncodeRune(r); r1 != '\uFFFD' {
			h = 31*(31*h+r1) + r2
		} else {
			h = 31*h + r
		}
	}
	return h
}

// partitionOf is the queue for a key, of so many.
func partitionOf(key string, n int) int {
	h := int64(hashOfKey(key))
	if h < 0 {
		h = -h
	}
	return int(h % int64(n))
}

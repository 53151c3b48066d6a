package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// recordOverhead is what a record is taken to need besides key and value.
	recordOverhead = 36
	// headerOverhead is how much more an event may take as headers than as a
	// frame.
	headerOverhead = 2048
)

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
	part *partQueue
	// state is that of the partition of the topic that was known when the
	// event was placed.
	state *partition
	msg   sarama.ProducerMessage
}

// Append implements storage.Backend. A key's partition is the one that
// Kafka's own clients choose for it: murmur2 of the key modulo the number of
// partitions. Events without a key go to one partition in runs, then to the
// next. An event above Options.MaxRecordBytes refuses all with ErrTooLarge; one
// that the broker finds too large fails alone, or with those of its batch.
//
// A topic that was not used yet is looked up meanwhile: that it is missing is
// told to done. While the brokers cannot be reached events wait for about 30
// seconds, then fail with ErrUnavailable; such an event may be in the log all
// the same.
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
	now := time.Now()
	for i := range events {
		it := &c.items[i]
		it.call, it.at = c, i
		value, headers := l.opts.Format.message(events[i])
		it.msg = sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(value), Headers: headers, Metadata: it, Timestamp: now, Offset: -1}
		if events[i].Key != "" {
			it.msg.Key = sarama.StringEncoder(events[i].Key)
		}
		size := recordOverhead + len(events[i].Key) + len(events[i].Frame)
		if size > l.opts.MaxRecordBytes {
			return nil, fmt.Errorf("kafka: topic %q: event %d takes %d bytes as a frame with its key, at most %d are taken; raise kafka.max-record, and message.max.bytes of the brokers: %w",
				topic, i, size, l.opts.MaxRecordBytes, storage.ErrTooLarge)
		}
		c.size += int64(size)
	}
	c.size = min(c.size, l.opts.QueueBytes)
	return c, nil
}

// finish takes the fate of an item, and tells when it was the call's last one.
// Nobody else may use the item afterwards.
func (l *Log) finish(it *item, err error) {
	c := it.call
	r := &c.results[it.at]
	r.Err = err
	if err == nil {
		r.Partition, r.Offset = it.part.name, it.msg.Offset
		it.state.see(it.msg.Offset + 1)
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

// fate says what became of a message.
func (it *item) fate(err error) error {
	what := fmt.Sprintf("append to topic %q partition %q", it.call.topic, it.part.name)
	if err == nil && it.msg.Offset < 0 {
		// Written before, so long ago that the broker does not know where.
		return fmt.Errorf("kafka: %s: it is stored, but the broker does not tell where: %w", what, storage.ErrUnknown)
	}
	if err == nil {
		return nil
	}
	return explain(what, err)
}

package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/storage"
)

// Append stores copies of the events and calls done before it returns. It
// never waits. A key's partition is its xxhash64 modulo the number of
// partitions; events without one go to the partitions in turn, 64 each.
// One frame above MaxFrame refuses all with ErrTooLarge.
func (b *Backend) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	results, err := b.store(ctx, topic, events)
	if err != nil {
		return err
	}
	done(results, nil)
	return nil
}

func (b *Backend) store(ctx context.Context, topic string, events []storage.Event) ([]storage.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size, err := checkSizes(topic, events)
	if err != nil {
		return nil, err
	}
	t, err := b.log.ensure(topic)
	if err != nil {
		return nil, err
	}
	if t.lite {
		return nil, fmt.Errorf("memory: topic %q is a parent of lite topics and takes no events itself: publish to a lite topic of it: %w", topic, storage.ErrTopicType)
	}
	return t.appendAll(b.log.opts, events, make([]byte, 0, size))
}

// checkSizes adds up the bytes of the frames.
func checkSizes(topic string, events []storage.Event) (total int, err error) {
	for i, e := range events {
		if len(e.Frame) > MaxFrame {
			return 0, fmt.Errorf("memory: topic %q: frame %d has %d bytes, at most %d are taken: %w", topic, i, len(e.Frame), MaxFrame, storage.ErrTooLarge)
		}
		total += len(e.Frame)
	}
	return total, nil
}

// appendAll stores the events, copied into mem, which has room for them all.
func (t *topic) appendAll(opts Options, events []storage.Event, mem []byte) ([]storage.Appended, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return nil, fmt.Errorf("memory: topic %q was deleted meanwhile: %w", t.name, storage.ErrTopicNotFound)
	}
	now := opts.Clock()
	results := make([]storage.Appended, len(events))
	for i, e := range events {
		if first, ok := t.dedup.find(e.DedupKey, now, opts.DedupWindow); ok {
			results[i] = storage.Appended{Partition: first.partition, Offset: first.offset, Duplicate: true}
			continue
		}
		at := len(mem)
		mem = append(mem, e.Frame...)
		results[i] = t.push(opts, now, e, mem[at:len(mem):len(mem)])
	}
	return results, nil
}

// push stores one event, whose frame was copied already, drops what is too
// old or too much, and wakes the readers.
func (t *topic) push(opts Options, now time.Time, e storage.Event, frame []byte) storage.Appended {
	p := t.place(e.Key)
	offset := p.push(now.UnixMilli(), frame)
	if opts.Gap != nil {
		p.next += max(0, opts.Gap(t.name, p.name, offset))
	}
	p.expire(now, t.retention)
	if opts.MaxBytes > 0 {
		p.bound(opts.MaxBytes)
	}
	p.wakeAll()
	t.dedup.add(e.DedupKey, place{partition: p.name, offset: offset, at: now}, opts.DedupWindow)
	return storage.Appended{Partition: p.name, Offset: offset}
}

// place chooses the partition of an event.
func (t *topic) place(key string) *partition {
	n := uint64(len(t.partitions))
	if key != "" {
		return t.partitions[xxhash.Sum64String(key)%n]
	}
	p := t.partitions[t.keyless/runLength%n]
	t.keyless++
	return p
}

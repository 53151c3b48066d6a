package memory

import (
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

// AddPartitions makes a topic have n partitions, as an operator does at a
// broker, for tests. Keys are placed anew. Errors: ErrTopicNotFound,
// ErrInvalid when n is not more than there are, or above MaxPartitions.
func (b *Backend) AddPartitions(topic string, n int) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	t, err := b.log.lookup(topic)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n <= len(t.partitions) || n > MaxPartitions {
		return fmt.Errorf("memory: topic %q: grow from %d to %d partitions, give more than there are and at most %d: %w", topic, len(t.partitions), n, MaxPartitions, storage.ErrInvalid)
	}
	t.grow(n, b.log.opts.PartitionName)
	return nil
}

// Truncate drops the records at next and above, as a leader change at a
// broker does that loses a tail, for tests. The next record gets the offset
// next, in a new leader epoch where there are any. Errors: ErrTopicNotFound,
// ErrPartitionNotFound, ErrInvalid when next is outside the bounds.
func (b *Backend) Truncate(topicName, partitionName string, next int64) error {
	return b.visit(topicName, partitionName, func(t *topic, p *partition) error {
		if next < p.min || next > p.next {
			return t.truncateError(p, next)
		}
		keep := p.index(next)
		for _, r := range p.records[keep:] {
			p.bytes -= int64(len(r.frame))
		}
		// The capacity is cut as well: readers may hold the records behind.
		p.records, p.next = p.records[:keep:keep], next
		if b.log.opts.LeaderEpochs {
			p.epoch++
		}
		t.dedup = dedup{} // it may point to what was dropped
		p.wakeAll()
		return nil
	})
}

func (t *topic) truncateError(p *partition, next int64) error {
	return fmt.Errorf("memory: topic %q partition %q: truncate to %d, give %d to %d: %w", t.name, p.name, next, p.min, p.next, storage.ErrInvalid)
}

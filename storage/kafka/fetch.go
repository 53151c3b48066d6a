package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// maxFetch is the most that one fetch asks for, where less brought nothing.
const maxFetch = 64 << 20

// fetch reads what follows start, and waits for a record at the end of the
// partition. What it brings is of the topic that was meant. Errors are
// sarama.KError, or of the connection.
func (l *Log) fetch(ctx context.Context, addr string, at *place, start int64, bytes int, wait time.Duration) (*chunk, error) {
	q := &query{at: at, start: start, waitMS: int32(wait.Milliseconds()), committed: l.opts.ReadCommitted}
	for bytes = min(bytes, maxFetch); ; bytes = min(8*bytes, maxFetch) {
		q.bytes = bytes
		res, err := l.fetchOnce(ctx, addr, q, wait)
		if err != nil {
			return nil, err
		}
		c := res.chunk
		// Nothing, although there is something: batches that compaction has
		// emptied, or one that is larger than what was asked for.
		if c.next == start && c.end > start && bytes < maxFetch {
			continue
		}
		at.partition.see(res.high)
		if !res.byID && c.next > start && at.topicID != "" {
			if err := l.checkIdentity(ctx, addr, at); err != nil {
				c.free()
				return nil, err
			}
		}
		return c, nil
	}
}

// fetchOnce makes one fetch, of which the broker says that it is well. Where a
// quota holds back its answer, it is made again.
func (l *Log) fetchOnce(ctx context.Context, addr string, q *query, wait time.Duration) (res *result, err error) {
	for res == nil || res.throttled() {
		err = l.links.useWithin(ctx, addr, l.opts.RequestTimeout+wait, func(k *link) (err error) {
			if res, err = k.fetch(q); err == nil && res.throttled() {
				return k.holdBack(ctx, res.mute)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if res.code == 0 && res.found {
		return res, nil
	}
	res.chunk.free()
	if res.code != 0 {
		return nil, res.code
	}
	return nil, fmt.Errorf("kafka: broker %s left %v out of its answer: %w", addr, q.at, storage.ErrUnavailable)
}

func (l *Log) isolation() sarama.IsolationLevel {
	if l.opts.ReadCommitted {
		return sarama.ReadCommitted
	}
	return sarama.ReadUncommitted
}

// checkIdentity makes sure that what a fetch brought is of the topic that was
// meant, where the broker's form of it names topics by their names: the same
// broker is asked after it. Its metadata is never behind its logs.
func (l *Log) checkIdentity(ctx context.Context, addr string, at *place) error {
	var t *topicInfo
	err := untilItKnows(ctx, func() (err error) {
		t, err = l.meta.askAt(ctx, addr, at.topic)
		return err
	})
	if err == nil && t.id != at.topicID {
		err = changed(at, t.id)
	}
	return err
}

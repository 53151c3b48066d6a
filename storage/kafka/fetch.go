package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// chunk is what one fetch brought, or the rest of it.
type chunk struct {
	start int64 // where it begins
	recs  []rec
	next  int64 // where reading goes on behind it: there is nothing in between
	end   int64 // of the partition, as far as records may be read
	size  int64 // bytes of keys and values
}

func (c *chunk) add(r rec) {
	c.recs = append(c.recs, r)
	c.size += r.size()
}

// after is the chunk without its first n records, of which there are more.
func (c *chunk) after(n int) *chunk {
	rest := &chunk{start: c.recs[n].offset, recs: c.recs[n:], next: c.next, end: c.end, size: c.size}
	for i := range c.recs[:n] {
		rest.size -= c.recs[i].size()
	}
	return rest
}

// rec is one record as it lies in Kafka. Its bytes are shared with others of
// the chunk.
type rec struct {
	offset, time int64 // ms since 1970
	epoch        int32 // of the leader that took it; -1: unknown
	key, value   []byte
	headers      []*sarama.RecordHeader
}

func (r *rec) size() int64 { return int64(len(r.key) + len(r.value)) }

// fetchVersion is the newest form of the request that sarama has.
const fetchVersion = 12

// maxFetch is the most that one fetch asks for, where less brought nothing.
const maxFetch = 64 << 20

// fetch reads what follows start, and waits for a record at the end of the
// partition. Errors are sarama.KError, or of the connection.
func (l *Log) fetch(ctx context.Context, addr string, at *place, start int64, bytes int, wait time.Duration) (*chunk, error) {
	for ; ; bytes = min(8*bytes, maxFetch) {
		block, err := l.fetchBlock(ctx, addr, at, start, bytes, wait)
		if err != nil {
			return nil, err
		}
		c := decode(block, start, l.opts.ReadCommitted)
		// Nothing, although there is something: batches that compaction has
		// emptied, or one that is larger than what was asked for.
		if c.next > start || c.end <= start || bytes == maxFetch {
			at.partition.see(block.HighWaterMarkOffset)
			return c, nil
		}
	}
}

func (l *Log) fetchBlock(ctx context.Context, addr string, at *place, start int64, bytes int, wait time.Duration) (*sarama.FetchResponseBlock, error) {
	req := &sarama.FetchRequest{
		Version: fetchVersion, SessionEpoch: -1, MinBytes: 1, MaxBytes: int32(bytes),
		MaxWaitTime: int32(wait.Milliseconds()), Isolation: l.isolation(),
	}
	req.AddBlock(at.topic, at.number, start, int32(bytes), at.epoch)
	var res *sarama.FetchResponse
	err := l.links.callWithin(ctx, addr, l.opts.RequestTimeout+wait, func(b *sarama.Broker) (err error) {
		res, err = b.Fetch(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if res.ErrorCode != 0 {
		return nil, sarama.KError(res.ErrorCode)
	}
	block := res.GetBlock(at.topic, at.number)
	if block == nil {
		return nil, fmt.Errorf("kafka: broker %s left %v out of its answer: %w", addr, at, storage.ErrUnavailable)
	}
	if block.Err != sarama.ErrNoError {
		return nil, block.Err
	}
	return block, nil
}

func (l *Log) isolation() sarama.IsolationLevel {
	if l.opts.ReadCommitted {
		return sarama.ReadCommitted
	}
	return sarama.ReadUncommitted
}

// decode lists the records of an answer from start on.
func decode(block *sarama.FetchResponseBlock, start int64, committed bool) *chunk {
	d := decoder{chunk: chunk{start: start, next: start, end: block.HighWaterMarkOffset}}
	if committed {
		d.end = block.LastStableOffset
		d.aborted = slices.SortedFunc(slices.Values(block.AbortedTransactions), func(a, b *sarama.AbortedTransaction) int {
			return int(a.FirstOffset - b.FirstOffset)
		})
	}
	for _, set := range block.RecordsSet {
		switch {
		case set.RecordBatch != nil:
			d.batch(set.RecordBatch)
		case set.MsgSet != nil:
			d.messages(set.MsgSet)
		}
	}
	return &d.chunk
}

// decoder decodes an answer. What was aborted is left out as KIP-98 says: the
// broker lists the transactions that were aborted within the answer, and the
// marker that ends one of them ends the leaving out.
type decoder struct {
	chunk
	aborted  []*sarama.AbortedTransaction // not yet begun, in order
	aborting map[int64]bool               // producers amid an aborted transaction
}

func (d *decoder) batch(b *sarama.RecordBatch) {
	if b.PartialTrailingRecord {
		return // it comes whole with the next fetch
	}
	d.begin(b.LastOffset())
	switch {
	case b.Control:
		d.marker(b)
	case b.IsTransactional && d.aborting[b.ProducerID]:
	default:
		d.records(b)
	}
	d.next = max(d.next, b.LastOffset()+1)
}

// begin notes the aborted transactions that begin up to an offset.
func (d *decoder) begin(last int64) {
	for len(d.aborted) > 0 && d.aborted[0].FirstOffset <= last {
		if d.aborting == nil {
			d.aborting = map[int64]bool{}
		}
		d.aborting[d.aborted[0].ProducerID] = true
		d.aborted = d.aborted[1:]
	}
}

// marker takes in the end of a transaction. Its key is version and type, both
// 16 bits; type 0 is an abort.
func (d *decoder) marker(b *sarama.RecordBatch) {
	for _, r := range b.Records {
		if len(r.Key) >= 4 && binary.BigEndian.Uint16(r.Key[2:]) == 0 {
			delete(d.aborting, b.ProducerID)
		}
	}
}

func (d *decoder) records(b *sarama.RecordBatch) {
	d.recs = slices.Grow(d.recs, len(b.Records))
	first, last := b.FirstTimestamp.UnixMilli(), b.MaxTimestamp.UnixMilli()
	for _, r := range b.Records {
		offset := b.FirstOffset + r.OffsetDelta
		if offset < d.start {
			continue
		}
		at := first + r.TimestampDelta.Milliseconds()
		if b.LogAppendTime {
			at = last
		}
		d.add(rec{offset: offset, time: at, epoch: b.PartitionLeaderEpoch, key: r.Key, value: r.Value, headers: r.Headers})
	}
}

// messages takes in what was written in the form before Kafka 0.11. The
// offset of a compressed set is that of its last message; from version 1 on
// those within it are relative.
func (d *decoder) messages(set *sarama.MessageSet) {
	for _, block := range set.Messages {
		inner := block.Messages()
		base := int64(0)
		if n := len(inner); n > 0 && inner[n-1].Msg.Version >= 1 {
			base = block.Offset - inner[n-1].Offset
		}
		for _, m := range inner {
			offset, at := base+m.Offset, m.Msg.Timestamp
			if offset < d.start {
				continue
			}
			if m.Msg.LogAppendTime {
				at = block.Msg.Timestamp
			}
			d.add(rec{offset: offset, time: millis(at), epoch: -1, key: m.Msg.Key, value: m.Msg.Value})
			d.next = max(d.next, offset+1)
		}
	}
}

// millis is a time in ms since 1970; that of a message without one is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fetchChecked is fetch, and makes sure that what it brought is of the topic
// that was meant: the same broker is asked after it. Its metadata is never
// behind its logs.
func (l *Log) fetchChecked(ctx context.Context, addr string, at *place, start int64, bytes int, wait time.Duration) (*chunk, error) {
	c, err := l.fetch(ctx, addr, at, start, bytes, wait)
	if err != nil || c.next == start || at.topicID == "" {
		return c, err
	}
	var t *topicInfo
	err = untilItKnows(ctx, func() (err error) {
		t, err = l.meta.askAt(ctx, addr, at.topic)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case t.id != at.topicID:
		return nil, changed(at, t.id)
	}
	return c, nil
}

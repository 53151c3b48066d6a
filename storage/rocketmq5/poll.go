package rocketmq5

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

const (
	defaultPollRecords = 256
	defaultPollBytes   = 1 << 20
	// pollEvery is how often the end of a queue is looked at by a Poll that
	// waits, and an index for a message that was stored a moment ago.
	pollEvery = 200 * time.Millisecond
	// indexWait is how long an index may be behind.
	indexWait = 3 * time.Second
)

// Poll implements storage.Backend, with an explicit offset only: to look at dead
// letters, not to consume. It needs name servers. A partition that begins with
// "id:" is the message of that id; Start is its offset, as Append told.
func (l *Log) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	req.Default(defaultPollRecords, defaultPollBytes)
	what := fmt.Sprintf("read of topic %q partition %q at %d", req.Topic, req.Partition, req.Start)
	if l.port == nil {
		return errNoPort(what)
	}
	if req.Start < 0 {
		return fmt.Errorf("rocketmq5: %s: there is no pull offset, topics are popped: %w", what, storage.ErrUnsupported)
	}
	err := l.with(ctx, what, func(ctx context.Context) error {
		list, err := l.find(ctx, req)
		if err != nil {
			return err
		}
		return l.fill(req, list, batch)
	})
	if err != nil {
		batch.Reset()
	}
	return err
}

// find reads what is at a place.
func (l *Log) find(ctx context.Context, req storage.PollRequest) ([]stored, error) {
	if id, ok := strings.CutPrefix(req.Partition, idPartition); ok {
		return l.findID(ctx, req.Topic, id, req.Start)
	}
	q, err := l.queueOf(ctx, req.Topic, req.Partition)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(req.Wait)
	for {
		low, high, err := l.port.bounds(ctx, q)
		if err != nil {
			return nil, err
		}
		if req.Start < low || req.Start > high {
			return nil, &storage.RangeError{Topic: req.Topic, Partition: req.Partition, Offset: req.Start, Min: low, Max: high}
		}
		if req.Start < high {
			list, err := l.port.read(ctx, q, req.Start, req.MaxRecords)
			if err != nil || len(list) > 0 {
				return list, err
			}
		}
		if !time.Now().Before(end) {
			return nil, nil
		}
		if !pause(ctx, pollEvery) {
			return nil, ctx.Err()
		}
	}
}

// findID finds a message by its id. A moment after it was stored the broker's
// index may not have it yet.
func (l *Log) findID(ctx context.Context, topic, id string, offset int64) ([]stored, error) {
	for end := time.Now().Add(indexWait); ; {
		list, err := l.port.byID(ctx, topic, id)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			list[0].offset = offset // a delayed message was moved since
			return list[:1], nil
		}
		if !time.Now().Before(end) {
			return nil, nil
		}
		if !pause(ctx, pollEvery) {
			return nil, ctx.Err()
		}
	}
}

// fill makes records of what was read.
func (l *Log) fill(req storage.PollRequest, list []stored, batch *storage.Batch) (err error) {
	batch.Start, batch.Next = req.Start, req.Start
	var ends []int
	for i := range list[:min(len(list), req.MaxRecords)] {
		s := &list[i]
		at := len(batch.Buf)
		var raw *frame.Raw
		if batch.Buf, raw, err = appendBody(batch.Buf, s.body, s.headers, []byte(s.key)); err != nil {
			return err
		}
		if i > 0 && len(batch.Buf) > req.MaxBytes {
			batch.Buf = batch.Buf[:at]
			break
		}
		if raw != nil {
			l.opts.Observe.Foreign(raw.Form.String(), raw.LeftOut, raw.DataLeftOut)
		}
		ends = append(ends, len(batch.Buf))
		batch.Records = append(batch.Records, storage.Record{Offset: s.offset, Time: s.time.UnixMilli(), ID: s.id})
		batch.Next = s.offset + 1
	}
	at := 0
	for i, end := range ends { // Buf may have moved meanwhile
		batch.Records[i].Frame = batch.Buf[at:end:end]
		at = end
	}
	return nil
}

package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// Pop implements storage.Popper. Each broker of the topic is asked by a call of
// its own. A Wait of less than 250 ms is taken for that: a broker answers at
// once only when it has something.
//
// Record.Time is when the message was made, by its producer's clock: the broker
// stores it anew, with another time, to hand it out again. Record.Partition is
// the queue, or "retry:" and the group's retry queue.
func (l *Log) Pop(ctx context.Context, req storage.PopRequest, batch *storage.Batch) error {
	batch.Reset()
	if req.Max < 1 || req.Invisible < MinInvisible || req.Invisible > MaxInvisible {
		return fmt.Errorf("rocketmq5: pop of %d records for %v: at least 1, and %v to %v, are allowed: %w", req.Max, req.Invisible, MinInvisible, MaxInvisible, storage.ErrInvalid)
	}
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := l.pop(inner, req, batch); err != nil {
		batch.Reset()
		if errors.Is(err, session.ErrClosed) && l.gate.Ending().Err() == nil {
			err = fmt.Errorf("the group's client was closed meanwhile: %w", storage.ErrUnavailable)
		}
		return l.outcome(ctx, explain(fmt.Sprintf("pop of topic %q for group %s", req.Topic, req.Group), err))
	}
	return nil
}

func (l *Log) pop(ctx context.Context, req storage.PopRequest, batch *storage.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := l.groupToPop(ctx, groupKey{req.Topic, req.Group})
	if err != nil {
		return err
	}
	r, err := g.receiver(req.Invisible)
	if err != nil {
		return err
	}
	msgs, err := r.Pop(ctx, req.Max, req.Wait)
	if err != nil {
		if meaning(err) == storage.ErrGroupNotFound { //nolint:errorlint // meaning returns the sentinel itself
			l.forgetGroup(g.key)
			err = fmt.Errorf("the broker has no such group and does not make it; make it: %s: %w", l.createCommand(storage.GroupSpec{Group: req.Group}), err)
		}
		return err
	}
	return g.pack(msgs, req.Invisible, batch)
}

// groupToPop finds a group that was opened, here or by another process.
func (l *Log) groupToPop(ctx context.Context, key groupKey) (*group, error) {
	if g := l.opened(key); g != nil {
		return g, nil
	}
	if l.port == nil {
		return nil, fmt.Errorf("group %s of topic %q was not opened: %w", key.group, key.topic, storage.ErrGroupNotFound)
	}
	queues, err := l.port.queues(ctx, key.topic)
	if err != nil {
		return nil, err
	}
	for _, broker := range brokersOf(queues) {
		_, ok, err := l.port.findGroup(ctx, broker, key.group)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("broker %s has no group %s: %w", broker, key.group, storage.ErrGroupNotFound)
		}
	}
	return l.open(key), nil
}

// pack makes records of messages.
func (g *group) pack(msgs []*v2.Message, invisible time.Duration, batch *storage.Batch) error {
	for _, m := range msgs {
		r, err := g.receive(m)
		if err != nil { // it comes again
			g.l.opts.Logger.Warn("a message cannot be used as the proxy hands it out", "group", g.key.group, "error", err)
			continue
		}
		g.hold(r, invisible)
		at := len(batch.Buf)
		var raw *frame.Raw
		if batch.Buf, raw, err = appendFrame(batch.Buf, m); err != nil {
			return err
		}
		if raw != nil {
			g.l.opts.Observe.Foreign(raw.Form.String(), raw.LeftOut, raw.DataLeftOut)
		}
		rec := storage.Record{
			Offset: r.offset, Time: m.GetSystemProperties().GetBornTimestamp().AsTime().UnixMilli(), Frame: batch.Buf[at:],
			ID: r.id, Handle: r, Partition: r.partition(), CheckKey: r.text, DeliveryCount: int(m.GetSystemProperties().GetDeliveryAttempt()),
		}
		batch.Records = append(batch.Records, rec)
	}
	at := 0
	for i := range batch.Records { // Buf may have moved
		end := at + len(batch.Records[i].Frame)
		batch.Records[i].Frame = batch.Buf[at:end:end]
		at = end
	}
	return nil
}

// Fields of a receipt: what a proxy writes, between spaces.
const (
	receiptPopTime = iota + 1
	receiptInvisible
	_
	receiptTopicKind // 0: the topic; else the group's retries
	receiptBroker
	receiptQueue
	receiptOffset
	receiptFields
)

// receive makes a receipt of a message.
func (g *group) receive(m *v2.Message) (*receipt, error) {
	sys := m.GetSystemProperties()
	r := &receipt{group: g, id: sys.GetMessageId(), text: sys.GetReceiptHandle(), queue: int(sys.GetQueueId()), offset: sys.GetQueueOffset()}
	if r.id == "" || r.text == "" || len(r.text) > frame.MaxValueLen {
		return nil, fmt.Errorf("message id %q, receipt of %d bytes", r.id, len(r.text))
	}
	if f := strings.Fields(r.text); len(f) >= receiptFields {
		r.broker, r.retry = f[receiptBroker], f[receiptTopicKind] != "0"
		if n, err := strconv.Atoi(f[receiptQueue]); err == nil {
			r.queue = n
		}
		if n, err := strconv.ParseInt(f[receiptOffset], 10, 64); err == nil {
			r.offset = n
		}
	}
	return r, nil
}

func (r *receipt) partition() string {
	name := partitionName(r.broker, r.queue)
	if r.retry {
		return "retry:" + name
	}
	return name
}

// stale is how long after its receipt has run out a message is taken to be held
// here: somebody else may have acked it since.
const stale = 10 * time.Minute

// hold notes that a message is held here. Of one that is handed out again it is
// known from the first time where it was appended, or not at all.
func (g *group) hold(r *receipt, invisible time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := time.Now().Add(invisible)
	if p, ok := g.held[r.id]; ok {
		p.until = until
		g.held[r.id] = p
	} else if !r.retry {
		g.held[r.id] = place{r.partition(), r.offset, until}
	}
	if !r.retry {
		g.high[r.partition()] = max(g.high[r.partition()], r.offset+1)
	}
}

// sweep forgets messages whose receipts ran out long ago.
func (g *group) sweep(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, p := range g.held {
		if now.Sub(p.until) > stale {
			delete(g.held, id)
		}
	}
}

// done notes that a message is acked.
func (g *group) done(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, id)
}

// lowest is the lowest offset in a partition that is held, and the offset after
// the highest one handed out; 0 where there is none.
func (g *group) lowest(partition string) (low int64, any bool, high int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.held {
		if p.partition == partition && (!any || p.offset < low) {
			low, any = p.offset, true
		}
	}
	return low, any, g.high[partition]
}

// Invisible tells how long a receipt says that its message is invisible; for
// those who look at what a broker really does.
func Invisible(checkKey string) (d time.Duration, ok bool) {
	f := strings.Fields(checkKey)
	if len(f) < receiptFields {
		return 0, false
	}
	ms, err := strconv.ParseInt(f[receiptInvisible], 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil
}

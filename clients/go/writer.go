package ackmesh

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

const (
	// confirmFor is how long an ending session waits for the answers to its acks,
	// drainFor how long for the server to end the stream.
	confirmFor = 5 * time.Second
	drainFor   = 5 * time.Second
)

// errDrain: the server did not end the stream after the client did.
var errDrain = errors.New("ackmesh: the server did not end the stream in time")

// writer is the state of a session's writer, the only one that sends on it.
type writer struct {
	*session
	lastAck    time.Time // when acks were last sent
	nextExtend time.Time
	confirmBy  time.Time // when the wait for answers ends; zero while not waiting
	out        []any     // messages of this turn
	ranges     []wire.Range
}

// write sends what is to be sent until the stream ends.
func (ss *session) write(ctx context.Context) {
	defer ss.writer.Done()
	w := &writer{session: ss}
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		next, over := w.turn(time.Now())
		if !w.send() {
			return // the reader learns why
		}
		if over {
			w.halfClose(ctx)
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-ss.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// send sends the messages of a turn.
func (w *writer) send() bool {
	defer func() { clear(w.out); w.out = w.out[:0] }()
	for _, m := range w.out {
		err := w.stream.SendMsg(m)
		if raw, ok := m.(*outMsg); ok {
			raw.buf.Free()
		}
		if err != nil {
			return false
		}
	}
	return true
}

// halfClose asks the server to end the stream, and does not wait for ever.
func (w *writer) halfClose(ctx context.Context) {
	if err := w.stream.CloseSend(); err != nil {
		w.cancel(err)
		return
	}
	t := time.NewTimer(drainFor)
	defer t.Stop()
	select {
	case <-t.C:
		w.cancel(errDrain)
	case <-ctx.Done():
	}
}

// turn gathers what is to be sent now, and returns when to look again. over: this
// was the last, and the stream is to be half-closed.
func (w *writer) turn(now time.Time) (next time.Time, over bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	next = now.Add(forever)
	for _, m := range w.outbox {
		w.out = append(w.out, m)
	}
	w.outbox = w.outbox[:0]
	next = sooner(next, w.gatherAcks(now))
	next = sooner(next, w.gatherRetries(now))
	w.gatherNacks()
	next = sooner(next, w.gatherExtends(now))
	if w.leaving {
		var by time.Time
		by, over = w.finish(now)
		next = sooner(next, by)
	}
	return next, over
}

// sooner returns the earlier time; the zero time is none.
func sooner(a, b time.Time) time.Time {
	if b.IsZero() || !b.Before(a) {
		return a
	}
	return b
}

// gatherAcks collects the acks if there are enough, or enough time has passed since
// the last ones. Otherwise it returns when it will have.
func (w *writer) gatherAcks(now time.Time) time.Time {
	n := w.pending.Load()
	if n == 0 && len(w.dirty) == 0 {
		return time.Time{}
	}
	due := w.lastAck.Add(w.s.cfg.AckInterval)
	if n < int64(w.s.cfg.AckBatch) && now.Before(due) && !w.leaving {
		return due
	}
	w.pending.Store(0)
	w.ranges = w.ranges[:0]
	for _, e := range w.dirty {
		w.ranges = w.ledger.Collect(e, w.ranges)
	}
	clear(w.dirty)
	w.dirty = w.dirty[:0]
	w.lastAck = now
	w.s.stats.Acked += idCount(w.ranges)
	w.addRanges(wire.KindAck, nil)
	return time.Time{}
}

func idCount(ranges []wire.Range) int64 {
	n := int64(0)
	for _, r := range ranges {
		n += int64(r.Last-r.First) + 1
	}
	return n
}

// addRanges adds messages that name w.ranges.
func (w *writer) addRanges(kind byte, tail []byte) {
	for at := 0; at < len(w.ranges); at += wire.MaxRanges {
		part := w.ranges[at:min(at+wire.MaxRanges, len(w.ranges))]
		buf := pool.Get(20*len(part) + len(tail) + 32)
		*buf = wire.AppendRanges((*buf)[:0], kind, part, tail)
		w.out = append(w.out, &outMsg{mem.NewBuffer(buf, pool)})
	}
}

// gatherRetries collects again what was answered with RETRY, when its time has
// come.
func (w *writer) gatherRetries(now time.Time) time.Time {
	if w.retryAt.IsZero() || now.Before(w.retryAt) {
		return w.retryAt
	}
	w.retryAt = time.Time{}
	w.ranges = w.ledger.CollectRetries(w.ranges[:0])
	w.addRanges(wire.KindAck, nil)
	w.nacks = append(w.nacks, w.again...)
	w.again = w.again[:0]
	return time.Time{}
}

// gatherNacks adds the nacks, those of one kind together.
func (w *writer) gatherNacks() {
	for len(w.nacks) > 0 {
		info, rest := w.nacks[0].info, w.nacks[:0]
		n := &pb.Nack{Reason: info.reason, DeadLetter: info.deadLetter}
		if info.hasDelay {
			n.Delay = durationpb.New(info.delay)
		}
		for _, it := range w.nacks {
			if it.info != info || len(n.DeliveryIds) == wire.MaxRanges {
				rest = append(rest, it)
				continue
			}
			n.DeliveryIds = append(n.DeliveryIds, it.id)
			w.nackWhy[it.id] = info
		}
		w.nacks = rest
		w.out = append(w.out, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: n}})
	}
}

// gatherExtends moves the deadlines of what is held, every quarter of the ack
// timeout, so that each is moved twice before it runs out.
func (w *writer) gatherExtends(now time.Time) time.Time {
	if w.s.cfg.MaxExtension < 0 {
		return time.Time{}
	}
	if w.ledger.Len() == 0 {
		w.resting = true
		w.nextExtend = time.Time{}
		return time.Time{}
	}
	if w.nextExtend.IsZero() {
		w.nextExtend = now.Add(w.ackTimeout / 4)
	}
	if now.Before(w.nextExtend) {
		return w.nextExtend
	}
	w.nextExtend = now.Add(w.ackTimeout / 4)
	w.ranges = w.ledger.Extend(w.ranges[:0], now, now.Add(-w.ackTimeout/8), now.Add(-w.s.cfg.MaxExtension))
	w.addRanges(wire.KindExtend, nil)
	return w.nextExtend
}

// finish looks whether an ending session may be half-closed: what is held is
// finished and acks are answered, or the time for that is over.
func (w *writer) finish(now time.Time) (by time.Time, over bool) {
	if w.held() > 0 && now.Before(w.finishBy) {
		return w.finishBy, false
	}
	if w.confirmBy.IsZero() {
		w.confirmBy = now.Add(confirmFor)
	}
	// An ack may have been made since this turn collected them.
	owed := w.ledger.Open() > 0 || w.ledger.Uncollected() > 0 || len(w.nackWhy) > 0 || len(w.again) > 0
	if owed && now.Before(w.confirmBy) {
		return w.confirmBy, false
	}
	w.over = true
	return time.Time{}, true
}

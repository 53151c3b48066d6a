package ackmesh

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/clients/go/internal/ledger"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Pauses before an ack that was answered with RETRY is sent again.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
)

var outcomes = map[pb.AckResult_Status]ledger.Outcome{
	pb.AckResult_STATUS_DURABLE: ledger.Durable,
	pb.AckResult_STATUS_RETRY:   ledger.Retry,
	pb.AckResult_STATUS_UNKNOWN: ledger.Unknown,
	pb.AckResult_STATUS_STALE:   ledger.Stale,
	pb.AckResult_STATUS_FENCED:  ledger.Fenced,
}

// refusal is what an outcome is for the application; nil for Durable.
func refusal(out ledger.Outcome) error {
	switch out {
	case ledger.Unknown:
		return ErrNotOutstanding
	case ledger.Stale:
		return ErrStale
	case ledger.Fenced:
		return ErrFenced
	}
	return nil
}

// confirmation is an answered ack for OnConfirm.
type confirmation struct {
	ref Ref
	err error
}

// results takes the answers to acks and nacks.
func (ss *session) results(r *pb.AckResult) error {
	told, err := ss.applyAll(r)
	for _, t := range told {
		ss.s.cfg.OnConfirm(t.ref, t.err)
	}
	return err
}

func (ss *session) applyAll(r *pb.AckResult) ([]confirmation, error) {
	ss.s.mu.Lock()
	defer ss.s.mu.Unlock()
	var told []confirmation
	for _, o := range r.GetOutcomes() {
		out, known := outcomes[o.GetStatus()]
		if !known {
			return told, protocolError("ack status %v", o.GetStatus())
		}
		for _, id := range o.GetDeliveryIds() {
			told = ss.apply(told, out, wire.Range{First: id, Last: id})
		}
		for _, x := range o.GetRanges() {
			told = ss.apply(told, out, wire.Range{First: x.GetFirst(), Last: x.GetLast()})
		}
	}
	ss.ledger.Prune()
	for _, p := range r.GetPositions() {
		ss.s.table.Advance(positionFromProto(p))
	}
	if ss.leaving {
		ss.signal()
	}
	return told, nil
}

// apply takes one answer. The caller holds s.mu.
func (ss *session) apply(told []confirmation, out ledger.Outcome, r wire.Range) []confirmation {
	ss.ledger.Apply(out, r, func(e *ledger.Entry, from, to int, nack bool) {
		switch {
		case nack:
			ss.nackAnswered(out, e, from, to)
		case out == ledger.Retry:
			ss.retryLater()
		default:
			told = ss.ackAnswered(told, out, e, from, to)
		}
	})
	return told
}

func (ss *session) nackAnswered(out ledger.Outcome, e *ledger.Entry, from, to int) {
	for i := from; i < to; i++ {
		id := e.ID(i)
		info, sent := ss.nackWhy[id]
		delete(ss.nackWhy, id)
		if out == ledger.Retry && sent {
			ss.again = append(ss.again, nackItem{id, info})
			ss.retryLater()
		}
	}
}

// retryLater has acks and nacks that were answered with RETRY sent again, after
// pauses that grow until one is answered otherwise.
func (ss *session) retryLater() {
	if ss.retryAt.IsZero() {
		ss.retryAt = time.Now().Add(ss.retries.next())
		ss.signal()
	}
}

func (ss *session) ackAnswered(told []confirmation, out ledger.Outcome, e *ledger.Entry, from, to int) []confirmation {
	n := int64(to - from)
	if out == ledger.Durable {
		ss.retries.reset()
		ss.s.stats.Confirmed += n
		e.Finished(from, to)
	} else {
		ss.s.stats.Refused += n
		ss.s.log().Warn("ackmesh: ack refused", slog.Any("reason", refusal(out)), slog.Any("first", refOf(e, from)), slog.Int64("count", n))
	}
	err := refusal(out)
	if len(ss.waits) > 0 || err != nil {
		for i := from; i < to; i++ {
			ss.answerWaits(e.ID(i), err)
		}
	}
	if ss.s.cfg.OnConfirm != nil {
		for i := from; i < to; i++ {
			told = append(told, confirmation{refOf(e, i), err})
		}
	}
	return told
}

// ackWait is a caller that waits for answers.
type ackWait struct {
	left int
	err  error // the first that is not nil
	done chan struct{}
}

func (w *ackWait) answer(err error) {
	if w.err == nil {
		w.err = err
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// answerWaits tells those who wait for a delivery's answer. If nobody does, the next
// Confirm is told. The caller holds s.mu.
func (ss *session) answerWaits(id uint64, err error) {
	if len(ss.waits[id]) == 0 {
		ss.s.untold(err)
		return
	}
	for _, w := range ss.waits[id] {
		w.answer(err)
	}
	delete(ss.waits, id)
}

// untold keeps the fate of an ack that nobody waited for. The caller holds s.mu.
func (s *Stream) untold(err error) {
	if s.fate == nil {
		s.fate = err
	}
}

// failWaits tells all who wait that no answer will come; lost are the acks that have
// none. The caller holds s.mu.
func (ss *session) failWaits(lost []Ref) {
	for _, r := range lost {
		ss.answerWaits(r.DeliveryID, ErrUnconfirmed)
	}
	for id, ch := range ss.changes {
		close(ch)
		delete(ss.changes, id)
	}
}

// AckConfirmed acks the delivery and waits until the server has answered: nil when
// the ack is durable. ErrUnconfirmed says that the stream broke before the answer,
// ErrNotOutstanding that it was acked or nacked before or its stream has ended.
func (d *Delivery) AckConfirmed(ctx context.Context) error {
	if d.entry == nil {
		return ErrNotOutstanding
	}
	w := &ackWait{left: 1, done: make(chan struct{})}
	s := d.sess.s
	s.mu.Lock()
	if d.sess.ended.Load() || !d.entry.Ack(d.index) {
		s.mu.Unlock()
		return ErrNotOutstanding
	}
	d.sess.waits[d.item.ID] = append(d.sess.waits[d.item.ID], w)
	d.sess.ackedLocked(d.entry, 1)
	s.mu.Unlock()
	return d.sess.await(ctx, w)
}

// await waits for the answers that w is to get.
func (ss *session) await(ctx context.Context, w *ackWait) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	ss.s.mu.Lock()
	defer ss.s.mu.Unlock()
	if w.left == 0 {
		return w.err
	}
	for id, all := range ss.waits {
		if all = slices.DeleteFunc(all, func(x *ackWait) bool { return x == w }); len(all) > 0 {
			ss.waits[id] = all
		} else {
			delete(ss.waits, id)
		}
	}
	ss.s.untold(w.err)
	return ctx.Err()
}

// Confirm waits until the server has answered every ack made before the call: nil
// when all are durable, else the first other fate, such as ErrUnconfirmed when their
// stream broke. It tells each fate once: what was told to an earlier Confirm, or to
// AckConfirmed, does not count again.
func (s *Stream) Confirm(ctx context.Context) error {
	s.mu.Lock()
	w := &ackWait{left: 1, err: s.fate, done: make(chan struct{})}
	s.fate = nil
	ss := s.sess
	if ss == nil {
		s.mu.Unlock()
		return w.err
	}
	for _, r := range ss.unconfirmed() {
		ss.waits[r.DeliveryID] = append(ss.waits[r.DeliveryID], w)
		w.left++
	}
	w.answer(nil)
	s.mu.Unlock()
	return ss.await(ctx, w)
}

package dispatch

import (
	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// fillRetries encodes offsets below NextNew whose turn it is, also those whose
// receipt has run out: a late ack of an earlier delivery must still find them.
// They come again, and join.
func (f *feed) fillRetries(p *part, items []delivery.Item) progress {
	e := &f.l.enc
	for _, it := range items {
		if it.Alone && len(e.offs) > 0 {
			break
		}
		q := f.at[it.Offset]
		if q == nil { // cannot be: what is unfinished is held
			p.m.Finish(it.Offset)
			f.l.touch(p)
			continue
		}
		if f.finishUnsent(p, q) {
			continue
		}
		if !f.sameRun(q) {
			break
		}
		if v := p.m.Confirm(it.Offset, f.keyOf(p, q)); v != delivery.Send {
			continue
		}
		if p.passes(it.Offset, e.a) {
			e.passed = true
			continue
		}
		n, cause := len(e.offs), p.m.Cause(it.Offset)
		if !f.encode(p, q, it.Attempt) {
			break
		}
		if it.Attempt > 1 && len(e.offs) > n {
			e.again++
			e.causes[cause]++
		}
		if it.Alone || e.full() {
			break
		}
	}
	return nothing
}

// fillNew encodes records that this feed has not offered yet.
func (f *feed) fillNew(p *part) progress {
	e := &f.l.enc
	for len(f.queue) > 0 {
		q := f.queue[0]
		if e.full() || !f.sameRun(q) {
			return nothing
		}
		switch {
		case f.lapsed(q):
			p.m.Pass(q.off + 1)
			f.drop(p, q)
		case q.history != nil:
			p.m.Recall(e.now, q.history.attempt(q.off), f.alone && q.history.due == 0, q.history.asked())
			q.history = nil
			f.l.touch(p)
		default:
			if stop := f.offer(p, q); stop {
				return nothing
			}
		}
		f.dequeue()
	}
	return noRecords
}

// sameRun tells whether a record may go into the run that is being encoded:
// one run is of one partition.
func (f *feed) sameRun(q *popped) bool {
	e := &f.l.enc
	return len(e.offs) == 0 || f.at[e.offs[0]].rec.Partition == q.rec.Partition
}

// offer offers a record for its first delivery; stop leaves it in the queue.
func (f *feed) offer(p *part, q *popped) (stop bool) {
	e := &f.l.enc
	skip, expired := f.skips(p, q)
	if !skip && q.bad == nil && !e.fits(&q.rec) {
		if len(e.offs) > 0 {
			return true
		}
		if !e.widen(&q.rec) {
			return true
		}
	}
	switch p.m.Offer(q.off, f.keyOf(p, q)) {
	case delivery.Full:
		return true
	case delivery.Skip, delivery.Hold:
		return false
	}
	if skip {
		f.finish(p, q, expired)
		return false
	}
	return !f.encode(p, q, 1)
}

// skips tells whether the subscriber does not get a record, and whether because
// it has expired.
func (f *feed) skips(p *part, q *popped) (skip, expired bool) {
	expired = q.expires != 0 && f.l.enc.now.UnixMilli() >= q.expires
	foreign := q.to != "" && q.to != p.sub.name
	return expired || foreign || q.bad == nil && !p.sub.matches(&q.rec), expired
}

// finishUnsent finishes a record that the subscriber is not to get any more.
func (f *feed) finishUnsent(p *part, q *popped) bool {
	skip, expired := f.skips(p, q)
	if skip {
		f.finish(p, q, expired)
	}
	return skip
}

// finish finishes a record by a rule that holds again when it comes again.
func (f *feed) finish(p *part, q *popped, expired bool) {
	q.silent = true
	p.m.Finish(q.off)
	f.l.enc.finished++
	f.l.d.Metrics.countSkipped(expired)
	if expired {
		p.counts.Expired.Add(1)
	}
	f.l.touch(p)
}

// lapsed tells whether the receipt of a record that was not sent yet has run
// out: then somebody else may have it, and it comes again.
func (f *feed) lapsed(q *popped) bool { return !f.l.enc.now.Before(q.until) }

// drop forgets a record that was passed over because its receipt has run out.
// What it went through before stays on disk.
func (f *feed) drop(p *part, q *popped) {
	f.l.enc.finished++
	f.l.touch(p)
	f.metrics().Lapsed.Add(1)
	f.discard(q)
}

// discard forgets an unfinished record that is not to be released.
func (f *feed) discard(q *popped) {
	if f.at[q.off] == q {
		delete(f.at, q.off)
		f.metrics().Held.Add(-1)
		f.l.d.Metrics.WindowBytes.Add(-int64(q.size))
	}
	if f.byID[q.id] == q {
		delete(f.byID, q.id)
	}
	q.rec.Frame = nil
}

func (f *feed) keyOf(p *part, q *popped) uint64 {
	if q.bad != nil {
		return 0
	}
	return p.keyOf(&q.rec)
}

// encode puts one record into the batch, with the check key of its receipt. One
// that cannot be sent becomes a dead letter instead. It is false when the batch
// ends before it; then need says what a first one takes that does not fit.
func (f *feed) encode(p *part, q *popped, attempt int32) bool {
	e := &f.l.enc
	if q.bad != nil {
		return f.kill(p, q, "DAMAGED", "the body is no frame: "+q.bad.Error())
	}
	if !e.fits(&q.rec) && (len(e.offs) > 0 || !e.widen(&q.rec)) {
		return false
	}
	if len(e.offs) == 0 && e.buf != nil { // the head is of a record that did not go
		*e.buf = (*e.buf)[:0]
	}
	before := e.bodyLen()
	if err := f.append(q, attempt); err != nil {
		return f.kill(p, q, "DAMAGED", err.Error())
	}
	if size := e.messageLen(before); size > e.a.b.s.cfg.MaxMessage {
		e.undo(before)
		f.l.tooLarge(p, q.off, size)
		return true
	}
	if f.l.d.cfg.Tracer != nil {
		e.traced(&q.rec, attempt)
	}
	return true
}

func (f *feed) kill(p *part, q *popped, reason, detail string) bool {
	p.m.Kill(q.off, reason, detail)
	f.l.touch(p)
	return true
}

// append encodes a record with the broker's partition and offset.
func (f *feed) append(q *popped, attempt int32) error {
	e := &f.l.enc
	if e.buf == nil {
		one, most := e.estimate(&q.rec), min(e.slots, len(f.at))
		e.buf = mem.DefaultBufferPool().Get(e.headLen() + max(one, min(batchBuffer, int(e.room), most*one)))
		*e.buf = (*e.buf)[:0]
	}
	if len(*e.buf) == 0 {
		*e.buf = appendRunHead(*e.buf, e.a.b.id, e.p.key.Topic, q.rec.Partition, e.p.m.Epoch())
		e.head = len(*e.buf)
	}
	opt := f.l.t.protoOptions
	if q.rec.CheckKey != "" {
		f.stamp[0] = frame.Attribute{Name: frame.AttrPopCK, Value: q.rec.CheckKey}
		opt.Stamps = f.stamp[:]
	}
	b, at, err := appendDelivery(*e.buf, q.rec.Offset, attempt, q.rec.Frame, opt)
	*e.buf = b
	if err != nil {
		return err
	}
	f.dirty = f.dirty || attempt == 1
	e.offs = append(e.offs, q.off)
	e.idPos = append(e.idPos, int32(at))
	return nil
}

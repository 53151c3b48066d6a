package dispatch

import (
	"errors"
	"math/bits"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

func onesCount(mask uint64) int { return bits.OnesCount64(mask) }

// commitRetry is how long a part waits after a commit that failed.
const commitRetry = 250 * time.Millisecond

// commit submits what changed. One commit of a part is under way at a time, so
// that all that comes meanwhile shares the next.
func (l *loop) commit(p *part, now time.Time) {
	if p.committing || !p.unsaved() || now.Before(p.retryAt) || l.frozen[p.key.Subscriber] != nil {
		return
	}
	p.retryAt = time.Time{}
	p.committing, p.left = true, false
	v := p.m.Snapshot()
	l.proof.remember(p, v.Position)
	v.Log = p.log
	v.Absent = p.absent(now)
	p.inCommit = v
	txn := &offsetstore.Txn{Puts: []offsetstore.Put{{Key: p.key, Value: v}}}
	p.burials.into(p.key, txn)
	// The next records of keys wait for a commit, and retries and dead letters do.
	if !p.sub.settings.Ordered && !p.m.Arming() && len(txn.Sets)+len(txn.Unsets) == 0 {
		txn.Acks = max(1, p.m.Committing())
	}
	if before := l.pop.record(v, txn); len(before) > 0 {
		submitAll(l.d.store, append(before, txn), func(errs []error) {
			l.post(event{kind: evCommitted, p: p, err: errors.Join(errs...), fates: errs})
		})
		return
	}
	l.d.store.Submit(txn, func(err error) {
		l.post(event{kind: evCommitted, p: p, err: err})
	})
}

// unsaved tells whether the part has something to commit: also that its subscriber
// has left, or is back.
func (p *part) unsaved() bool {
	return p.m.Dirty() || !p.burials.idle() || p.l.pop.unsaved() || p.left && !p.lost || p.dated != 0 && len(p.atts) > 0
}

// absent is the value's Absent: since when no stream is attached.
func (p *part) absent(now time.Time) int64 {
	if len(p.atts) > 0 {
		p.absentAt = 0
	} else if p.absentAt == 0 {
		p.absentAt = now.UnixMilli()
	}
	return p.absentAt
}

// committed ends a commit: the streams are told, durable or to be repeated.
func (l *loop) committed(p *part, err error, fates []error, now time.Time) {
	p.committing = false
	if err != nil {
		l.commitFailed(p, err, now)
	}
	l.interred(p, err == nil)
	l.digOn()
	answers := p.m.EndCommit(now, err == nil)
	if err == nil { // first the positions: a stream that ends goes with its last answer
		p.dated = p.inCommit.Absent
		l.tellPosition(p, answers)
		l.lite.save()
	}
	for _, ans := range answers {
		if ans.Durable && !ans.Nack {
			l.d.Metrics.Acked.Add(int64(onesCount(ans.Mask)))
			p.counts.Acked.Add(int64(onesCount(ans.Mask)))
			l.d.trace(ans.First, ans.Mask, FateDurable)
		} else if !ans.Durable {
			l.d.trace(ans.First, ans.Mask, FateRetry)
		}
		l.tellAnswer(p, ans)
	}
	if len(p.atts) == 0 {
		p.m.Disarm() // what this commit has armed
	}
	l.pop.recorded(err, fates)
	if f := l.frozen[p.key.Subscriber]; f != nil {
		f.settled()
	}
	l.touch(p)
	l.enlist(p)
}

func (l *loop) commitFailed(p *part, err error, now time.Time) {
	l.d.Metrics.CommitFailures.Add(1)
	p.retryAt = now.Add(commitRetry)
	if len(p.atts) == 0 {
		p.lost = true // nobody to tell: it comes again
	}
	if !errors.Is(err, offsetstore.ErrReadOnly) {
		l.d.warn("acks could not be stored", "topic", l.t.name, "partition", l.partition, "subscriber", p.key.Subscriber.String(), "error", err)
	}
}

// tellAnswer tells a stream what became of its acks. The stream may have left
// the part meanwhile; it is told all the same.
func (l *loop) tellAnswer(p *part, ans delivery.Answer) {
	a := p.attachmentByID(ans.Stream)
	var s *Stream
	if a != nil {
		s = a.b.s
	} else if s = l.d.streamByID(ans.Stream); s == nil {
		return
	}
	switch {
	case ans.Durable:
		s.tell(StatusDurable, ans.First, ans.Mask, true)
	case a != nil:
		s.again(a.b, p, p.m.Epoch(), ans.First, ans.Mask, ans.Held)
	default:
		s.tell(StatusRetry, ans.First, ans.Mask, true)
	}
}

// tellPosition passes the durable position on to the part's streams, and to those
// that have left it and wait for these answers only.
func (l *loop) tellPosition(p *part, answers []delivery.Answer) {
	pos := durablePosition(p.key, p.inCommit)
	if pos.equal(p.told) || l.pop != nil {
		return
	}
	p.told = pos
	for _, a := range p.atts {
		a.b.s.notePosition(a, pos)
	}
	var last delivery.StreamID
	for _, ans := range answers {
		if ans.Stream == last || p.attachmentByID(ans.Stream) != nil {
			continue
		}
		last = ans.Stream
		if s := l.d.streamByID(ans.Stream); s != nil {
			s.notePosition(&attachment{p: p}, pos)
		}
	}
}

func (p *part) attachmentByID(id delivery.StreamID) *attachment {
	for _, a := range p.atts {
		if a.b.s.id == id {
			return a
		}
	}
	return nil
}

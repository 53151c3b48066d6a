package delivery

import (
	"time"
)

// pending is an answer that waits for a commit.
type pending struct {
	b     *batch
	mask  uint64
	fresh uint64 // ack: the offsets that it finished itself
	late  uint64 // ack: the deliveries that had timed out
	nack  bool
}

// Ack finishes deliveries of the batch that begins with first. A late ack, of
// a delivery that timed out since, finishes the offset just as well, whoever
// holds it now. A repeated ack of what is committing is Waiting, and answered
// with the first one; of what is durable, or was nacked, it is Unknown.
func (m *Machine) Ack(now time.Time, s StreamID, first, mask uint64) Outcome {
	m.at(now)
	b := m.find(s, first)
	if b == nil {
		return Outcome{Unknown: mask}
	}
	known := mask & (b.out | b.late)
	taken := mask & (known | b.pend&^b.nacked)
	o := Outcome{Waiting: taken, Unknown: mask &^ taken}
	if known == 0 {
		return o
	}
	fresh := m.unfinishedBits(b, known)
	o.Done = m.durableBits(b, known&^fresh)
	o.Waiting &^= o.Done
	m.clearOut(b, known&b.out)
	m.accept(b, known&^o.Done, fresh)
	b.late &^= known
	m.settle(b)
	return o
}

// unfinishedBits are the deliveries of mask whose offset is not finished.
func (m *Machine) unfinishedBits(b *batch, mask uint64) uint64 {
	fresh := mask
	for run, r := range b.runs(mask) {
		if !m.track.none(r) {
			fresh &^= m.finishedBits(b, run)
		}
	}
	return fresh
}

func (m *Machine) finishedBits(b *batch, mask uint64) (done uint64) {
	for bit, off := range b.each(mask) {
		if m.track.has(off) {
			done |= bit
		}
	}
	return done
}

// durableBits are the deliveries of mask whose offset is finished on disk.
func (m *Machine) durableBits(b *batch, mask uint64) (durable uint64) {
	for bit, off := range b.each(mask) {
		if m.durable.has(off) {
			durable |= bit
		}
	}
	return durable
}

// accept finishes the fresh offsets and has all of mask answered by the next
// commit. The bits have left out already, but not late.
func (m *Machine) accept(b *batch, mask, fresh uint64) {
	if mask == 0 {
		return
	}
	b.pend |= mask
	late := mask & b.late
	m.finishFresh(b, fresh, late != 0)
	m.answerLater(pending{b: b, mask: mask, fresh: fresh, late: late})
}

// finishFresh finishes offsets until a commit decides. hist: some may have a
// record though the batch was a first delivery.
func (m *Machine) finishFresh(b *batch, fresh uint64, hist bool) {
	for _, r := range b.runs(fresh) {
		m.track.add(r)
	}
	if b.again || hist {
		for _, off := range b.each(fresh) {
			m.setAside(off)
		}
	}
	if m.set.Ordered {
		for _, off := range b.each(fresh) {
			m.turnOver(off)
		}
	}
}

// setAside keeps the record of an acked offset until the ack is durable.
func (m *Machine) setAside(off int64) {
	r := m.hist[off]
	if r == nil || r.state == acked {
		return
	}
	r.was = r.state
	m.move(r, acked)
}

// answerLater queues p, joined with the one before it where it can be.
func (m *Machine) answerLater(p pending) {
	m.changed = true
	if n := len(m.cur); n > 0 && m.cur[n-1].b == p.b && m.cur[n-1].nack == p.nack {
		last := &m.cur[n-1]
		last.mask |= p.mask
		last.fresh |= p.fresh
		last.late |= p.late
		return
	}
	m.cur = append(m.cur, p)
}

// Nack gives deliveries back. delay < 0: the backoff. dead: no further try.
// reason is shown in the dead letter. A delivery that timed out is Unknown: it
// was given back then; so is one that was acked. The dead letter of a nack is
// yielded after the nack is durable.
func (m *Machine) Nack(now time.Time, s StreamID, first, mask uint64, delay time.Duration, dead bool, reason string) Outcome {
	m.at(now)
	b := m.find(s, first)
	if b == nil {
		return Outcome{Unknown: mask}
	}
	known := mask & b.out
	taken := known | mask&b.pend&b.nacked
	o := Outcome{Waiting: taken, Unknown: mask &^ taken}
	if known == 0 {
		return o
	}
	fresh := m.unfinishedBits(b, known)
	o.Done = m.durableBits(b, known&^fresh)
	o.Waiting &^= o.Done
	m.clearOut(b, known)
	m.accept(b, known&^(fresh|o.Done), 0) // finished meanwhile: as good as acked
	if fresh != 0 {
		b.pend |= fresh
		b.nacked |= fresh
		for _, off := range b.each(fresh) {
			m.fail(off, delay, dead, reason)
		}
		m.answerLater(pending{b: b, mask: fresh, nack: true})
	}
	m.settle(b)
	return o
}

// WaitAtMost has the deliveries of a Nack just made wait no longer than left tells of
// their offset; ok is false for one that may wait as long as the Nack says.
func (m *Machine) WaitAtMost(s StreamID, first, mask uint64, left func(off int64) (d time.Duration, ok bool)) {
	b := m.find(s, first)
	if b == nil {
		return
	}
	for _, off := range b.each(mask & b.nacked) {
		r := m.hist[off]
		if r == nil || r.state != waiting {
			continue
		}
		if d, ok := left(off); ok && m.after(d) < r.due {
			r.due = m.after(d)
			m.queue(r)
		}
	}
}

// Extend moves the deadline of deliveries to now + by, whether they were
// handed over yet or not. Waiting are those it moved and those committing;
// nothing is answered later. One that timed out is Unknown.
func (m *Machine) Extend(now time.Time, s StreamID, first, mask uint64, by time.Duration) Outcome {
	m.at(now)
	b := m.find(s, first)
	if b == nil {
		return Outcome{Unknown: mask}
	}
	if out := mask & b.out; out != 0 {
		m.schedule(b, out, m.after(by))
	}
	known := mask & (b.out | b.pend)
	return Outcome{Waiting: known, Unknown: mask &^ known}
}

// Tick lets time pass: deliveries beyond their deadline are given back (or are
// dead letters), waiting ones become ready. It returns the deliveries that
// hold no slot of their stream's window any more; a late ack of them is still
// taken.
func (m *Machine) Tick(now time.Time) []Given {
	m.at(now)
	var given []Given
	for a := m.alarms.first(); a != nil && a.at <= m.now; a = m.alarms.first() {
		m.alarms.drop(a)
		if a.rec != nil {
			m.queue(a.rec)
			continue
		}
		given = append(given, m.expire(a.batch, a.mask&a.batch.out))
	}
	return given
}

// expire times out outstanding deliveries.
func (m *Machine) expire(b *batch, mask uint64) Given {
	g := Given{b.id, b.first, mask}
	m.clearOut(b, mask)
	b.late |= mask
	for _, off := range b.each(mask) {
		m.giveBack(off, timedOut)
	}
	m.settle(b)
	return g
}

// Deadline is when Tick has something to do next; ok is false for never.
func (m *Machine) Deadline() (t time.Time, ok bool) {
	at, ok := m.patienceEnds()
	if a := m.alarms.first(); a != nil && (!ok || a.at < at) {
		at, ok = a.at, true
	}
	if !ok {
		return time.Time{}, false
	}
	return m.start.Add(time.Duration(at)), true
}

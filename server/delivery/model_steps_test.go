package delivery

import (
	"maps"
	"slices"
	"time"
)

func (m *model) offer(off int64, key uint64) Verdict {
	if off < m.next {
		return Skip
	}
	if m.finished(off) {
		m.pass(off + 1)
		return Skip
	}
	if m.paused(off) {
		return Full
	}
	o := &mOff{key: key, place: pOffered, unsent: true, due: m.now}
	if m.set.Ordered && key != 0 && m.keyTaken(key) {
		if m.heldOnly() >= m.set.LookAhead {
			return Full
		}
		o.place = pQueued
	}
	m.pass(off)
	m.next = off + 1
	m.offs[off] = o
	if o.place == pQueued {
		return Hold
	}
	return Send
}

func (m *model) pass(next int64) {
	before := m.position()
	for ; m.next < next; m.next++ {
		m.firm(m.next)
	}
	m.changed = m.changed || m.position() != before
}

func (m *model) firm(off int64) {
	if m.offs[off] == nil {
		m.offs[off] = &mOff{}
	}
	m.offs[off].firm = true
	m.offs[off].unknown = false
}

func (m *model) finish(off int64) {
	if off < m.start {
		return
	}
	if !m.finished(off) {
		m.changed = true
	}
	m.firm(off)
}

func (m *model) nextItems() []Item {
	var out []Item
	if off, o := m.lone(); o != nil {
		if o.place == pArmed && m.mayGo(o) {
			out = append(out, Item{off, o.sent, true})
		}
		return out
	}
	for _, off := range m.sorted() {
		if o := m.offs[off]; o.place == pArmed && !m.finished(off) {
			out = append(out, Item{off, o.sent, false})
		}
	}
	for _, off := range m.sorted() {
		if o := m.offs[off]; o.unknown && !m.finished(off) {
			out = append(out, Item{off, o.sent + 1, false})
		}
	}
	return out
}

func (m *model) confirm(off int64, key uint64) Verdict {
	o := m.offs[off]
	switch {
	case !m.set.Ordered:
		return Send
	case m.finished(off):
		return Skip
	case o.unknown:
		o.key, o.unknown = key, false
		return Hold
	}
	return Send
}

func (m *model) sendAll(s StreamID, first uint64, offs []int64) {
	for i, off := range offs {
		o := m.offs[off]
		if o.place == pOffered {
			o.sent = 1
		}
		o.place, o.unsent = pFlight, false
		m.high = max(m.high, off+1)
		m.dels[first+uint64(i)] = &mDel{stream: s, first: first, bit: 1 << i, off: off}
	}
}

// unsend is sendAll on a stream that is not there.
func (m *model) unsend(offs []int64) {
	for _, off := range offs {
		m.high = max(m.high, off+1)
		if o := m.offs[off]; o.place == pOffered {
			o.place, o.due, o.unsent = pQueued, m.now, m.set.Ordered
			m.changed = true
		}
	}
}

func (m *model) handed(s StreamID, first uint64) {
	for _, d := range m.dels {
		if d.stream == s && d.first == first && d.state == dOut && !d.extended {
			d.handed, d.deadline = true, m.now.Add(m.streams[s])
		}
	}
}

// batch lists the deliveries of a batch that mask names, in order.
func (m *model) batch(s StreamID, first, mask uint64) []*mDel {
	var out []*mDel
	for i := range uint64(64) {
		if d := m.dels[first+i]; mask&(1<<i) != 0 && d != nil && d.first == first && d.stream == s && !d.orphan {
			out = append(out, d)
		}
	}
	return out
}

func (m *model) answer(s StreamID, first, mask uint64, ack bool, nack func(*mDel)) Outcome {
	var o Outcome
	for _, d := range m.batch(s, first, mask) {
		switch d.state {
		case dAck, dNack:
			if ack == (d.state == dAck) {
				o.Waiting |= d.bit
			}
			continue
		case dGone:
			continue
		case dLate:
			if !ack {
				continue
			}
		}
		switch {
		case m.finished(d.off) && m.durable(d.off):
			o.Done |= d.bit
			d.state = dGone
		case ack || m.finished(d.off):
			o.Waiting |= d.bit
			d.wasLate = d.state == dLate
			d.state = dAck
			m.changed = true
		default:
			o.Waiting |= d.bit
			d.state = dNack
			nack(d)
			m.changed = true
		}
	}
	o.Unknown = mask &^ (o.Waiting | o.Done)
	return o
}

func (m *model) ack(s StreamID, first, mask uint64) Outcome {
	return m.answer(s, first, mask, true, nil)
}

func (m *model) nack(s StreamID, first, mask uint64, delay time.Duration, dead bool) Outcome {
	return m.answer(s, first, mask, false, func(d *mDel) {
		o := m.offs[d.off]
		d.oldSpent, d.oldBreaks = o.spent, o.breaks
		o.unsure = true
		o.spent++
		o.breaks = 0
		if dead {
			o.spent = int32(m.set.MaxAttempts)
		}
		if delay < 0 {
			delay = m.set.Backoff[min(int(o.spent), len(m.set.Backoff))-1]
			defer func() { delay = -1 }()
		}
		m.requeue(o, m.now.Add(delay))
	})
}

func (m *model) requeue(o *mOff, due time.Time) {
	o.due = due
	o.place = pQueued
	if int(o.spent) >= m.set.MaxAttempts {
		o.place, o.due = pDying, m.now
	}
}

func (m *model) extend(s StreamID, first, mask uint64, by time.Duration) Outcome {
	var o Outcome
	for _, d := range m.batch(s, first, mask) {
		switch d.state {
		case dOut:
			d.deadline, d.extended = m.now.Add(by), true
			o.Waiting |= d.bit
		case dAck, dNack:
			o.Waiting |= d.bit
		}
	}
	o.Unknown = mask &^ o.Waiting
	return o
}

// release takes a delivery's offset out of flight.
func (m *model) release(off int64, w why) {
	o := m.offs[off]
	if o.firm {
		return
	}
	if m.finished(off) {
		if o.place == pFlight {
			o.place, o.due = pQueued, m.now
		}
		return
	}
	m.changed = true
	switch w {
	case timedOut:
		o.spent++
	case brokeWithOthers, brokeAlone:
		m.breakCosts(o, w == brokeAlone)
	}
	m.requeue(o, m.now)
}

func (m *model) breakCosts(o *mOff, alone bool) {
	o.breaks++
	if !alone && int(o.spent)+1 >= m.set.MaxAttempts {
		o.breaks = max(o.breaks, 2)
		return
	}
	o.spent++
}

func (m *model) tick(now time.Time) map[uint64]bool {
	m.now = now
	out := map[uint64]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if d.state == dOut && !d.deadline.IsZero() && !d.deadline.After(now) {
			d.state = dLate
			out[id] = true
			m.release(d.off, timedOut)
		}
	}
	return out
}

func (m *model) deadline() (t time.Time, ok bool) {
	consider := func(at time.Time) {
		if !at.IsZero() && (!ok || at.Before(t)) {
			t, ok = at, true
		}
	}
	for _, d := range m.dels {
		if d.state == dOut {
			consider(d.deadline)
		}
	}
	for off, o := range m.offs {
		if o.place == pQueued && !o.unknown && !m.finished(off) && o.due.After(m.now) && !m.blocked(off) {
			consider(o.due)
		}
	}
	if o := m.impatient(); o != nil && m.inFlight() > 0 {
		if at := o.due.Add(suspectPatience); at.After(m.now) {
			consider(at)
		}
	}
	return t, ok
}

func (m *model) detach(s StreamID, broken bool) {
	w := endedCleanly
	if broken {
		w = brokeWithOthers
		off, lone := m.lone()
		apart := lone != nil && lone.place == pFlight && m.holds(s) == 1 && m.heldOn(off) == s
		if m.inFlight() == 1 || apart {
			w = brokeAlone
		}
	}
	delete(m.streams, s)
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if d.stream != s || d.orphan {
			continue
		}
		d.orphan = true
		if d.state == dOut {
			d.state = dGone
			m.release(d.off, w)
		}
		if d.state == dLate {
			d.state = dGone
		}
	}
}

// heldOn is the stream on which an offset is in flight; 0: none.
func (m *model) heldOn(off int64) StreamID {
	for _, d := range m.dels {
		if d.state == dOut && d.off == off {
			return d.stream
		}
	}
	return 0
}

func (m *model) kill(off int64) {
	o := m.offs[off]
	if o == nil || m.finished(off) || o.place == pFlight || o.place == pDying {
		return
	}
	if o.place == pArmed {
		o.sent--
	}
	o.place, o.unknown, o.due = pDying, false, m.now
	m.changed = true
}

func (m *model) dead() map[int64]int32 {
	out := map[int64]int32{}
	for off, o := range m.offs {
		if o.place == pDying && !o.yielded && !o.unsure && !m.finished(off) {
			o.yielded = true
			out[off] = o.sent
		}
	}
	return out
}

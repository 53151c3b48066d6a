package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

func (m *model) snapshot() *mSaved {
	for _, off := range m.toArm() {
		m.offs[off].place = pArming
	}
	m.committing, m.changed = true, false
	s := &mSaved{epoch: m.epoch, floor: m.position(), finished: map[int64]bool{}, attempts: map[int64]offsetstore.Attempt{}}
	for off, o := range m.offs {
		if m.finished(off) {
			s.finished[off] = true
			continue
		}
		if o.place == pOffered || off >= m.high {
			continue
		}
		a := offsetstore.Attempt{Sent: o.sent, Spent: o.spent, Breaks: o.breaks}
		switch o.place {
		case pArming:
			a.Sent++
		case pArmed, pFlight:
		default:
			a.Due = o.due.UnixMilli()
		}
		s.attempts[off] = a
	}
	for _, d := range m.dels {
		d.committed = d.committed || d.state == dAck || d.state == dNack
	}
	m.snap = s
	return s
}

// endCommit returns what is told: id → durable.
func (m *model) endCommit(ok bool) map[uint64]bool {
	told := map[uint64]bool{}
	if !m.committing {
		return told
	}
	m.committing = false
	if m.stale {
		m.stale = false
		return told
	}
	if ok {
		m.saved = m.snap
	} else {
		m.changed = true
	}
	m.endArming(ok)
	var orphans []int64
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if !d.committed {
			continue
		}
		d.committed = false
		told[id] = ok
		if m.endDelivery(d, ok) {
			orphans = append(orphans, d.off)
		}
	}
	for _, off := range orphans {
		m.release(off, endedCleanly)
	}
	return told
}

func (m *model) endArming(ok bool) {
	for _, o := range m.offs {
		if o.place != pArming {
			continue
		}
		o.place = pQueued
		if ok {
			o.place = pArmed
			o.sent++
		}
	}
}

// endDelivery decides an answered delivery; true: nobody holds its offset.
func (m *model) endDelivery(d *mDel, ok bool) bool {
	o := m.offs[d.off]
	was := d.state
	switch {
	case ok && was == dAck:
		o.firm = true
		d.state = dGone
		return false
	case ok:
		o.unsure = false
		d.state = dGone
		return false
	case was == dAck && d.wasLate:
		d.state = dLate
	case was == dAck:
		d.state = dOut
	case was == dNack:
		d.state = dOut
		o.spent, o.breaks, o.unsure = d.oldSpent, d.oldBreaks, false
		o.place = pFlight
	}
	if d.orphan {
		out := d.state == dOut
		d.state = dGone
		return out
	}
	if d.state == dOut {
		d.deadline, d.extended = m.now.Add(m.streams[d.stream]), true
	}
	return false
}

func (m *model) reset(epoch uint64, position int64) map[uint64]bool {
	stale := map[uint64]bool{}
	for id, d := range m.dels {
		if d.state == dAck || d.state == dNack {
			stale[id] = true
		}
	}
	fresh := newModel(m.set, position, m.now)
	fresh.armAhead, fresh.epoch, fresh.streams = m.armAhead, epoch, m.streams
	fresh.changed, fresh.committing, fresh.stale = true, m.committing, m.committing
	fresh.saved = &mSaved{epoch: epoch, floor: position, finished: map[int64]bool{}}
	*m = *fresh
	return stale
}

// crash is what a machine knows that is made of the saved value and a mark.
func (m *model) crash(set Settings, saved *mSaved, high int64, now time.Time) {
	fresh := newModel(set, saved.floor, now)
	fresh.armAhead, fresh.epoch, fresh.saved = m.armAhead, saved.epoch, saved
	fresh.high = max(high, saved.floor)
	for off := range saved.finished {
		if off >= saved.floor {
			fresh.firm(off)
		}
	}
	fresh.next = max(fresh.high, fresh.position())
	var crashed []*mOff
	for off := saved.floor; off < fresh.high; off++ {
		if fresh.finished(off) {
			continue
		}
		a, ok := saved.attempts[off]
		if !ok {
			a = offsetstore.Attempt{Sent: 1}
		}
		o := &mOff{place: pQueued, sent: a.Sent, spent: a.Spent, breaks: a.Breaks, due: now, unsent: a.Sent == 0 && set.Ordered}
		if a.Due > 0 {
			longest := now.Add(slices.Max(fresh.set.Backoff))
			if due := time.UnixMilli(a.Due); due.After(now) {
				o.due = due
				if due.After(longest) {
					o.due = longest
				}
			}
		} else {
			crashed = append(crashed, o)
		}
		fresh.offs[off] = o
	}
	for _, o := range crashed {
		if int(o.spent) < fresh.set.MaxAttempts {
			o.unsent, o.sent = false, max(o.sent, 1)
			fresh.breakCosts(o, len(crashed) == 1)
		}
	}
	for _, o := range fresh.offs {
		if o.firm {
			continue
		}
		if int(o.spent) >= fresh.set.MaxAttempts {
			o.place, o.due = pDying, now
			fresh.changed = true
			continue
		}
		o.unknown = fresh.set.Ordered
	}
	*m = *fresh
}

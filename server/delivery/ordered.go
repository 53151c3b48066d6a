package delivery

import (
	"slices"

	"github.com/ackmesh/ackmesh/offset"
)

// lane is what is unfinished of one key: the offset whose turn it is and those
// behind it.
//
// The turn passes on when the ack is received, but the next one is only armed,
// and so sent, by the commit that makes the ack durable. If that fails the
// turn goes back.
type lane struct {
	key   uint64
	cur   int64 // finished, if an ack of it is not durable and none is behind
	refs  int   // offsets that laneOf leads here from
	queue []*rec
}

// takeTurn tells whether it is off's turn because its key is free.
func (m *Machine) takeTurn(off int64, key uint64) bool {
	if m.lanes[key] != nil {
		return false
	}
	ln := &lane{key: key, cur: off}
	m.lanes[key] = ln
	m.join(ln, off)
	return true
}

func (m *Machine) join(ln *lane, off int64) {
	m.laneOf[off] = ln
	ln.refs++
}

// hold keeps back an offset that is offered while its key is taken.
func (m *Machine) hold(off int64, key uint64) Verdict {
	if m.counts[held] >= m.set.LookAhead {
		return Full
	}
	m.pass(off)
	m.next = off + 1
	m.lineUp(m.adopt(&rec{off: off, due: m.now, unsent: true}), m.lanes[key])
	return Hold
}

// lineUp puts r behind the others of its key.
func (m *Machine) lineUp(r *rec, ln *lane) {
	m.join(ln, r.off)
	m.move(r, held)
	ln.queue = append(ln.queue, r)
	m.passOn(ln)
}

// passOn gives the turn to the next offset of a key when the one whose turn it
// was is finished.
func (m *Machine) passOn(ln *lane) {
	for m.track.has(ln.cur) && len(ln.queue) > 0 {
		r := ln.queue[0]
		ln.queue = ln.queue[1:]
		if r.state == held { // else it was finished or killed while it waited
			ln.cur = r.off
			m.queue(r)
		}
	}
}

// turnOver ends the turn of an offset that is finished, perhaps not durably.
func (m *Machine) turnOver(off int64) {
	if ln := m.laneOf[off]; ln != nil && ln.cur == off {
		m.passOn(ln)
	}
}

// turnBack gives the turn back to an offset whose ack did not become durable.
// The one that had it since was not armed, so not sent.
func (m *Machine) turnBack(off int64) {
	ln := m.laneOf[off]
	if ln == nil || ln.cur == off {
		return
	}
	if r := m.hist[ln.cur]; r != nil && r.state.queued() {
		m.move(r, held)
		ln.queue = slices.Insert(ln.queue, 0, r)
	}
	ln.cur = off
}

// leaveLane forgets the key of an offset that is finished for good.
func (m *Machine) leaveLane(off int64) {
	ln := m.laneOf[off]
	if ln == nil {
		return
	}
	delete(m.laneOf, off)
	if ln.refs--; ln.refs == 0 {
		delete(m.lanes, ln.key)
	}
}

// endTurn is for an offset that is finished for good without an ack.
func (m *Machine) endTurn(off int64) {
	m.turnOver(off)
	m.leaveLane(off)
}

// endTurns does so for a range.
func (m *Machine) endTurns(r offset.Range) {
	var offs []int64
	for off := range m.laneOf {
		if r.Contains(off) {
			offs = append(offs, off)
		}
	}
	slices.Sort(offs)
	for _, off := range offs {
		m.endTurn(off)
	}
}

// listUnknown lists restored offsets whose keys must be read, up to max items.
func (m *Machine) listUnknown(max int) {
	for _, r := range m.unknown.runs {
		for off := r.First; off <= r.Last; off++ {
			if len(m.items) >= max {
				return
			}
			m.items = append(m.items, Item{off, r.sent + 1, false})
		}
	}
}

// learn takes in the key of a restored offset. They are learned in order: a
// higher one must not take the turn of a lower one with the same key.
func (m *Machine) learn(off int64, key uint64) {
	if m.unknown.runs[0].First != off {
		return
	}
	r := m.adopt(m.unknown.pop())
	r.unsent = r.sent == 0
	switch {
	case key == 0 || m.takeTurn(off, key):
		m.queue(r)
	default:
		m.lineUp(r, m.lanes[key])
	}
}

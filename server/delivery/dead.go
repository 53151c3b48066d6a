package delivery

import (
	"cmp"
	"slices"
)

// Reasons of dead letters. A shell may have others for Kill.
const (
	ReasonNacked    = "NACKED"    // the last attempt was nacked
	ReasonTimeout   = "TIMEOUT"   // the last attempt was not answered in time
	ReasonBroken    = "BROKEN"    // the last attempt, alone in flight, broke its client or server
	ReasonRequested = "REQUESTED" // a nack asked for it
	ReasonTooLarge  = "TOO_LARGE" // for the client; given by the shell to Kill
	ReasonSpent     = "SPENT"     // the budget was found spent at the start
)

// die makes r a dead letter.
func (m *Machine) die(r *rec, reason, detail string) {
	r.death = &Dead{Offset: r.off, Attempts: r.sent, Reason: reason, Detail: detail}
	r.due = m.now
	m.changed = true
	m.move(r, dying)
}

// toYield has Dead tell of r, once its nack, if one made it die, is durable.
func (m *Machine) toYield(r *rec) {
	if !r.unsure && !r.yielded {
		m.unyielded = append(m.unyielded, r)
	}
}

// Dead yields the dead letters that were not yielded yet, in offset order.
// After the letter is durable the shell calls Finish; if it cannot be, Undead
// makes Dead yield it again.
func (m *Machine) Dead() []Dead {
	if len(m.unyielded) == 0 {
		return nil
	}
	slices.SortFunc(m.unyielded, func(a, b *rec) int { return cmp.Compare(a.off, b.off) })
	dead := make([]Dead, 0, len(m.unyielded))
	for _, r := range m.unyielded {
		if r.state != dying || r.yielded {
			continue
		}
		r.yielded = true
		dead = append(dead, *r.death)
	}
	clear(m.unyielded)
	m.unyielded = m.unyielded[:0]
	return dead
}

// Undead puts a yielded dead letter back.
func (m *Machine) Undead(off int64) {
	r := m.hist[off]
	if r == nil || !r.yielded {
		return
	}
	r.yielded = false
	if r.state == dying {
		m.toYield(r)
	}
}

// Kill makes an offset that is offered, waiting, held or armed a dead letter,
// unsent. Of others it changes nothing. A restart forgets it: what made the
// shell kill it, such as a client's limit, may be gone then.
func (m *Machine) Kill(off int64, reason, detail string) {
	r := m.unsentRecord(off)
	if r == nil {
		return
	}
	if r.state == armed {
		r.sent-- // counted, but not sent
	}
	m.die(r, reason, detail)
}

// unsentRecord is the record of an offset that is not in flight, finished or
// dying; nil: it is.
func (m *Machine) unsentRecord(off int64) *rec {
	if r := m.hist[off]; r != nil {
		if r.state.queued() || r.state == held {
			return r
		}
		return nil
	}
	for _, b := range []*backlog{&m.ready.back, &m.suspects.back, &m.unknown} {
		if r := b.find(off); r != nil {
			one := m.adopt(r.rec(off))
			b.cut(oneOffset(off))
			return one
		}
	}
	if m.unoffer([]int64{off}) > 0 {
		return m.adopt(&rec{off: off, unsent: true})
	}
	return nil
}

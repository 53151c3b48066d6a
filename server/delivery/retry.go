package delivery

import (
	"time"
)

// state is where an offset with a record is.
type state uint8

const (
	gone    state = iota // finished, or plainly in flight: it has no record
	held                 // ordered: waits for its key's turn
	waiting              // until its due time
	ready                // to be armed by the next commit
	suspect              // the same, but to be armed alone
	arming               // in the commit under way
	armed                // its attempt is on disk: to be sent
	flying               // in flight
	acked                // finished, not durable yet; was tells what it was
	dying                // its dead letter is under way
	states
)

// suspectBreaks is in how many breaks an offset was in flight to be a suspect.
const suspectBreaks = 2

// rec is what an offset went through. Sent and spent are as in
// offsetstore.Attempt.
type rec struct {
	off                 int64
	sent, spent, breaks int32
	state, was          state
	unsent              bool // ordered: never sent; it was held back for its key's turn
	unsure              bool // its last nack is not durable; undo tells what was before
	yielded             bool // dying: Dead has told of it
	cause               Cause
	undoSpent           int32
	undoBreaks          int32
	due                 int64
	alarm               alarm
	death               *Dead
}

// plain tells whether r says no more than that its offset is in flight.
func (r *rec) plain() bool {
	return r.state == flying && r.sent == 1 && r.spent == 0 && r.breaks == 0
}

// queued tells whether s is a way to a delivery.
func (s state) queued() bool { return s >= waiting && s <= armed }

// adopt makes r the record of its offset.
func (m *Machine) adopt(r *rec) *rec {
	r.alarm.rec = r
	m.hist[r.off] = r
	m.order.add(r)
	return r
}

// record is the record of an offset in flight; a new one if it had none.
func (m *Machine) record(off int64) *rec {
	if r := m.hist[off]; r != nil {
		return r
	}
	r := m.adopt(&rec{off: off, sent: 1})
	m.move(r, flying)
	return r
}

// move puts r into another state.
func (m *Machine) move(r *rec, to state) {
	m.leave(r)
	r.state = to
	m.counts[to]++
	if to.queued() && r.unsent {
		m.turns++
	}
	m.enter(r)
}

func (m *Machine) leave(r *rec) {
	if r.state == gone {
		return
	}
	m.counts[r.state]--
	if r.state.queued() && r.unsent {
		m.turns--
	}
	if m.lone == r {
		m.lone = nil
	}
	m.alarms.drop(&r.alarm)
}

func (m *Machine) enter(r *rec) {
	switch r.state {
	case waiting:
		m.alarms.set(&r.alarm, r.due)
	case ready:
		m.ready.list.add(r)
	case suspect:
		m.suspects.list.add(r)
	case armed:
		m.armed.add(r)
	case dying:
		m.toYield(r)
	}
	if r.breaks >= suspectBreaks && r.state >= arming && r.state <= flying {
		m.lone = r
	}
}

// forget ends r's record: its offset is finished or plainly in flight.
func (m *Machine) forget(r *rec) {
	m.move(r, gone)
	m.counts[gone] = 0
	delete(m.hist, r.off)
}

// queue puts r where it waits for its next delivery.
func (m *Machine) queue(r *rec) {
	switch {
	case r.due > m.now:
		m.move(r, waiting)
	case r.breaks >= suspectBreaks:
		m.move(r, suspect)
	default:
		m.move(r, ready)
	}
}

// why tells why a delivery is given back.
type why uint8

const (
	endedCleanly why = iota
	timedOut
	brokeWithOthers
	brokeAlone
)

// giveBack takes an offset out of flight, to be sent again at once.
func (m *Machine) giveBack(off int64, w why) {
	if m.track.has(off) {
		m.unhold(off)
		return
	}
	m.changed = true
	r := m.record(off)
	r.due, r.cause = m.now, causeOf[w]
	reason := ReasonTimeout
	switch w {
	case timedOut:
		r.spent++
	case brokeWithOthers, brokeAlone:
		r.spent, r.breaks = m.breakCosts(r.spent, r.breaks, w == brokeAlone)
		reason = ReasonBroken
	}
	m.retry(r, reason, "")
}

// unhold notes of an offset that is finished, but not durably, that nobody
// holds it any more: if the commit fails it must be sent again.
func (m *Machine) unhold(off int64) {
	if r := m.hist[off]; r != nil && r.state == acked && r.was == flying {
		r.was, r.due = ready, m.now
	}
}

// breakCosts is what a break makes of an offset that was in flight in it. Only
// one that was alone can have caused it for sure, so only that may spend its
// last attempt; another becomes a suspect instead.
func (m *Machine) breakCosts(spent, breaks int32, alone bool) (int32, int32) {
	if !alone && int(spent)+1 >= m.set.MaxAttempts {
		return spent, max(breaks+1, suspectBreaks)
	}
	return spent + 1, breaks + 1
}

// retry queues r, or makes it a dead letter when its budget is spent.
func (m *Machine) retry(r *rec, reason, detail string) {
	if int(r.spent) >= m.set.MaxAttempts {
		m.die(r, reason, detail)
		return
	}
	m.queue(r)
}

// fail notes a nack of an offset in flight. A record that is answered does not
// kill its client, so its breaks are forgotten.
func (m *Machine) fail(off int64, delay time.Duration, dead bool, detail string) {
	r := m.record(off)
	r.undoSpent, r.undoBreaks, r.unsure = r.spent, r.breaks, true
	r.spent++
	r.breaks, r.cause = 0, CauseNacked
	reason := ReasonNacked
	if dead {
		r.spent, reason = int32(m.set.MaxAttempts), ReasonRequested
	}
	r.due = m.after(delay)
	if delay < 0 {
		r.due = m.after(m.backoff(r.spent))
	}
	m.retry(r, reason, detail)
}

// unfail takes back what fail did: the offset is in flight again.
func (m *Machine) unfail(off int64) {
	r := m.hist[off]
	if r == nil || !r.unsure { // finished for good since
		return
	}
	r.spent, r.breaks, r.unsure = r.undoSpent, r.undoBreaks, false
	r.death = nil
	if r.state == acked {
		r.was = flying
		return
	}
	m.move(r, flying)
	if r.plain() {
		m.forget(r)
	}
}

// backoff is the wait after the spent-th failure.
func (m *Machine) backoff(spent int32) time.Duration {
	d := m.set.Backoff[min(int(spent), len(m.set.Backoff))-1]
	if m.set.Jitter > 0 && m.rnd != nil {
		d = time.Duration(float64(d) * (1 + m.set.Jitter*(2*m.rnd.Float64()-1)))
	}
	return d
}

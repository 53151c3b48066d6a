package delivery

import (
	"math/bits"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Dirty tells whether there is something to commit and no commit under way.
// Deliveries for the first time are nothing to commit.
func (m *Machine) Dirty() bool {
	if m.committing {
		return false
	}
	if m.changed {
		return true
	}
	_, n := m.armable()
	return n > 0
}

// Snapshot begins a commit: it returns the value to store, without Log and
// Absent. It must be followed by EndCommit before the next Snapshot. The
// slices are the caller's. It costs a step for each finished range above the
// floor and each offset with a record, nothing for those plainly in flight.
func (m *Machine) Snapshot() offsetstore.Value {
	m.commit = append(m.commit, m.cur...)
	clear(m.cur)
	m.cur = m.cur[:0]
	m.arm()
	m.committing, m.changed = true, false
	m.saving.set(&m.track)
	return offsetstore.Value{
		Epoch:    m.epoch,
		Position: m.track.floor,
		Finished: slices.Clone(m.saving.ranges),
		High:     max(m.high, m.track.floor),
		Attempts: m.attempts(),
	}
}

// Committing is how many deliveries will be answered by the commit under way.
func (m *Machine) Committing() (n int) {
	for i := range m.commit {
		n += bits.OnesCount64(m.commit[i].mask)
	}
	return n
}

// Arming tells whether retries wait for the commit under way to be sent.
func (m *Machine) Arming() bool { return len(m.arming) > 0 }

// attempts are the unfinished offsets below the high mark that have more to
// tell than that they are in flight for the first time.
func (m *Machine) attempts() []offsetstore.Attempt {
	out := m.recorded()
	restored := len(out)
	for _, b := range []*backlog{&m.ready.back, &m.suspects.back, &m.unknown} {
		for _, r := range b.runs {
			out = append(out, r.attempt(m))
		}
	}
	if restored == len(out) {
		return out
	}
	slices.SortFunc(out, func(a, b offsetstore.Attempt) int { return int(min(max(a.First-b.First, -1), 1)) })
	joined := out[:0]
	for _, a := range out {
		joined = joinAttempt(joined, a)
	}
	return joined
}

// recorded are the attempts of offsets that have a record.
func (m *Machine) recorded() []offsetstore.Attempt {
	recs := m.order.list(len(m.hist))
	if len(recs) == 0 {
		return nil
	}
	out := make([]offsetstore.Attempt, 0, m.attemptsBefore+m.attemptsBefore/8+8)
	wall := m.clock.UnixMilli()
	for _, r := range recs {
		if r.off >= m.high || r.state == gone || r.state == acked {
			continue
		}
		sent, due := m.saved(r, wall)
		if sent == 1 && r.spent == 0 && r.breaks == 0 && due == 0 {
			continue
		}
		if n := len(out) - 1; n >= 0 && out[n].Last+1 == r.off && same(&out[n], sent, r.spent, r.breaks, due) {
			out[n].Last = r.off
			continue
		}
		out = append(out, offsetstore.Attempt{Range: oneOffset(r.off), Sent: sent, Spent: r.spent, Breaks: r.breaks, Due: due})
	}
	m.attemptsBefore = len(out)
	return out
}

// saved is what is saved of r apart from its counters. Due tells a crash what
// it costs: 0, it may have been in flight; above, it was not.
func (m *Machine) saved(r *rec, wall int64) (sent int32, due int64) {
	switch r.state {
	case arming:
		return r.sent + 1, 0
	case armed, flying:
		return r.sent, 0
	}
	return r.sent, wallTime(wall, r.due-m.now)
}

func same(a *offsetstore.Attempt, sent, spent, breaks int32, due int64) bool {
	return a.Sent == sent && a.Spent == spent && a.Breaks == breaks && a.Due == due
}

// joinAttempt appends a, as part of the last run if it goes on with it.
func joinAttempt(to []offsetstore.Attempt, a offsetstore.Attempt) []offsetstore.Attempt {
	if n := len(to) - 1; n >= 0 && to[n].Last+1 == a.First && same(&to[n], a.Sent, a.Spent, a.Breaks, a.Due) {
		to[n].Last = a.Last
		return to
	}
	return append(to, a)
}

// EndCommit ends the commit that Snapshot began. ok: what was in it is
// durable; else nothing of it is, and what was acked or nacked in it is in
// flight again with a new deadline and no attempt spent; if its stream is gone
// it is given back at no cost. It returns what to tell the streams, adjacent
// answers of a batch joined.
func (m *Machine) EndCommit(now time.Time, ok bool) []Answer {
	m.at(now)
	if !m.committing {
		return nil
	}
	m.committing = false
	if m.stale { // it was of an epoch that is over
		m.stale = false
		return nil
	}
	if ok {
		m.durable, m.saving = m.saving, m.durable
	}
	m.endArming(ok)
	answers := m.endPending(ok)
	if ok {
		m.sweepLates()
	} else {
		m.changed = true
		m.finishAgain()
	}
	return answers
}

// endPending seals or takes back what was acked and nacked in the commit.
func (m *Machine) endPending(ok bool) []Answer {
	if len(m.commit) == 0 {
		return nil
	}
	answers := make([]Answer, 0, len(m.commit))
	for i := range m.commit {
		p := &m.commit[i]
		held := p.b.out
		p.b.pend &^= p.mask
		p.b.nacked &^= p.mask
		switch {
		case ok && p.nack:
			m.sealNack(p)
		case ok:
			m.sealAck(p)
		default:
			m.takeBack(p)
		}
		answers = append(answers, Answer{Given{p.b.id, p.b.first, p.mask}, ok, p.b.out &^ held, p.nack})
		m.settle(p.b)
	}
	clear(m.commit)
	m.commit = m.commit[:0]
	return answers
}

func (m *Machine) sealAck(p *pending) {
	if len(m.hist) > 0 && (p.b.again || p.late != 0) {
		for _, off := range p.b.each(p.mask) {
			if r := m.hist[off]; r != nil && r.state == acked {
				m.forget(r)
			}
		}
	}
	if m.set.Ordered {
		for _, off := range p.b.each(p.mask) {
			m.leaveLane(off)
		}
	}
}

func (m *Machine) sealNack(p *pending) {
	for _, off := range p.b.each(p.mask) {
		r := m.hist[off]
		if r == nil || !r.unsure { // finished for good since
			continue
		}
		r.unsure = false
		if r.state == dying {
			m.toYield(r)
		}
	}
}

// takeBack puts the deliveries of p in flight again.
func (m *Machine) takeBack(p *pending) {
	if p.nack {
		for _, off := range p.b.each(p.mask) {
			m.unfail(off)
		}
	} else {
		m.unfinish(p)
	}
	out, b := p.mask&^p.late, p.b
	if b.stream == nil {
		for _, off := range b.each(out) {
			m.giveBack(off, endedCleanly)
		}
		return
	}
	b.late |= p.late
	if out == 0 {
		return
	}
	b.out |= out
	m.inFlight += bits.OnesCount64(out)
	b.stream.out += bits.OnesCount64(out)
	m.schedule(b, out, m.after(b.stream.timeout))
}

// unfinish makes the offsets unfinished that an ack had finished.
func (m *Machine) unfinish(p *pending) {
	for _, r := range p.b.runs(p.fresh) {
		m.track.remove(r)
	}
	for _, off := range p.b.each(p.fresh) {
		if r := m.hist[off]; r != nil && r.state == acked {
			m.putBack(r)
		}
		m.turnBack(off)
	}
}

// putBack gives r the state that it had before the ack.
func (m *Machine) putBack(r *rec) {
	if r.was >= waiting && r.was <= suspect {
		m.queue(r)
		return
	}
	m.move(r, r.was)
}

// finishAgain looks at the acks that came during a failed commit: one of them
// may have found its offset finished by an ack that was taken back just now.
func (m *Machine) finishAgain() {
	for i := range m.cur {
		p := &m.cur[i]
		if p.nack || p.fresh == p.mask {
			continue
		}
		if fresh := m.unfinishedBits(p.b, p.mask&^p.fresh); fresh != 0 {
			p.fresh |= fresh
			m.finishFresh(p.b, fresh, true)
		}
	}
}

package delivery

import (
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offset"
)

// Offer asks whether a record that is read for the first time may be sent.
// Offsets come in order, at or above NextNew; what is passed over does not
// exist in the log and counts as finished. key is the hash of the record's
// key, 0 for none; it matters only when ordered. After Send the shell must
// call Sent with it, or Finish or Kill.
func (m *Machine) Offer(off int64, key uint64) Verdict {
	if off < m.next {
		return Skip
	}
	if m.track.has(off) {
		m.pass(off + 1)
		return Skip
	}
	if m.paused(off) != "" {
		return Full
	}
	if m.set.Ordered && key != 0 && !m.takeTurn(off, key) {
		return m.hold(off, key)
	}
	m.pass(off)
	m.next = off + 1
	m.offered = append(m.offered, off)
	return Send
}

// Pass says that nothing exists in [NextNew, next): it counts as finished.
func (m *Machine) Pass(next int64) { m.pass(next) }

func (m *Machine) pass(next int64) {
	if next <= m.next {
		return
	}
	floor := m.track.floor
	m.track.add(offset.Range{First: m.next, Last: next - 1})
	m.changed = m.changed || m.track.floor != floor
	m.next = next
}

// Names of what pauses new deliveries, as in Stats.PausedBy.
const (
	pausedWaiting   = "max_waiting"
	pausedAhead     = "max_ahead"
	pausedSuspect   = "suspect"
	pausedLookAhead = "look_ahead"
	pausedKeys      = "keys"
)

// paused tells what keeps off from being delivered for the first time.
func (m *Machine) paused(off int64) string {
	switch {
	case m.lone != nil || m.counts[suspect] > 0 || m.suspects.back.n > 0:
		return pausedSuspect
	case m.unknown.n > 0:
		return pausedKeys
	case m.tooManyWaiting():
		return pausedWaiting
	case m.track.floor < m.next && off-m.track.floor >= m.set.MaxAhead:
		return pausedAhead
	}
	return ""
}

// waiting is how many offsets wait for a retry, or are ready or armed for it.
func (m *Machine) waiting() int64 {
	n := m.counts[waiting] + m.counts[ready] + m.counts[suspect] + m.counts[arming] + m.counts[armed] - m.turns
	return int64(n) + m.ready.back.n + m.suspects.back.n + m.unknown.n
}

// tooManyWaiting tells whether new deliveries might bring what waits above its
// bound. While something waits, what is in flight counts too: all of it may
// yet fail.
func (m *Machine) tooManyWaiting() bool {
	n := m.waiting()
	return n > 0 && n+int64(m.inFlight+len(m.offered)) >= int64(m.set.MaxWaiting)
}

// Next lists up to max offsets below NextNew that may be sent now, in offset
// order: armed retries, and ordered ones whose turn has come. It does not
// change anything; the slice is valid until the next call of Next.
func (m *Machine) Next(max int) []Item {
	m.items = m.items[:0]
	if m.lone != nil {
		if max > 0 && m.lone.state == armed && m.mayGo(m.lone.due, m.lone.spent) {
			m.items = append(m.items, Item{m.lone.off, m.lone.sent, true})
		}
		return m.items
	}
	for _, r := range m.armed.list(m.counts[armed]) {
		if len(m.items) >= max {
			return m.items
		}
		if r.state == armed {
			m.items = append(m.items, Item{r.off, r.sent, false})
		}
	}
	m.listUnknown(max)
	return m.items
}

// Confirm asks, after the record of an Item was read, whether to send it.
// Only ordered machines may answer Hold or Skip. After a start an ordered
// machine lists every restored offset once to learn its key, lowest first;
// Confirm answers Hold then, and Next lists it again when it may be sent.
func (m *Machine) Confirm(off int64, key uint64) Verdict {
	if !m.set.Ordered {
		return Send
	}
	if m.unknown.n > 0 && m.unknown.find(off) != nil {
		m.learn(off, key)
		return Hold
	}
	if r := m.hist[off]; r != nil && r.state == armed {
		return Send
	}
	return Skip
}

// Sent notes a batch of at most MaxBatch deliveries with consecutive ids from
// first on: offs[i] has id first+i. All are either of Offer or of Next, in
// offset order. The slice is not kept. The high mark (High) must be noted
// durably enough before the frames are written. Ids of a stream rise.
//
// If the stream is not attached (any more), they are not sent, and not counted
// as sent: they come by Next again. So a shell can take back what it cannot
// send.
func (m *Machine) Sent(s StreamID, first uint64, offs []int64) {
	for len(offs) > MaxBatch {
		m.Sent(s, first, offs[:MaxBatch])
		first, offs = first+MaxBatch, offs[MaxBatch:]
	}
	if len(offs) == 0 {
		return
	}
	m.high = max(m.high, offs[len(offs)-1]+1)
	again := m.unoffer(offs) < len(offs)
	st := m.streams[s]
	if st == nil {
		m.unsend(offs)
		return
	}
	if again {
		m.takeOff(offs)
	}
	b := m.blank()
	b.stream, b.id, b.first, b.handed, b.again = st, s, first, -1, again
	b.fill(offs)
	b.out = lowBits(len(offs))
	m.inFlight += len(offs)
	st.out += len(offs)
	st.table.add(b)
}

// unsend queues offsets that could not be sent: new ones, since the others
// are armed still.
func (m *Machine) unsend(offs []int64) {
	for _, off := range offs {
		if m.hist[off] == nil && !m.track.has(off) {
			m.changed = true
			m.queue(m.adopt(&rec{off: off, due: m.now, unsent: m.set.Ordered}))
		}
	}
}

// takeOff puts armed offsets in flight.
func (m *Machine) takeOff(offs []int64) {
	for _, off := range offs {
		r := m.hist[off]
		if r == nil || r.state != armed { // finished while it was read
			continue
		}
		m.move(r, flying)
		r.unsent = false
		if r.plain() {
			m.forget(r)
		}
	}
}

// unoffer takes offs, which rise, out of the offered ones and returns how many
// there were.
func (m *Machine) unoffer(offs []int64) (found int) {
	if len(m.offered) == 0 {
		return 0
	}
	if n := len(offs); len(m.offered) == n && m.offered[0] == offs[0] && m.offered[n-1] == offs[n-1] {
		m.offered = m.offered[:0] // as nearly always
		return n
	}
	for _, off := range offs {
		if i, ok := slices.BinarySearch(m.offered, off); ok {
			m.offered = slices.Delete(m.offered, i, i+1)
			found++
		}
	}
	return found
}

// Handed says that the batch that begins with first was handed to the
// transport: its ack deadline starts.
func (m *Machine) Handed(now time.Time, s StreamID, first uint64) {
	m.at(now)
	b := m.find(s, first)
	if b == nil || b.out == 0 {
		return
	}
	b.handed = m.now
	b.timer.mask = ^uint64(0)
	for _, p := range b.parts {
		b.timer.mask &^= p.mask
	}
	if b.timer.mask&b.out != 0 {
		m.alarms.set(&b.timer, m.after(b.stream.timeout))
	}
}

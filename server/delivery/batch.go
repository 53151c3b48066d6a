package delivery

import "math/bits"

// find returns the batch of an attached stream that begins with first.
func (m *Machine) find(s StreamID, first uint64) *batch {
	st := m.streams[s]
	if st == nil {
		return nil
	}
	return st.table.find(first)
}

// blank returns an empty batch, a recycled one if there is one.
func (m *Machine) blank() *batch {
	if n := len(m.free); n > 0 {
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return b
	}
	b := &batch{}
	b.timer.batch = b
	return b
}

// maxFree is how many empty batches are kept.
const maxFree = 256

// recycle keeps b for the next Sent. Nothing may point to it any more.
func (m *Machine) recycle(b *batch) {
	if len(m.free) >= maxFree {
		return
	}
	b.stream, b.again, b.listed = nil, false, false
	b.out, b.late, b.pend, b.nacked = 0, 0, 0, 0
	b.offs, b.parts = b.offs[:0], b.parts[:0]
	m.free = append(m.free, b)
}

// clearOut takes bits that are outstanding out of flight.
func (m *Machine) clearOut(b *batch, mask uint64) {
	n := bits.OnesCount64(mask)
	b.out &^= mask
	m.inFlight -= n
	if b.stream != nil {
		b.stream.out -= n
	}
}

// settle brings b's alarms and its place in line with its masks.
func (m *Machine) settle(b *batch) {
	m.trimAlarms(b)
	if b.out|b.pend != 0 {
		return
	}
	if b.late != 0 {
		m.listLate(b)
		return
	}
	if b.stream != nil {
		b.stream.table.drop(b)
		b.stream = nil
	}
	if !b.listed { // else the next sweep recycles it
		m.recycle(b)
	}
}

// trimAlarms drops the alarms that have nothing outstanding left.
func (m *Machine) trimAlarms(b *batch) {
	if b.timer.mask&b.out == 0 {
		m.alarms.drop(&b.timer)
	}
	if len(b.parts) == 0 {
		return
	}
	kept := b.parts[:0]
	for _, p := range b.parts {
		if p.mask&b.out == 0 {
			m.alarms.drop(p)
			continue
		}
		kept = append(kept, p)
	}
	clear(b.parts[len(kept):])
	b.parts = kept
}

// schedule sets the deadline of outstanding deliveries apart from the others
// of their batch, or of the batch when it is all that it has outstanding.
func (m *Machine) schedule(b *batch, mask uint64, at int64) {
	if mask == b.out {
		for _, p := range b.parts {
			m.alarms.drop(p)
		}
		b.parts = b.parts[:0]
		b.timer.mask = mask
		m.alarms.set(&b.timer, at)
		return
	}
	b.timer.mask &^= mask
	for _, p := range b.parts {
		p.mask &^= mask
	}
	m.trimAlarms(b)
	part := &alarm{mask: mask, batch: b}
	b.parts = append(b.parts, part)
	m.alarms.set(part, at)
}

// orphan takes b from its stream, which has ended: what is outstanding is
// given back, late acks cannot come any more, what is committing stays.
func (m *Machine) orphan(b *batch, w why) {
	b.stream, b.late = nil, 0
	out := b.out
	m.clearOut(b, out)
	for _, off := range b.each(out) {
		m.giveBack(off, w)
	}
	m.settle(b)
}

// minSweep is how many batches with nothing but late deliveries are kept
// before they are looked through.
const minSweep = 64

// listLate notes that b is kept for late acks only.
func (m *Machine) listLate(b *batch) {
	if b.listed {
		return
	}
	b.listed = true
	m.lates = append(m.lates, b)
}

// sweepLates ends the wait for late acks of offsets that are finished durably.
// It looks through all when they have doubled since it last did.
func (m *Machine) sweepLates() {
	if len(m.lates) < m.sweepAt {
		return
	}
	kept := m.lates[:0]
	for _, b := range m.lates {
		if m.keepLate(b) {
			kept = append(kept, b)
		}
	}
	clear(m.lates[len(kept):])
	m.lates = kept
	m.sweepAt = max(minSweep, 2*len(kept))
}

// keepLate tells whether b still belongs to the late ones.
func (m *Machine) keepLate(b *batch) bool {
	if b.out|b.pend != 0 { // a failed commit brought it back; settle lists it again
		b.listed = false
		return false
	}
	for bit, off := range b.each(b.late) {
		if m.durable.has(off) {
			b.late &^= bit
		}
	}
	if b.late != 0 {
		return true
	}
	b.listed = false
	if b.stream == nil {
		m.recycle(b)
		return false
	}
	m.settle(b)
	return false
}

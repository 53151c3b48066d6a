package delivery

import "github.com/ackmesh/ackmesh/offset"

// Finish finishes offsets without an ack: filtered out, expired, lost to
// retention, or dead-lettered. Offsets that are finished already are no error.
// Deliveries of them that are in flight stay so until they are answered or
// time out.
func (m *Machine) Finish(offs ...int64) {
	for _, off := range offs {
		m.finish(off)
	}
}

func (m *Machine) finish(off int64) {
	one := oneOffset(off)
	if m.track.add(one) == 0 {
		m.firm(one)
	} else {
		m.changed = true
	}
	if len(m.hist) > 0 {
		if r := m.hist[off]; r != nil {
			m.forget(r)
		}
	}
	m.cutBacklogs(one)
	m.unoffer([]int64{off})
	m.endTurn(off)
}

// Absent says that the log holds nothing in r: all of it counts as finished.
// It is Finish for ranges, which may be huge.
func (m *Machine) Absent(r offset.Range) {
	if r.Len() == 0 {
		return
	}
	if m.track.add(r) > 0 {
		m.changed = true
	}
	m.firm(r)
	for _, rec := range m.order.list(len(m.hist)) {
		if rec.state != gone && r.Contains(rec.off) {
			m.forget(rec)
		}
	}
	m.cutBacklogs(r)
	m.unofferRange(r)
	m.endTurns(r)
}

// firm makes sure that a failed commit does not take back r, of which some was
// finished by acks that are not durable.
func (m *Machine) firm(r offset.Range) {
	for _, list := range [][]pending{m.commit, m.cur} {
		for i := range list {
			p := &list[i]
			for bit, off := range p.b.each(p.fresh) {
				if r.Contains(off) {
					p.fresh &^= bit
				}
			}
		}
	}
}

func (m *Machine) cutBacklogs(r offset.Range) {
	if m.ready.back.n+m.suspects.back.n+m.unknown.n == 0 {
		return
	}
	m.ready.back.cut(r)
	m.suspects.back.cut(r)
	m.unknown.cut(r)
}

func (m *Machine) unofferRange(r offset.Range) {
	kept := m.offered[:0]
	for _, off := range m.offered {
		if !r.Contains(off) {
			kept = append(kept, off)
		}
	}
	m.offered = kept
}

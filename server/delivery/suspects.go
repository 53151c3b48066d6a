package delivery

import "time"

// armAhead is how many retries are armed at most before they are sent: a crash
// costs each armed one an attempt, as if it had been in flight. At half of it
// more are armed.
const armAhead = 1024

// suspectPatience is how long a suspect waits for what else is in flight.
const suspectPatience = 10 * time.Second

// armable tells what the next commit may arm and how many of it.
//
// A suspect is armed when nothing else is in flight or armed, and while it is
// armed or in flight nothing else is sent or armed. Suspects go first, else
// new deliveries could keep them waiting for ever. So of all that was saved as
// possibly in flight (Due 0, or no entry below the high mark) a suspect is
// alone, and after a crash it is known to be the cause.
//
// But a client may work on a record for as long as it likes. So a suspect waits
// suspectPatience and then goes beside what is still in flight: that has not
// broken its client when it came. See Beside.
func (m *Machine) armable() (*pool, int) {
	n := m.counts[arming] + m.counts[armed]
	switch {
	case len(m.streams) == 0 || m.lone != nil || m.quiesced:
		return nil, 0
	case m.size(&m.suspects) > 0:
		if !m.held && n == 0 && m.mayGo(m.peek(&m.suspects)) {
			return &m.suspects, 1
		}
		return nil, 0
	case m.size(&m.ready) > 0 && n <= m.armAhead/2:
		return &m.ready, m.armAhead - n
	}
	return nil, 0
}

// HasSuspectOut tells whether a suspect is in flight or about to be.
func (m *Machine) HasSuspectOut() bool { return m.lone != nil }

// WantsSuspectOut tells whether the next commit makes a suspect ready to be sent,
// if HoldSuspects does not keep it back.
func (m *Machine) WantsSuspectOut() bool {
	held := m.held
	m.held = false
	pool, _ := m.armable()
	m.held = held
	return pool == &m.suspects
}

// HoldSuspects keeps suspects from being made ready, or lets them be: those of the
// subscriber's other partitions may come first, which the machine knows nothing of.
func (m *Machine) HoldSuspects(on bool) { m.held = on }

// mayGo tells whether a suspect that waits since due may be sent. With others in
// flight its last attempt needs a stream that holds none of them.
func (m *Machine) mayGo(due int64, spent int32) bool {
	switch {
	case len(m.offered) > 0:
		return false
	case m.inFlight == 0:
		return true
	case m.now < due+int64(suspectPatience):
		return false
	}
	return !m.lastAttempt(spent) || m.spare()
}

func (m *Machine) lastAttempt(spent int32) bool { return int(spent)+1 >= m.set.MaxAttempts }

// spare tells whether there is a stream that holds nothing.
func (m *Machine) spare() bool {
	for _, st := range m.streams {
		if st.out == 0 {
			return true
		}
	}
	return false
}

// patienceEnds is when the suspect that waits for others has waited long enough;
// ok is false: none does, or it has.
func (m *Machine) patienceEnds() (at int64, ok bool) {
	switch {
	case m.inFlight == 0:
		return 0, false
	case m.lone != nil && m.lone.state == armed:
		at = m.lone.due
	case m.lone == nil && m.size(&m.suspects) > 0:
		at, _ = m.peek(&m.suspects)
	default:
		return 0, false
	}
	at += int64(suspectPatience)
	return at, at > m.now
}

// Beside is the suspect that Next lists though others are in flight; ok is false:
// there is none such. It should go on a stream that holds none of the others (see
// Holds), so that the break of that stream tells of it alone. When must is set it
// may go on no other.
func (m *Machine) Beside() (off int64, must, ok bool) {
	r := m.lone
	if r == nil || r.state != armed || m.inFlight == 0 || !m.mayGo(r.due, r.spent) {
		return 0, false, false
	}
	return r.off, m.lastAttempt(r.spent), true
}

// Holds is how many deliveries are in flight on a stream.
func (m *Machine) Holds(s StreamID) int {
	if st := m.streams[s]; st != nil {
		return st.out
	}
	return 0
}

// brokeAlone tells whether the break of a stream is known to be the doing of the
// one delivery in flight on it: nothing else was in flight at all, or it is a
// suspect, which went apart from the others.
func (m *Machine) brokeAlone(st *stream) bool {
	switch {
	case st.out != 1:
		return false
	case m.inFlight == 1:
		return true
	}
	for b := range st.table.each {
		for _, off := range b.each(b.out) {
			return m.lone != nil && m.lone.off == off
		}
	}
	return false
}

// Quiesce stops the arming of retries, until Resume: the shell sends nothing
// more. So nothing is counted as sent that is not. Answers are taken as before.
func (m *Machine) Quiesce() { m.quiesced = true }

// Resume ends what Quiesce began.
func (m *Machine) Resume() { m.quiesced = false }

// Disarm takes back that retries are armed, when nobody is left to send them to:
// they have not been sent, so they are not counted as sent, and after a restart
// they have cost nothing.
func (m *Machine) Disarm() {
	for _, r := range append([]*rec(nil), m.armed.list(m.counts[armed])...) {
		if r.state != armed {
			continue
		}
		r.sent--
		r.due = m.now
		m.queue(r)
		m.changed = true
	}
}

// Returning tells whether there are retries that do not wait: about to be armed
// or sent. A shell that offers new records only when there are none keeps what
// was given back ahead of what is new.
func (m *Machine) Returning() bool {
	return len(m.streams) > 0 && !m.quiesced && (m.size(&m.ready) > 0 || m.counts[arming]+m.counts[armed] > 0)
}

// arm puts what may be armed into the commit that begins.
func (m *Machine) arm() {
	p, n := m.armable()
	for ; n > 0; n-- {
		r := m.take(p)
		if r == nil {
			return
		}
		m.move(r, arming)
		m.arming = append(m.arming, r)
	}
}

// endArming arms what the commit has made durable, or has it wait for the next
// one. What a late ack finished meanwhile, not durably, may need it too.
func (m *Machine) endArming(ok bool) {
	for _, r := range m.arming {
		set := r.state == acked && r.was == arming
		if r.state != arming && !set {
			continue
		}
		if ok {
			r.sent++
		}
		switch {
		case set && ok:
			r.was = armed
		case set:
			r.was = ready
		case ok:
			m.move(r, armed)
		default:
			m.queue(r)
		}
	}
	clear(m.arming)
	m.arming = m.arming[:0]
}

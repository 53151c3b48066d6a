package delivery

// armAhead is how many retries are armed at most before they are sent: a crash
// costs each armed one an attempt, as if it had been in flight. At half of it
// more are armed.
const armAhead = 1024

// armable tells what the next commit may arm and how many of it.
//
// A suspect is armed when nothing else is in flight or armed, and while it is
// armed or in flight nothing else is sent or armed. Suspects go first, else
// new deliveries could keep them waiting for ever. So of all that was saved as
// possibly in flight (Due 0, or no entry below the high mark) a suspect is
// alone, and after a crash it is known to be the cause.
func (m *Machine) armable() (*pool, int) {
	n := m.counts[arming] + m.counts[armed]
	switch {
	case len(m.streams) == 0 || m.lone != nil || m.quiesced:
		return nil, 0
	case m.size(&m.suspects) > 0:
		if n == 0 && m.idle() {
			return &m.suspects, 1
		}
		return nil, 0
	case m.size(&m.ready) > 0 && n <= m.armAhead/2:
		return &m.ready, m.armAhead - n
	}
	return nil, 0
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

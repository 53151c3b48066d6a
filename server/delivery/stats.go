package delivery

import "time"

// Stats returns what operators see.
func (m *Machine) Stats() Stats {
	return Stats{
		Epoch:         m.epoch,
		Position:      m.durable.floor,
		High:          m.high,
		InFlight:      m.inFlight,
		Waiting:       int(m.waiting()),
		FinishedAhead: m.track.floor - m.durable.floor + m.track.ahead.Len(),
		Held:          m.counts[held] + m.turns,
		Dying:         m.counts[dying],
		OldestSent:    m.oldestSent(),
		PausedBy:      m.pausedNow(),
	}
}

func (m *Machine) pausedNow() string {
	if by := m.paused(m.next); by != "" {
		return by
	}
	if m.set.Ordered && m.counts[held] >= m.set.LookAhead {
		return pausedLookAhead
	}
	return ""
}

// oldestSent looks through all batches with something outstanding.
func (m *Machine) oldestSent() time.Time {
	oldest := int64(-1)
	for _, st := range m.streams {
		for b := range st.table.each {
			if b.out != 0 && b.handed >= 0 && (oldest < 0 || b.handed < oldest) {
				oldest = b.handed
			}
		}
	}
	if oldest < 0 {
		return time.Time{}
	}
	return m.start.Add(time.Duration(oldest))
}

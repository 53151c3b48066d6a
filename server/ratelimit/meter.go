package ratelimit

import "time"

// burst is how far ahead of its rate a meter may be: what was saved up in a
// quiet second may come at once.
const burst = time.Second

// meter is the generic cell rate algorithm: one time says all. What is taken is
// never cut: a request larger than the burst is let in when the meter is quiet,
// and what follows waits until its whole cost has passed, so that the rate holds
// over time whatever the sizes.
type meter struct {
	each float64   // ns that one unit takes; 0: no bound
	due  time.Time // when all that was taken would have come at exactly the rate
}

// newMeter allows perSecond units in a second; 0: any.
func newMeter(perSecond float64) meter {
	if perSecond == 0 {
		return meter{}
	}
	return meter{each: float64(time.Second) / perSecond}
}

// follow takes over what was taken under a meter of the same rate.
func (m *meter) follow(old meter) {
	if m.each == old.each {
		m.due = old.due
	}
}

// wait is how long it takes until something may be taken; 0: now.
func (m *meter) wait(now time.Time) time.Duration {
	if m.each == 0 {
		return 0
	}
	ahead := m.due.Sub(now)
	if ahead < burst {
		return 0
	}
	return max(ahead-burst, time.Millisecond)
}

// room is how many units may be taken now without being further ahead than the
// burst, at least 1 while any may; n at most.
func (m *meter) room(now time.Time, n int) int {
	switch {
	case m.each == 0:
		return n
	case m.wait(now) > 0:
		return 0
	}
	free := float64(burst-max(m.due.Sub(now), 0)) / m.each
	return min(n, max(1, int(min(free, float64(n)))))
}

// take takes n units.
func (m *meter) take(now time.Time, n float64) {
	if m.each == 0 {
		return
	}
	if m.due.Before(now) {
		m.due = now
	}
	const longest = 100 * 365 * 24 * time.Hour // far from where durations end
	cost := min(n*m.each, float64(longest))
	if ahead := m.due.Sub(now); ahead < longest {
		m.due = m.due.Add(time.Duration(cost))
	}
}

// Package wallclock tells how far the wall clock was set ahead: what looks old
// only because of that is not to be thrown away.
package wallclock

import "time"

// Steps remembers how far the wall clock was set, held against a clock that only
// runs. The sleep of a machine counts as a step ahead where that clock stands
// still meanwhile. The zero value is ready for use, by one goroutine at a time.
type Steps struct {
	begun bool
	wall  time.Time
	mono  time.Duration
	steps []step
}

// step is by how much the clock was set, and when.
type step struct{ at, by time.Duration }

const (
	// slack is how far both clocks may part between two looks.
	slack = time.Minute
	// most bounds a step and a sum of steps, so that none of them overflows.
	most = 100 * 365 * 24 * time.Hour
	// maxSteps is how many steps are told apart; older ones are one.
	maxSteps = 64
)

// Look notes what both clocks say now; mono is the time since a moment that
// stays the same.
func (s *Steps) Look(wall time.Time, mono time.Duration) {
	wall = wall.Round(0) // without its reading of the other clock
	by := min(max(wall.Sub(s.wall)-(mono-s.mono), -most), most)
	if s.begun && (by > slack || by < -slack) {
		s.steps = append(s.steps, step{mono, by})
	}
	if len(s.steps) > maxSteps {
		s.steps[1].by = added(s.steps[0].by, s.steps[1].by)
		s.steps = append(s.steps[:0], s.steps[1:]...)
	}
	s.begun, s.wall, s.mono = true, wall, mono
}

// Ahead is how far the clock was set ahead within the last d, less what it was
// set back after that: as much younger than it looks may be what is no older
// than d.
func (s *Steps) Ahead(d time.Duration) (sum time.Duration) {
	for _, st := range s.steps {
		if s.mono-st.at <= d {
			sum = added(sum, st.by)
		}
	}
	return sum
}

// added adds a step. Below zero there is no sum: who sets the clock back and
// ahead again has stamped what is between too early.
func added(sum, by time.Duration) time.Duration { return min(max(0, max(0, sum)+by), most) }

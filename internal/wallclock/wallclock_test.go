package wallclock

import (
	"testing"
	"time"
)

const year = 365 * 24 * time.Hour

func TestSteps(t *testing.T) {
	type look struct{ run, set time.Duration } // the time that passes, and by how much the clock is set then
	for _, c := range []struct {
		name   string
		looks  []look
		within time.Duration
		want   time.Duration
	}{
		{"a clock that runs", []look{{time.Hour, 0}, {time.Hour, 0}}, year, 0},
		{"a little ahead", []look{{time.Hour, 59 * time.Second}}, year, 0},
		{"an hour ahead", []look{{time.Hour, time.Hour}}, year, time.Hour},
		{"a year ahead, longer ago", []look{{time.Hour, year}, {48 * time.Hour, 0}}, 24 * time.Hour, 0},
		{"a year ahead, not so long ago", []look{{time.Hour, year}, {23 * time.Hour, 0}}, 24 * time.Hour, year},
		{"ahead and back", []look{{time.Hour, year}, {time.Hour, -year}}, year, 0},
		{"back", []look{{time.Hour, -year}}, year, 0},
		{"back and ahead", []look{{time.Hour, -year}, {time.Hour, year}}, year, year},
		{"ahead twice", []look{{time.Hour, year}, {time.Hour, time.Hour}}, year, year + time.Hour},
		{"ahead beyond all measure", []look{{time.Hour, 200 * year}, {time.Hour, 200 * year}, {time.Hour, 90 * year}}, year, most},
	} {
		var s Steps
		wall, mono := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Duration(0)
		s.Look(wall, mono)
		for _, l := range c.looks {
			mono += l.run
			wall = wall.Add(l.run).Add(l.set)
			s.Look(wall, mono)
		}
		if got := s.Ahead(c.within); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// However often the clock is set, what is remembered is bounded.
func TestStepsAreBounded(t *testing.T) {
	var s Steps
	wall := time.Unix(0, 0)
	for i := range time.Duration(10_000) {
		wall = wall.Add(time.Hour)
		s.Look(wall, i)
	}
	if n := len(s.steps); n > maxSteps || cap(s.steps) > 4*maxSteps {
		t.Errorf("%d steps are remembered", n)
	}
	if got := s.Ahead(year); got != most && got < 9_000*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}

package ackmesh

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff gives the pauses between attempts: equal jitter, half fixed and half by
// chance, so that clients cut off together do not come back together, and none
// comes back at once.
type backoff struct {
	min, max time.Duration
	attempt  int
	rand     func() float64 // in [0, 1); nil: the global source
}

// next returns the pause before the next attempt.
func (b *backoff) next() time.Duration {
	d := b.min << min(b.attempt, 30)
	if d <= 0 || d > b.max {
		d = b.max
	}
	b.attempt++
	r := rand.Float64
	if b.rand != nil {
		r = b.rand
	}
	return d/2 + time.Duration(r()*float64(d/2))
}

// reset begins again with the shortest pause.
func (b *backoff) reset() { b.attempt = 0 }

// pause waits, and returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

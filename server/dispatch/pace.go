package dispatch

import (
	"time"

	"github.com/ackmesh/ackmesh/server/delivery"
)

// Pace bounds how fast deliveries are made. Its methods are called concurrently,
// for every batch, and must not block.
type Pace interface {
	// Room is how many of up to n deliveries of a topic may go to a client now;
	// 0: none before wait has passed.
	Room(topic, client string, n int, now time.Time) (room int, wait time.Duration)
	// Delivered says that n deliveries went, of so many bytes together.
	Delivered(topic, client string, n int, bytes int64, now time.Time)
}

// longestPace is after how long a binding that is held back asks again, since
// the limit may have been raised.
const longestPace = time.Second

// allowed is how many deliveries of a part the rate limits let go to a stream
// now. With 0 the part is woken when there may be some.
func (l *loop) allowed(p *part, a *attachment, now time.Time) int {
	pace := l.d.cfg.Pace
	if pace == nil {
		return delivery.MaxBatch
	}
	n, wait := pace.Room(p.key.Topic, a.b.s.cfg.ClientID, delivery.MaxBatch, now)
	if n == 0 {
		a.b.s.hold(a.b, p, min(wait, longestPace))
	}
	return n
}

// hold gives a binding no room for a while, then wakes p and all others that
// want some.
func (s *Stream) hold(b *binding, p *part, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.gone || s.ending {
		return
	}
	b.starve(p)
	if b.pacing == nil {
		b.pacing = time.AfterFunc(wait, func() { s.goOn(b) })
	}
}

func (s *Stream) goOn(b *binding) {
	s.mu.Lock()
	b.pacing = nil
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
}

// endPace stops the timer of a binding that is going. s.mu is held.
func (b *binding) endPace() {
	if b.pacing != nil {
		b.pacing.Stop()
		b.pacing = nil
	}
}

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

const (
	// longestPace is after how long a binding that is held back asks again, since
	// the limit may have been raised.
	longestPace = time.Second
	// paceEach is how much longer each binding of a stream makes it: thousands of
	// lite topics that a limit holds back do nothing but ask else.
	paceEach = 50 * time.Microsecond
)

// allowed is how many deliveries of a part the rate limits let go to a stream
// now. With 0 the part is woken when there may be some; why is sentBatch where
// this stream was not held back before, so that another one may go on at once.
func (l *loop) allowed(p *part, a *attachment, now time.Time) (n int, why progress) {
	pace := l.d.cfg.Pace
	if pace == nil {
		return delivery.MaxBatch, sentBatch
	}
	if a.b.s.held(a.b, p) {
		return 0, noWindow
	}
	n, wait := pace.Room(p.key.Topic, a.b.s.cfg.ClientID, delivery.MaxBatch, now)
	if n == 0 && !a.b.s.hold(a.b, p, wait) {
		return 0, noWindow
	}
	return n, sentBatch
}

// held tells whether a rate limit holds a binding back still; then p is woken
// with it.
func (s *Stream) held(b *binding, p *part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.pacing == nil {
		return false
	}
	b.starve(p)
	return true
}

// hold gives a binding no room for a while, then wakes p and all others that
// want some of it. It tells whether it did: one that gets nothing anyway is not
// held back.
func (s *Stream) hold(b *binding, p *part, wait time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.gone || s.ending {
		return false
	}
	if b.pacing == nil {
		wait = min(max(wait, time.Duration(len(s.bindings))*paceEach), longestPace)
		b.pacing = time.AfterFunc(wait, func() { s.goOn(b) })
	}
	b.starve(p)
	return true
}

func (s *Stream) goOn(b *binding) {
	s.mu.Lock()
	paced := b.paced
	b.pacing, b.paced = nil, nil
	s.mu.Unlock()
	s.wakeAll(paced, nil)
}

// endPace stops the timer of a binding that is going. s.mu is held.
func (b *binding) endPace() {
	if b.pacing != nil {
		b.pacing.Stop()
		b.pacing = nil
	}
}

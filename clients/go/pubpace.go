package ackmesh

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pace keeps the requests of a topic back after one was refused with the time to wait:
// none goes before that, then one, when that is answered otherwise the next, and from
// then on two for each. All at once would be refused again, but for the first.
type pace struct {
	until time.Time
	room  int   // how many may be sent before the next answer
	taken int   // since the refusal
	why   error // it
}

// freely is the room from which on a topic's requests are not counted any more.
const freely = 64

// retryDelay is how long an error says to wait before the next try, by
// google.rpc.RetryInfo; 0 if it does not.
func retryDelay(err error) time.Duration {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return 0
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// fates is what follows from the errors of a request's events, one after another.
type fates struct {
	err        error // the last one
	repeatable bool  // whether its event may be sent again
	wait       time.Duration

	longest time.Duration // to wait, of those that were refused for the rate
	why     error
}

// follows takes the next event's error. The mesh recognises a repeat by source and id.
func (f *fates) follows(err error) {
	if errors.Is(err, f.err) { // mostly one is everyone's
		return
	}
	f.err, f.repeatable, f.wait = err, false, 0
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
		f.repeatable, f.wait = true, retryDelay(err)
	case codes.ResourceExhausted: // of a rate; of a size there is no time to wait for
		f.wait = retryDelay(err)
		f.repeatable = f.wait > 0
		if f.wait > f.longest {
			f.longest, f.why = f.wait, err
		}
	}
}

// undone reports whether err says that nothing was stored.
func undone(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// told is the error that the events of a request get: one that says that nothing was
// stored would not be true of an event that was sent before with its fate left open.
func (b *pubBatch) told(err error) error {
	if err != nil && b.open && undone(err) {
		return status.Errorf(codes.DeadlineExceeded, "%v; it was tried before, and its fate is open", err)
	}
	return err
}

// maySend reports whether a topic's pace lets a request go. p.mu is held.
func (p *publisher) maySend(b *pubBatch, now time.Time) bool {
	s := p.slow[b.topic]
	return s == nil || s.room > 0 && !now.Before(s.until)
}

// nextToSend is the place in the queue of the next request that may be sent; -1: none.
// p.mu is held.
func (p *publisher) nextToSend(now time.Time) int {
	if len(p.slow) == 0 && p.partial < maxPartial && p.bounds.known {
		return min(0, len(p.queue)-1)
	}
	return slices.IndexFunc(p.queue, func(b *pubBatch) bool {
		return (b.full || p.partial < maxPartial) && p.maySend(b, now) && (p.bounds.known || !p.tooLarge(b))
	})
}

// paced takes note of an answer: wait, if not 0, is how long it says to wait.
func (p *publisher) paced(topic string, wait time.Duration, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slow[topic]
	switch {
	case wait > 0 && wait < p.cfg.Timeout: // after a longer one everything would have expired
		if s == nil {
			s = &pace{}
			p.slow[topic] = s
		}
		s.room, s.taken, s.why = 1, 0, why
		if until := time.Now().Add(wait); until.After(s.until) {
			s.until = until
		}
	case s != nil:
		if s.taken++; s.taken > 1 {
			s.room++
		}
		if s.room++; s.room >= freely || len(p.queue)+len(p.later)+len(p.sent) == 0 {
			delete(p.slow, topic)
		}
	}
	if s != nil {
		p.signal()
	}
}

// restart lets each topic send one, since no answer comes any more that would. p.mu
// is held.
func (p *publisher) restart() {
	for _, s := range p.slow {
		s.room = 1
	}
}

// nextPaced is when a topic may go on that take left alone. p.mu is held.
func (p *publisher) nextPaced() (t time.Time) {
	for _, s := range p.slow {
		if s.until.After(p.looked) {
			t = earlier(t, s.until)
		}
	}
	return t
}

// lateError is why a request that has expired was not answered. last is how the last
// stream ended, if it did.
func (p *publisher) lateError(b *pubBatch, last error) error {
	if last == nil {
		last = b.last
	}
	if last == nil {
		p.mu.Lock()
		if s := p.slow[b.topic]; s != nil {
			last = s.why
		}
		p.mu.Unlock()
	}
	if last == nil {
		return status.Errorf(codes.DeadlineExceeded, "ackmesh: publish not answered within %v", p.cfg.Timeout)
	}
	return b.told(fmt.Errorf("ackmesh: publish not answered within %v: %w", p.cfg.Timeout, last))
}

package dispatch

import (
	"context"
	"sync"
	"time"
)

// Drain is BeginDrain that waits until all streams have ended.
func (d *Dispatcher) Drain(ctx context.Context, grace time.Duration) {
	_, ended := d.BeginDrain(ctx, grace)
	<-ended
}

// BeginDrain refuses new streams, stops deliveries, tells every stream to go, and
// ends each as soon as nothing is in flight on it, or at the end of grace or of
// ctx. It returns how many streams it found; ended is closed when all of these
// have ended. While a drain goes on another one may bring its end forward.
func (d *Dispatcher) BeginDrain(ctx context.Context, grace time.Duration) (streams int, ended <-chan struct{}) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.eachPart(func(_ *loop, p *part) { p.m.Quiesce() })
	list := d.allStreams()
	ctx, cancel := context.WithTimeout(ctx, grace)
	var all sync.WaitGroup
	for _, s := range list {
		if s.stop() {
			s.noticeTo(NoticeDraining, "the instance takes no more streams: finish what is in flight and reconnect")
		}
		all.Go(func() {
			s.awaitQuiet(ctx)
			d.End(s, false, time.Second, ErrStopping)
			s.leave(unreadGrace)
		})
	}
	done := make(chan struct{})
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		all.Wait()
		cancel()
		close(done)
	}()
	return len(list), done
}

// unreadGrace is how long a client that is told to go may take to read what was
// written to it before.
const unreadGrace = 3 * time.Second

// leave waits for the writer of a stream that was ended, for so long at most: then
// the client does not read, and the stream ends without it.
func (s *Stream) leave(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.abort(ErrStopping)
	}
}

// EndDrain takes streams again. Those that were told to go still go.
func (d *Dispatcher) EndDrain() {
	d.mu.Lock()
	d.draining = false
	d.mu.Unlock()
	d.eachPart(func(l *loop, p *part) {
		p.m.Resume()
		l.touch(p)
		l.enlist(p)
	})
}

// eachPart has every loop call fn for its parts, soon.
func (d *Dispatcher) eachPart(fn func(*loop, *part)) {
	for _, l := range d.allLoops() {
		l.post(event{kind: evCall, call: func() {
			for _, p := range l.parts {
				fn(l, p)
			}
		}})
	}
}

// noticeTo is notice for the stream as a whole, with where to go.
func (s *Stream) noticeTo(kind NoticeKind, detail string) {
	n := Notice{Kind: kind, Detail: detail}
	if goTo := s.d.cfg.GoTo; goTo != nil {
		if at, ok := goTo(s.Config().ClientID); ok {
			n.GoTo = &at
		}
	}
	s.give(n)
}

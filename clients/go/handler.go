package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Handler works on one delivery. nil acks it. An error nacks it: it comes again
// after the server's backoff, or as RetryAfter and DeadLetter say, and the error's
// text is kept with it. ErrHold leaves it open. A panic nacks it too. The delivery
// is good until the handler returns; ctx carries the values of Subscribe's and ends
// only when the grace at the end is over.
type Handler func(ctx context.Context, d *Delivery) error

// Subscribe delivers events to a handler until ctx ends, the Client is closed, or
// the server refuses for good. It reconnects by itself, for as long as it takes.
//
// When ctx ends it takes nothing new, lets the running handlers finish for
// SubscribeConfig.Grace, sends their acks and waits until they are confirmed, gives
// the rest back, and returns nil; a *CloseError if something was left unconfirmed
// or unfinished. After Close it returns ErrClosed. Any other error says why the
// subscription cannot go on: status.Code, errors.Is with ErrSuperseded or
// ErrEvicted, and errors.As with *SubscriptionError tell more. No handler runs any
// more when it returns; one that ignores the end of its context holds it up.
func (c *Client) Subscribe(ctx context.Context, cfg SubscribeConfig, h Handler) error {
	if h == nil {
		return errors.New("ackmesh: Subscribe without a handler")
	}
	s, err := c.newStream(cfg)
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		s.cutLife()
		<-s.done
		return err
	}
	defer c.leave()
	p := newPool(ctx, s, h)
	defer p.cancel()
	p.start(s.cfg.Concurrency)
	select {
	case <-ctx.Done():
	case <-c.closing.Done():
	case <-s.done:
	}
	return p.stop()
}

// workers runs handlers for a Stream.
type workers struct {
	s       *Stream
	handler Handler
	ctx     context.Context // the handlers'
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	busy map[record]chan struct{} // of ordered subscriptions: closed when its handler ends
}

// record names a record of a subscription, over the streams of a Stream.
type record struct {
	sub       *subState
	partition string
	offset    int64
}

func newPool(ctx context.Context, s *Stream, h Handler) *workers {
	p := &workers{s: s, handler: h, busy: make(map[record]chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

func (p *workers) start(n int) {
	p.running.Add(n)
	for range n {
		go p.work()
	}
}

// stop ends the workers, then the Stream, and returns how that went.
func (p *workers) stop() error {
	s := p.s
	s.stopTaking()
	s.beginClose()
	grace := time.AfterFunc(max(s.cfg.Grace, 0), func() { p.cancel(); s.hurry() })
	defer grace.Stop()
	stopCut := context.AfterFunc(s.c.cut, p.cancel)
	defer stopCut()
	p.running.Wait()
	<-s.done
	return s.err
}

// work handles deliveries until the queue is closed.
func (p *workers) work() { p.workOn(nil) }

// workOn is work, with a batch whose reference is the caller's. If a handler ends the
// goroutine, another one goes on.
func (p *workers) workOn(b *Batch) {
	ended := false
	defer func() {
		if ended {
			p.running.Done()
			return
		}
		b.unref(1)
		go p.workOn(b)
	}()
	for {
		if b != nil {
			p.handleAll(b)
		}
		if b = p.s.queue.share(b); b == nil {
			ended = true
			return
		}
	}
}

// handleAll handles what nobody has claimed of a batch.
func (p *workers) handleAll(b *Batch) {
	for d := b.claim(); d != nil; d = b.claim() {
		switch {
		case d.stale():
			p.s.drop(d)
		case d.run.sub.Ordered:
			p.handleAlone(d)
		default:
			p.handle(d)
		}
		b.unref(1)
	}
}

// handleAlone is handle while no other handler works on the record. One may that got
// it on a stream that has broken: two would work on one key at a time.
func (p *workers) handleAlone(d *Delivery) {
	r := record{d.run.sub, d.Partition(), d.Offset()}
	for before := p.enter(r); before != nil; before = p.enter(r) {
		select {
		case <-before:
		case <-p.ctx.Done():
		}
		if p.ctx.Err() != nil || d.stale() {
			p.s.drop(d)
			return
		}
	}
	defer p.leave(r)
	p.handle(d)
}

// enter takes a record, or returns what is closed when another handler is done with it.
func (p *workers) enter(r record) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.busy[r]; other != nil {
		return other
	}
	p.busy[r] = make(chan struct{})
	return nil
}

func (p *workers) leave(r record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.busy[r])
	delete(p.busy, r)
}

// handle runs the handler on one delivery and answers for it.
func (p *workers) handle(d *Delivery) {
	err := errPanic // stands if the handler does not return
	defer func() {
		if err == nil {
			d.Ack()
			return
		}
		if r := recover(); r != nil {
			err = p.panicked(d, r)
		}
		if !errors.Is(err, ErrHold) {
			d.Nack(err)
		}
	}()
	err = p.handler(p.ctx, d)
}

var errPanic = errors.New("the handler ended its goroutine")

// panicked counts and logs a handler's panic, and makes it a reason to nack.
func (p *workers) panicked(d *Delivery, r any) error {
	p.s.mu.Lock()
	p.s.stats.Panics++
	p.s.mu.Unlock()
	p.s.log().Error("ackmesh: handler panicked", slog.Any("panic", r), slog.Any("delivery", d.Ref()), slog.String("stack", string(debug.Stack())))
	return fmt.Errorf("panic: %v", r)
}

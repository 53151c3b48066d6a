package session

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
)

const (
	// mostCalls is how many receives are under way at one broker at most.
	mostCalls = 8
	// linger is how long after a Pop what arrives is kept for the next one.
	linger = time.Second
	// shortWait is the least that a Pop waits: for the broker's answer, which
	// only comes at once when there is a message.
	shortWait = 250 * time.Millisecond
	// second is how long after the first receive at a broker a second one
	// begins. A message that arrives between a broker's look at its queues and
	// its noting that somebody waits wakes nobody: with two that begin apart
	// one is always noted.
	second = 300 * time.Millisecond
	// poll is how long a receive waits at the broker. It stays there when its
	// client dies, and takes what comes meanwhile, which then comes late: so no
	// longer than it must be.
	poll = ShortestPoll
	// failWait is how long all brokers must have failed until a Pop says so.
	failWait = 3 * time.Second
	// readyWait is how long a Pop waits for a proxy to know the consumer.
	readyWait = 10 * time.Second
	// Nack is the invisible time that gives a message back.
	Nack = time.Second
)

// Receiver pops messages for a group from all brokers of a topic. Each broker
// has a receive under way of its own, several when there is much to get, so that
// an idle one holds up no other. Those that have nothing to tell stay when a Pop
// returns; what they bring soon after is kept for the next Pop, what they bring
// later is given back.
type Receiver struct {
	c         *Consumer
	invisible time.Duration

	mu       sync.Mutex
	wake     chan struct{} // closed when a Pop should look again
	ready    []*v2.Message
	brokers  map[string]*brokerCalls
	capacity int       // messages that the calls under way may bring
	pops     int       // that wait
	want     int       // messages that they, or the one before, may get
	keep     time.Time // until when what arrives is kept though no Pop waits
	timer    *time.Timer
	used     time.Time
	fatal    error // of a call, to be told to the Pops that wait
}

// brokerCalls are the receives at one broker.
type brokerCalls struct {
	calls     int // under way
	most      int // how many there may be
	fails     int // in a row
	failed    time.Time
	notBefore time.Time
	began     time.Time // the last one
	err       error
	attempt   string // of a call that broke: what it popped comes again under this name
}

// NewReceiver makes a receiver of what a consumer's group has in its topic.
func (c *Consumer) NewReceiver(invisible time.Duration) *Receiver {
	return &Receiver{c: c, invisible: invisible, wake: make(chan struct{}), brokers: map[string]*brokerCalls{}, used: time.Now()}
}

// Used is when the last Pop was under way.
func (r *Receiver) Used() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pops > 0 {
		return time.Now()
	}
	return r.used
}

// Pop returns up to most messages, as soon as there is one, else none after
// about wait. Errors: an *Error, when no broker could be asked for some seconds
// or one answers what does not pass; ctx.Err(), ErrClosed.
func (r *Receiver) Pop(ctx context.Context, most int, wait time.Duration) ([]*v2.Message, error) {
	route, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	end := time.NewTimer(max(wait, shortWait))
	defer end.Stop()
	r.enter(most)
	got := 0
	defer func() { r.leave(most - got) }()
	for {
		out, wake, again, err := r.look(route.Brokers(), most)
		if err != nil || len(out) > 0 {
			got = len(out)
			return out, err
		}
		over, err := r.await(ctx, wake, again, end.C)
		if err != nil {
			return nil, err
		}
		if over {
			return nil, r.trouble()
		}
		if route, err = r.c.s.Route(ctx, r.c.topic); err != nil {
			return nil, err
		}
	}
}

// prepare waits, for a while, until a proxy knows the consumer, and finds the
// topic's brokers.
func (r *Receiver) prepare(ctx context.Context) (*Route, error) {
	bounded, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if _, err := r.c.Ready(bounded); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = &Error{Op: "telemetry", GRPC: codes.Unavailable, Message: "no proxy has answered yet"}
		}
		return nil, err
	}
	var route *Route
	err := Retry(bounded, func(err error, since time.Duration) bool { return IsTransient(err) && since < failWait }, func(context.Context) (err error) {
		route, err = r.c.s.Route(ctx, r.c.topic)
		return err
	})
	return route, err
}

// await waits until a Pop should look again; over says that its time is.
func (r *Receiver) await(ctx context.Context, wake <-chan struct{}, again time.Duration, end <-chan time.Time) (over bool, err error) {
	more := time.NewTimer(again)
	defer more.Stop()
	select {
	case <-wake:
	case <-more.C:
	case <-end:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.c.done:
		return false, ErrClosed
	}
	return false, nil
}

func (r *Receiver) enter(most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pops == 0 {
		r.want, r.fatal = 0, nil // what the last one left is this one's
	}
	r.pops++
	r.want += most
	r.giveBackBeyond(r.want + len(r.brokers))
}

// leave ends a Pop that could have got so many messages more.
func (r *Receiver) leave(left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pops--
	r.used = time.Now()
	if r.pops > 0 {
		r.want -= left
		return
	}
	r.want = max(left, 0)
	r.keep = r.used.Add(linger)
	if r.timer == nil {
		r.timer = time.AfterFunc(linger, r.lingered)
	} else {
		r.timer.Reset(linger)
	}
}

// lingered gives back what nobody has come for.
func (r *Receiver) lingered() {
	if !r.c.s.enter() {
		return
	}
	defer r.c.s.wg.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pops == 0 && !time.Now().Before(r.keep) {
		r.giveBackBeyond(0)
	}
}

// giveBackBeyond gives back what is ready beyond so many. mu is held.
func (r *Receiver) giveBackBeyond(n int) {
	if len(r.ready) <= n {
		return
	}
	r.giveBack(r.ready[n:])
	r.ready = r.ready[:n:n]
}

// giveBack makes messages visible to the group again, beside what the caller
// does.
func (r *Receiver) giveBack(msgs []*v2.Message) {
	if !r.c.s.enter() {
		return
	}
	go func() {
		defer r.c.s.wg.Done()
		for _, m := range msgs {
			sys := m.GetSystemProperties()
			_, err := r.c.ChangeInvisible(r.c.ctx, Entry{sys.GetMessageId(), sys.GetReceiptHandle()}, Nack)
			if err != nil && !errors.Is(err, ErrClosed) { // it comes again when its time is over
				r.c.s.o.Logger.Debug("a message that came too late could not be given back", "group", r.c.group, "error", err)
			}
		}
	}()
}

// Take returns what has arrived and was not popped yet: it is not given to a
// Pop any more.
func (r *Receiver) Take() []*v2.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.ready
	r.ready = nil
	return out
}

// look takes what is ready, and has the brokers asked for what is wanted beyond
// that: who pops goes on popping. again is when to look again though nothing has
// arrived.
func (r *Receiver) look(brokers []string, most int) (out []*v2.Message, wake <-chan struct{}, again time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if n := min(most, len(r.ready)); n > 0 {
		out = append(out, r.ready[:n]...)
		r.ready = append(r.ready[:0:0], r.ready[n:]...)
		if r.want -= n; r.want > 0 {
			r.ask(brokers, now)
		}
		return out, nil, 0, nil
	}
	if r.fatal != nil {
		return nil, nil, 0, r.fatal
	}
	again = r.ask(brokers, now)
	if err := r.allFail(brokers, now); err != nil {
		return nil, nil, 0, err
	}
	return nil, r.wake, again, nil
}

// ask begins receives: one at each broker at least, a second one a little later,
// and more, while what they may bring is less than what is wanted. mu is held.
func (r *Receiver) ask(brokers []string, now time.Time) (again time.Duration) {
	again = time.Minute
	for round := 0; round < mostCalls; round++ {
		for _, name := range brokers {
			b := r.brokers[name]
			if b == nil {
				b = &brokerCalls{most: 1}
				r.brokers[name] = b
			}
			if wait := b.notBefore.Sub(now); wait > 0 {
				again = min(again, wait)
				continue
			}
			room := r.want - r.capacity - len(r.ready)
			if b.calls > round || b.calls > 0 && (b.calls >= b.most || room <= 0) && !b.wantsSecond(now, &again) {
				continue
			}
			r.begin(name, b, min(max(room, 1), MaxReceive))
		}
	}
	return again
}

// wantsSecond tells whether a second receive is due; else again is when it will
// be.
func (b *brokerCalls) wantsSecond(now time.Time, again *time.Duration) bool {
	if b.calls != 1 {
		return false
	}
	wait := second - now.Sub(b.began)
	if wait > 0 {
		*again = min(*again, wait)
	}
	return wait <= 0
}

// begin begins one receive. mu is held.
func (r *Receiver) begin(name string, b *brokerCalls, n int) {
	if !r.c.s.enter() {
		return
	}
	b.calls++
	b.began = time.Now()
	r.capacity += n
	req := ReceiveRequest{Broker: name, Max: n, Invisible: r.invisible, Wait: poll, Attempt: b.attempt}
	if b.attempt = ""; req.Attempt == "" {
		req.Attempt = rand.Text()
	}
	go func() {
		defer r.c.s.wg.Done()
		msgs, err := r.c.Receive(r.c.ctx, req)
		r.arrived(b, req, msgs, err)
	}()
}

// arrived takes the outcome of a receive.
func (r *Receiver) arrived(b *brokerCalls, req ReceiveRequest, msgs []*v2.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	b.calls--
	r.capacity -= req.Max
	switch {
	case err != nil:
		r.failed(b, req, err, now)
	case len(msgs) == req.Max:
		b.most = min(2*b.most, mostCalls)
	default:
		b.most = max(b.most/2, 1)
	}
	if err == nil {
		b.fails, b.err = 0, nil
	}
	r.ready = append(r.ready, msgs...)
	if r.pops > 0 || now.Before(r.keep) {
		// Each broker may bring one more than wanted: no idle one is left out.
		r.giveBackBeyond(r.want + len(r.brokers))
	} else {
		r.giveBackBeyond(0)
	}
	close(r.wake)
	r.wake = make(chan struct{})
}

func (r *Receiver) failed(b *brokerCalls, req ReceiveRequest, err error, now time.Time) {
	if b.fails++; b.fails == 1 {
		b.failed = now
	}
	b.err, b.most, b.attempt, b.notBefore = err, 1, req.Attempt, now.Add(Pause(b.fails))
	if !IsTransient(err) && !IsDoubtful(err) && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		r.fatal = err
	}
}

// allFail is the error of a broker where every one has failed for some time.
// mu is held.
func (r *Receiver) allFail(brokers []string, now time.Time) (err error) {
	for _, name := range brokers {
		b := r.brokers[name]
		if b == nil || b.fails == 0 || now.Sub(b.failed) < failWait {
			return nil
		}
		err = b.err
	}
	if len(brokers) == 0 {
		return &Error{Op: "receive", Code: v2.Code_PROXY_TIMEOUT, Message: "the topic has no queue to read from now"}
	}
	return err
}

// trouble is the error of a broker where none has answered well since it was
// asked last.
func (r *Receiver) trouble() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.brokers {
		if b.fails == 0 {
			return nil
		}
		err = b.err
	}
	return err
}

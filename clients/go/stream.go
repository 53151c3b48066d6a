package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Stream is a subscription that its owner pulls from: the interface below
// Subscribe. It opens one gRPC stream after another, as they break, and resumes
// where it was. What was received on a broken one cannot be acked any more and
// comes again. All methods may be called concurrently.
type Stream struct {
	c     *Client
	cfg   SubscribeConfig
	queue *queue

	// life ends when the stream is cut off.
	life    context.Context
	cutLife context.CancelFunc
	opened  chan struct{} // closed when it was open for the first time
	done    chan struct{} // closed when run has ended

	mu      sync.Mutex
	subs    map[uint32]*subState // by id
	lastSub uint32
	table   progress.Table
	sess    *session // the one that is open, or nil
	// sessChange is closed, and made anew, when sess changes.
	sessChange chan struct{}
	wasOpen    bool
	closing    bool
	final      error // why the stream ends for good, once that is clear
	err        error // what Recv and Close return, once done is closed
	fate       error // the first of an ack that is not durable and not told yet
	changeID   uint64
	stats      Stats
}

// subState is a subscription of a Stream.
type subState struct {
	Subscription
	id     uint32
	paused bool
	trial  bool        // added, and not yet accepted by any server
	reason error       // why a server refused it on trial
	moved  bool        // told to go elsewhere
	gone   atomic.Bool // removed or superseded: what is queued of it is dropped
}

// Stats are counters of a Stream since it was made.
type Stats struct {
	// Sessions is how often a stream was opened.
	Sessions int64
	// Received counts deliveries.
	Received int64
	// Acked counts acks sent, Confirmed those answered as durable, Refused those
	// answered otherwise for good, and Unconfirmed those whose stream broke before
	// the answer.
	Acked, Confirmed, Refused, Unconfirmed int64
	// Nacked counts deliveries given back.
	Nacked int64
	// Dropped counts deliveries that no handler saw, because their stream broke or
	// a reset came; they come again where they should.
	Dropped int64
	// Panics counts handlers that panicked.
	Panics int64
	// Pending is how many acks wait for their answer now.
	Pending int64
}

// OpenStream opens a Stream and waits until the server has accepted it. An error
// that IsPermanent, or the end of ctx, ends the attempt; anything else is retried.
// ctx does not bound the Stream's life: end it with Close.
func (c *Client) OpenStream(ctx context.Context, cfg SubscribeConfig) (*Stream, error) {
	s, err := c.newStream(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.opened:
		return s, nil
	case <-s.done:
		return nil, s.err
	case <-ctx.Done():
		s.cutLife()
		<-s.done
		return nil, fmt.Errorf("ackmesh: open stream: %w", ctx.Err())
	}
}

// newStream makes a Stream and starts it.
func (c *Client) newStream(cfg SubscribeConfig) (*Stream, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkName("Config.ClientID", c.cfg.ClientID); err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	s := &Stream{
		c: c, cfg: cfg, queue: newQueue(), subs: make(map[uint32]*subState),
		opened: make(chan struct{}), done: make(chan struct{}), sessChange: make(chan struct{}),
	}
	for _, sub := range cfg.all() {
		s.addSub(sub)
	}
	s.life, s.cutLife = context.WithCancel(c.cut)
	go s.run()
	return s, nil
}

func (s *Stream) addSub(sub Subscription) *subState {
	s.lastSub++
	st := &subState{Subscription: sub, id: s.lastSub}
	s.subs[st.id] = st
	return st
}

// Recv waits for the next batch. Its error is ctx's, ErrClosed after Close, or why
// the stream has ended for good.
func (s *Stream) Recv(ctx context.Context) (*Batch, error) {
	for b := s.queue.pop(ctx); b != nil; b = s.queue.pop(ctx) {
		if !b.stale() {
			for _, e := range b.entries {
				e.Begin(e.Len())
			}
			return b, nil
		}
		from, to := b.claimRest()
		s.dropAll([]rest{{b, from, to}})
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var left *CloseError // is Close's to tell
	if s.err == nil || errors.As(s.err, &left) {
		return nil, ErrClosed
	}
	return nil, s.err
}

// Ack acks deliveries by id and returns how many of them that were outstanding.
// Ids of a stream that has ended, or never seen here, are not sent to anyone. It
// is slower than Batch.Ack and Delivery.Ack, and does not block either.
func (s *Stream) Ack(ids ...uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sess == nil {
		return 0
	}
	n := 0
	for _, id := range ids {
		if e, i, ok := s.sess.ledger.Find(id); ok && e.Ack(i) {
			s.sess.ackedLocked(e, 1)
			n++
		}
	}
	return n
}

// Unconfirmed lists the deliveries that were acked on the present stream and whose
// ack the server has not answered. What was unconfirmed on a stream that broke was
// told to SubscribeConfig.OnUnconfirmed.
func (s *Stream) Unconfirmed() []Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sess == nil {
		return nil
	}
	return s.sess.unconfirmed()
}

// Positions returns how far the subscribers of this stream are, as far as the
// server has told it, and with what it has confirmed since.
func (s *Stream) Positions() []Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.table.Positions()
	out := make([]Position, len(known))
	for i := range known {
		out[i] = publicPosition(&known[i])
	}
	return out
}

// Stats returns the counters.
func (s *Stream) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	if s.sess != nil {
		st.Pending = int64(len(s.sess.unconfirmed()))
	}
	return st
}

// Instance returns the id of the instance that serves the stream now; empty if
// none does.
func (s *Stream) Instance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sess == nil {
		return ""
	}
	return s.sess.instance
}

// Close ends the stream in order: nothing new comes, acks are confirmed, and what
// is not finished is given back. It waits until every delivery that Recv returned
// is acked or nacked, but for that no longer than until ctx ends; so with a context
// that has ended already, what is open now is given back. Then it waits for the
// answers to acks, at most 5 s, and for the server to end the stream, at most 5 s
// again. It returns a *CloseError if something was left.
func (s *Stream) Close(ctx context.Context) error {
	s.stopTaking()
	s.beginClose()
	stop := context.AfterFunc(ctx, s.hurry)
	defer stop()
	<-s.done
	return s.err
}

// Done is closed when the stream has ended for good.
func (s *Stream) Done() <-chan struct{} { return s.done }

// stopTaking lets nobody take deliveries any more, and drops those at hand.
func (s *Stream) stopTaking() { s.dropAll(s.queue.close()) }

// dropAll gives up what nobody has claimed.
func (s *Stream) dropAll(rests []rest) {
	for _, r := range rests {
		s.mu.Lock()
		for i := r.from; i < r.to; i++ {
			d := r.At(i)
			s.stats.Dropped += int64(r.sess.ledger.Drop(d.entry, d.index, d.index+1))
		}
		s.mu.Unlock()
		r.sess.signal()
		r.unref(r.to - r.from)
	}
}

// beginClose has run end in order.
func (s *Stream) beginClose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.closing = true
	if s.sess == nil {
		s.cutLife()
		return
	}
	s.sess.pauseAll()
	s.sess.leave(forever)
}

// hurry ends the patience with deliveries that are not finished.
func (s *Stream) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sess != nil {
		s.sess.leave(0)
	}
}

// subscriptions lists what the stream is for, in order of id.
func (s *Stream) subscriptions() []*pb.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscriptionsLocked()
}

func (s *Stream) subscriptionsLocked() []*pb.Subscription {
	out := make([]*pb.Subscription, 0, len(s.subs))
	for id := range s.subs {
		out = append(out, s.subs[id].proto(id))
	}
	slices.SortFunc(out, func(a, b *pb.Subscription) int { return int(a.Id) - int(b.Id) })
	return out
}

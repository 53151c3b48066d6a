package ackmesh

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Add adds a subscription to the Stream, and returns its id. It waits until a
// server has accepted it; an error is the server's reason, and the Stream goes on
// without.
func (s *Stream) Add(ctx context.Context, sub Subscription) (uint32, error) {
	if err := sub.validate(); err != nil {
		return 0, err
	}
	st, wait, err := s.try(ctx, sub)
	if err != nil {
		return 0, err
	}
	if err := s.tried(ctx, st, wait); err != nil {
		s.giveUp(st, err)
		return 0, err
	}
	return st.id, nil
}

// try adds a subscription on trial to the session that stands, and waits for one.
func (s *Stream) try(ctx context.Context, sub Subscription) (*subState, <-chan *pb.Changed, error) {
	for {
		ss, err := s.session(ctx)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		if s.sess == ss {
			st := s.addSub(sub)
			st.trial = true
			wait := ss.sendChange(&pb.Change{Add: []*pb.Subscription{sub.proto(st.id)}})
			s.mu.Unlock()
			return st, wait, nil
		}
		s.mu.Unlock() // it has ended meanwhile
	}
}

// giveUp drops a subscription that was on trial. If no server has refused it, the
// present one may have accepted it, and is told that nobody wants it: its records
// would be sent here, and be dropped, until they are dead letters.
func (s *Stream) giveUp(st *subState, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(st)
	if e := (*SubscriptionError)(nil); s.sess != nil && !errors.As(why, &e) {
		s.sess.sendChange(&pb.Change{Remove: []uint32{st.id}})
	}
}

// tried waits for what a server says of a subscription on trial: in the answer to
// the change, or, if the session broke before, when the next one is open.
func (s *Stream) tried(ctx context.Context, st *subState, wait <-chan *pb.Changed) error {
	answer, err := s.await(ctx, wait)
	if err != nil {
		return err
	}
	if answer == nil {
		_, err = s.session(ctx)
	} else {
		err = refused(st.Topic, st.id, answer.GetResults())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.reason != nil {
		return st.reason
	}
	st.trial = st.trial && err != nil
	return err
}

// Remove ends a subscription. What it holds is given back.
func (s *Stream) Remove(ctx context.Context, id uint32) error {
	st, err := s.sub(id)
	if err != nil {
		return err
	}
	s.forget(st)
	return s.alter(ctx, st, &pb.Change{Remove: []uint32{id}})
}

// Pause stops new deliveries of a subscription until Resume.
func (s *Stream) Pause(ctx context.Context, id uint32) error {
	st, err := s.sub(id)
	if err != nil {
		return err
	}
	s.setPaused(st, true)
	return s.alter(ctx, st, &pb.Change{Pause: []uint32{id}})
}

// Resume takes a paused subscription up again.
func (s *Stream) Resume(ctx context.Context, id uint32) error {
	st, err := s.sub(id)
	if err != nil {
		return err
	}
	s.setPaused(st, false)
	return s.alter(ctx, st, &pb.Change{Resume: []uint32{id}})
}

// SetWindow changes how many records each subscription, and how many bytes the
// Stream, may have in flight. 0 leaves one as it is.
func (s *Stream) SetWindow(ctx context.Context, records int, bytes int64) error {
	if records < 0 || records > maxRecords || bytes < 0 || bytes > maxWindowBytes {
		return fmt.Errorf("ackmesh: SetWindow(%d, %d): at most 100,000 records and 1 GiB", records, bytes)
	}
	s.mu.Lock()
	if records > 0 {
		s.cfg.MaxInFlight = records
	}
	if bytes > 0 {
		s.cfg.MaxInFlightBytes = bytes
	}
	s.mu.Unlock()
	return s.alter(ctx, nil, &pb.Change{Window: window(records, bytes)})
}

// Subscriptions returns the subscriptions by id. Those of SubscribeConfig have the
// ids 1, 2, … in the order of Topics, then Subscriptions.
func (s *Stream) Subscriptions() map[uint32]Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[uint32]Subscription, len(s.subs))
	for id, st := range s.subs {
		out[id] = st.Subscription
	}
	return out
}

// alter sends a change to the present stream, if there is one, and waits for the
// answer. Without one, or when it breaks, the next stream is opened as is wanted.
func (s *Stream) alter(ctx context.Context, st *subState, ch *pb.Change) error {
	s.mu.Lock()
	if s.sess == nil {
		s.mu.Unlock()
		return nil
	}
	wait := s.sess.sendChange(ch)
	s.mu.Unlock()
	answer, err := s.await(ctx, wait)
	if err != nil || answer == nil || st == nil {
		return err
	}
	return refused(st.Topic, st.id, answer.GetResults())
}

// sendChange has a change sent, and returns where its answer comes: nil, by a
// closed channel, if the session ends before. The caller holds s.mu.
func (ss *session) sendChange(ch *pb.Change) <-chan *pb.Changed {
	answer := make(chan *pb.Changed, 1)
	if ss.s.sess != ss {
		close(answer)
		return answer
	}
	ss.s.changeID++
	ch.ChangeId = ss.s.changeID
	ss.changes[ch.ChangeId] = answer
	ss.outbox = append(ss.outbox, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Change{Change: ch}})
	ss.signal()
	return answer
}

// changed takes the answer to a change.
func (ss *session) changed(c *pb.Changed) {
	ss.s.mu.Lock()
	defer ss.s.mu.Unlock()
	for _, p := range c.GetPositions() {
		ss.s.table.Replace(positionFromProto(p))
	}
	if answer, ok := ss.changes[c.GetChangeId()]; ok {
		delete(ss.changes, c.GetChangeId())
		answer <- c
	}
}

func (s *Stream) await(ctx context.Context, wait <-chan *pb.Changed) (*pb.Changed, error) {
	select {
	case answer := <-wait:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// session waits until a session stands.
func (s *Stream) session(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		ss, changed := s.sess, s.sessChange
		s.mu.Unlock()
		if ss != nil {
			return ss, nil
		}
		select {
		case <-changed:
		case <-s.done:
			return nil, errors.Join(ErrClosed, s.err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Stream) sub(id uint32) (*subState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.subs[id]; st != nil {
		return st, nil
	}
	return nil, fmt.Errorf("ackmesh: the stream has no subscription %d", id)
}

func (s *Stream) setPaused(st *subState, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.paused = paused
}

// forget drops a subscription.
func (s *Stream) forget(st *subState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(st)
}

// forgetLocked is forget under s.mu. Its positions go too, unless another
// subscription has the same subscriber: a stream may only resume its own.
func (s *Stream) forgetLocked(st *subState) {
	name := s.subscriber(st)
	st.gone.Store(true)
	delete(s.subs, st.id)
	for _, other := range s.subs {
		if other.Topic == st.Topic && s.subscriber(other) == name {
			return
		}
	}
	s.table.Forget(st.Topic, name)
}

// refused returns why the server refused a subscription, nil if it did not.
func refused(topic string, id uint32, results []*pb.SubscriptionResult) error {
	for _, r := range results {
		if r.GetId() != id || r.GetStatus() == nil {
			continue
		}
		if err := status.ErrorProto(r.GetStatus()); err != nil {
			return &SubscriptionError{Topic: topic, Err: err}
		}
	}
	return nil
}

package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestC21_LostAcks: what the client writes after its ack of 10 vanishes; the stream
// breaks 5 s later. 20 acks are told as unconfirmed, and their records come again.
func TestC21_LostAcks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		var lost []Ref
		cfg := orders()
		cfg.OnUnconfirmed = func(refs []Ref) { lost = refs }
		s, st := openStream(t, c, m, cfg)
		st.deliver(30, 0)
		ds := recvN(t, s, 30)
		for _, d := range ds[:10] {
			d.Ack()
		}
		st.recvAcks(10)
		st.answer(durable, 1000, 1009)
		synctest.Wait()
		n.drop.Store(true)
		for _, d := range ds[10:] {
			if !d.Ack() {
				t.Error("the client cannot know yet")
			}
		}
		<-time.After(5 * time.Second)
		if got := len(s.Unconfirmed()); got != 20 {
			t.Errorf("%d unconfirmed before the break", got)
		}
		st.end(status.Error(codes.Unavailable, "cut"))
		n.drop.Store(false)
		m.stop()
		m = n.start("a")
		st = m.accept(t, at(10, 1))
		if len(lost) != 20 || lost[0].Offset != 10 || lost[19].Offset != 29 {
			t.Errorf("told unconfirmed: %v", lost)
		}
		if got := s.Stats(); got.Unconfirmed != 20 || got.Confirmed != 10 {
			t.Errorf("stats %+v", got)
		}
		if r := st.open.Resume; !st.open.Reconnect || len(r) != 1 || r[0].NextOffset != 10 {
			t.Errorf("reopened with %v", st.open)
		}
		st.nextID = 5000
		st.deliver(20, 10)
		for _, d := range recvN(t, s, 20) {
			d.Ack()
		}
		st.recvAcks(20)
		s.cutLife()
		<-s.Done()
		closeClient(t, c)
	})
}

// TestC62_OldIdsAreNotSent: an ack for a delivery of a stream that has ended goes
// nowhere, by whatever way it is made.
func TestC62_OldIdsAreNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.start("a"), n.start("b")
		c := n.client(nil, "a", "b")
		steer := func(f *fake) {
			f.recommend = func(*pb.RecommendRequest) (*pb.RecommendResponse, error) {
				return &pb.RecommendResponse{InstanceId: "a", InstanceUrl: target + "a"}, nil
			}
		}
		a.set(steer)
		b.set(steer)
		s, st := openStream(t, c, a, orders())
		st.deliver(10, 0)
		b0, err := s.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.stop()
		b.set(func(f *fake) { f.recommend = nil })
		st = b.accept(t, at(0, 1))
		st.nextID = 9000
		st.deliver(10, 0)
		d := b0.At(9)
		if d.Ack() || d.Nack(nil) || s.Ack(1009) != 0 || b0.Ack() != 0 || !d.Ended() {
			t.Error("an ack of the old stream counts")
		}
		if err := d.AckConfirmed(t.Context()); !errors.Is(err, ErrNotOutstanding) {
			t.Errorf("AckConfirmed of the old stream: %v", err)
		}
		if got := recvN(t, s, 10)[0]; got.Offset() != 0 || got.DeliveryID() != 9000 {
			t.Errorf("delivered again: %+v", got.Ref())
		}
		st.idle(time.Second)
		if s.Ack(9000, 9001, 1) != 2 {
			t.Error("acks by id of the new stream do not count")
		}
		st.recvAcks(2)
		s.cutLife()
		<-s.Done()
		closeClient(t, c)
	})
}

// TestC25_KeptAck: an ack kept for a delivery of before a restart of the instance
// goes nowhere; what the instance delivers afterwards stays pending.
func TestC25_KeptAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		s, st := openStream(t, c, m, orders())
		st.deliver(1, 0)
		kept := recvN(t, s, 1)[0].Clone()
		m.stop()
		m = n.start("a")
		st = m.accept(t, at(0, 1))
		st.nextID = 5000
		st.deliver(1, 1)
		recvN(t, s, 1)
		if kept.Ack() || s.Ack(kept.DeliveryID()) != 0 {
			t.Error("the kept ack counts")
		}
		st.idle(5 * time.Second)
		if got := s.Stats(); got.Acked != 0 || got.Pending != 0 {
			t.Errorf("stats %+v", got)
		}
		closeClientNow(t, c)
	})
}

// TestC03_ReceivingIsNotAcking: what a client received and did not handle is never
// acked, whether it waits in the client or was taken by the application.
func TestC03_ReceivingIsNotAcking(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(25, 0)
		recvN(t, s, 25)
		st.deliver(25, 25)
		synctest.Wait()
		s.cutLife()
		<-s.Done()
		for m := range st.in {
			if m.GetAck() != nil || m.GetNack() != nil {
				t.Errorf("the client sent %v", m)
			}
		}
	})
}

// TestBreakEndsTheWait: who waits for a confirmation learns that none will come.
func TestBreakEndsTheWait(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(2, 0)
		ds := recvN(t, s, 2)
		waits := make(chan error, 2)
		go func() { waits <- ds[0].AckConfirmed(t.Context()) }()
		st.recvAcks(1)
		ds[1].Ack()
		go func() { waits <- s.Confirm(t.Context()) }()
		synctest.Wait()
		st.end(status.Error(codes.Unavailable, "gone"))
		for range 2 {
			if err := <-waits; !errors.Is(err, ErrUnconfirmed) {
				t.Errorf("got %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Confirm(ctx); err != nil {
			t.Errorf("without a stream there is nothing to wait for: %v", err)
		}
	})
}

// TestC60_Reopens: the server restarts; the subscription is made again, elsewhere
// if the address is dead, with pauses, and the application sees no gap.
func TestC60_Reopens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.start("a"), n.start("b")
		c := n.client(nil, "a", "b")
		got := make(chan int64, 100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.Subscribe(ctx, orders(), func(_ context.Context, d *Delivery) error { got <- d.Offset(); return nil })
		}()
		st, here, there := acceptAny(t, a, b)
		for round := range 4 {
			go st.serve()
			st.deliver(1, int64(round))
			if o := <-got; o != int64(round) {
				t.Errorf("got offset %d, want %d", o, round)
			}
			here.stop()
			begun := time.Now()
			st = there.accept(t)
			if d := time.Since(begun); d > 15*time.Second || !st.open.Reconnect {
				t.Errorf("reopened after %v, reconnect %v", d, st.open.Reconnect)
			}
			here, there = there, n.start(here.name)
		}
		go st.serve()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Subscribe: %v", err)
		}
		closeClient(t, c)
	})
}

// acceptAny accepts a stream at either instance, and returns that and the other.
func acceptAny(t *testing.T, a, b *fake) (*fakeStream, *fake, *fake) {
	t.Helper()
	synctest.Wait()
	if len(a.streams) > 0 {
		return a.accept(t), a, b
	}
	return b.accept(t), b, a
}

// TestC61_Superseded: the older of two streams of one client ends with an error
// that says so, and does not come back.
func TestC61_Superseded(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_SUPERSEDED, Subscription: 1, Detail: "by another"})
		st.serve()
		_, err := s.Recv(t.Context())
		if !errors.Is(err, ErrSuperseded) {
			t.Errorf("got %v", err)
		}
		contains(t, err, "by another")
		<-time.After(time.Minute)
		if len(m.streams) != 0 {
			t.Error("it came back")
		}
	})
}

// TestSupersededInPart: only the subscription that was taken is dropped.
func TestSupersededInPart(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.Topics = append(c.Topics, "news") }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_SUPERSEDED, Subscription: 1})
		st.deliver(2, 0)
		st.deliverRun(&pb.Run{Subscription: 2, Topic: "news", Partition: "0", Epoch: 1}, 1, 7)
		if d := recvN(t, s, 1)[0]; d.Topic() != "news" || d.Offset() != 7 {
			t.Errorf("got %+v", d.Ref())
		}
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t)
		if o := st.open; len(o.Subscriptions) != 1 || o.Subscriptions[0].Topic != "news" || len(o.Resume) != 0 {
			t.Errorf("reopened with %v", o)
		}
	})
}

func TestEvicted(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_EVICTED, Detail: "stalled"})
		st.end(status.Error(codes.Aborted, "evicted"))
		_, err := s.Recv(t.Context())
		if !errors.Is(err, ErrEvicted) {
			t.Errorf("got %v", err)
		}
		contains(t, err, "stalled")
	})
}

// TestDraining: what is at hand is finished and acked, then the client goes to
// another instance and asks not to be sent back.
func TestDraining(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.start("a"), n.start("b")
		c := n.client(nil, "a")
		s, st := openStream(t, c, a, orders())
		st.deliver(2, 0)
		ds := recvN(t, s, 2)
		a.set(func(f *fake) {
			f.recommend = func(r *pb.RecommendRequest) (*pb.RecommendResponse, error) {
				if slices.Contains(r.FailedInstances, "a") {
					return &pb.RecommendResponse{InstanceId: "b", InstanceUrl: target + "b"}, nil
				}
				return &pb.RecommendResponse{InstanceId: "a"}, nil
			}
		})
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_DRAINING})
		acked := make(chan []uint64)
		go func() { acked <- st.serve() }()
		<-time.After(3 * time.Second)
		ds[0].Ack()
		ds[1].Ack()
		if got := <-acked; len(got) != 2 {
			t.Errorf("acked %v before leaving", got)
		}
		st = b.accept(t)
		if !st.open.Reconnect || s.Stats().Unconfirmed != 0 {
			t.Errorf("open %v, stats %+v", st.open, s.Stats())
		}
		s.cutLife()
		<-s.Done()
		closeClient(t, c)
	})
}

// TestDrainingIsBounded: what is not finished in time is left behind.
func TestDrainingIsBounded(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(2, 0)
		d := recvN(t, s, 2)[0]
		begun := time.Now()
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_DRAINING})
		st.serve()
		if d := time.Since(begun); d < DefaultDrain || d > DefaultDrain+time.Second {
			t.Errorf("left after %v", d)
		}
		m.accept(t)
		if d.Ack() {
			t.Error("an ack after that counts")
		}
	})
}

func TestReassigned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.start("a"), n.start("b")
		c := n.client(nil, "a")
		s, st := openStream(t, c, a, orders())
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_REASSIGNED, Subscription: 1, GoTo: &pb.RecommendResponse{InstanceId: "b", InstanceUrl: target + "b"}})
		go st.serve()
		b.accept(t)
		synctest.Wait()
		if s.Instance() != "b" {
			t.Errorf("at %q", s.Instance())
		}
		s.cutLife()
		<-s.Done()
		closeClient(t, c)
	})
}

// TestReset: what is queued of before the reset is not handled any more, and the
// next stream does not resume above it.
func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		var got []int64
		var notices []Notice
		release := make(chan struct{})
		cfg := orders()
		cfg.OnNotice = func(n Notice) { notices = append(notices, n) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.Subscribe(ctx, cfg, func(_ context.Context, d *Delivery) error {
				got = append(got, d.Offset())
				<-release
				return nil
			})
		}()
		st := m.accept(t, at(100, 1))
		st.deliver(5, 100)
		synctest.Wait()
		st.notice(&pb.Notice{Kind: pb.Notice_KIND_RESET, Subscription: 1, Positions: []*pb.Position{at(10, 2)}})
		st.deliverRun(&pb.Run{Subscription: 1, Topic: "orders", Partition: "0", Epoch: 2}, 2, 10)
		synctest.Wait()
		close(release)
		synctest.Wait()
		if !slices.Equal(got, []int64{100, 10, 11}) {
			t.Errorf("handled %v", got)
		}
		if len(notices) != 1 || notices[0].Kind != NoticeReset || notices[0].Topic != "orders" || notices[0].Positions[0].NextOffset != 10 {
			t.Errorf("notices %+v", notices)
		}
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t)
		if r := st.open.Resume; len(r) != 1 || r[0].NextOffset != 10 || r[0].Epoch != 2 {
			t.Errorf("resumes with %v", r)
		}
		go st.serve()
		cancel()
		<-ended
		closeClient(t, c)
	})
}

// TestResumeKnowsDurableAcks: positions come once a second at most; acks confirmed
// since are told by the client itself, nacks are not.
func TestResumeKnowsDurableAcks(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(10, 0)
		ds := recvN(t, s, 10)
		for _, i := range []int{0, 1, 2, 5, 7} {
			ds[i].Ack()
		}
		ds[3].Nack(nil)
		for acked := 0; acked < 5; { // beside the nack
			if a := st.recv().GetAck(); a != nil {
				acked += len(idsOf(a))
			}
		}
		st.answer(durable, 1000, 1009)
		synctest.Wait()
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.next(t)
		want := &pb.Position{NextOffset: 3, FinishedAhead: []*pb.OffsetRange{{First: 5, Last: 5}, {First: 7, Last: 7}}}
		if r := st.open.Resume[0]; r.NextOffset != 3 || fmt.Sprint(r.FinishedAhead) != fmt.Sprint(want.FinishedAhead) {
			t.Errorf("resumes with %v, want %v", r, want)
		}
	})
}

// TestPermanentErrors end a stream, at Open and later; others do not.
func TestPermanentErrors(t *testing.T) {
	for code, permanent := range map[codes.Code]bool{
		codes.InvalidArgument: true, codes.Unauthenticated: true, codes.PermissionDenied: true,
		codes.FailedPrecondition: true, codes.NotFound: true, codes.Unimplemented: true,
		codes.Unavailable: false, codes.Internal: false, codes.ResourceExhausted: false, codes.Aborted: false,
	} {
		t.Run(code.String(), func(t *testing.T) {
			streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
				st.end(status.Error(code, "reason"))
				if !permanent {
					m.accept(t)
					return
				}
				if _, err := s.Recv(t.Context()); status.Code(err) != code {
					t.Errorf("got %v", err)
				}
			})
			bubble(t, func(t *testing.T) {
				n := newNetwork(t)
				m := n.start("a")
				m.set(func(f *fake) { f.openError = status.Error(code, "reason") })
				c := n.client(nil, "a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := c.OpenStream(ctx, orders())
				if permanent != (status.Code(err) == code) || permanent == errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("open: %v", err)
				}
				closeClient(t, c)
			})
		})
	}
}

func TestSubscriptionRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		ended := make(chan error)
		go func() { _, err := c.OpenStream(t.Context(), orders()); ended <- err }()
		st := m.next(t)
		st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{Results: []*pb.SubscriptionResult{
			{Id: 1, Status: &spb.Status{Code: int32(codes.FailedPrecondition), Message: "mode differs"}},
		}}}})
		err := <-ended
		var refused *SubscriptionError
		if !errors.As(err, &refused) || refused.Topic != "orders" || status.Code(err) != codes.FailedPrecondition {
			t.Errorf("got %v", err)
		}
		closeClient(t, c)
	})
}

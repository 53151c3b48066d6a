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

const (
	durable = pb.AckResult_STATUS_DURABLE
	retry   = pb.AckResult_STATUS_RETRY
)

func orders() SubscribeConfig {
	return SubscribeConfig{Topics: []string{"orders"}, Mode: LoadBalance, Share: "s"}
}

func at(next int64, epoch uint64) *pb.Position {
	return &pb.Position{Topic: "orders", Subscriber: "share/s", Partition: "0", NextOffset: next, Epoch: epoch}
}

// streaming runs a test with one instance, one client, and a Stream open on it.
func streaming(t *testing.T, change func(*SubscribeConfig), f func(t *testing.T, s *Stream, m *fake, st *fakeStream)) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		cfg := orders()
		if change != nil {
			change(&cfg)
		}
		s, st := openStream(t, c, m, cfg)
		defer closeClient(t, c)
		defer func() { s.cutLife(); <-s.Done() }()
		f(t, s, m, st)
	})
}

func openStream(t *testing.T, c *Client, m *fake, cfg SubscribeConfig) (*Stream, *fakeStream) {
	t.Helper()
	var s *Stream
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		s, err = c.OpenStream(t.Context(), cfg)
	}()
	st := m.accept(t, at(0, 1))
	<-opened
	if err != nil {
		t.Fatal(err)
	}
	return s, st
}

// recvN takes n deliveries off the Stream.
func recvN(t *testing.T, s *Stream, n int) []*Delivery {
	t.Helper()
	var ds []*Delivery
	for len(ds) < n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		b, err := s.Recv(ctx)
		cancel()
		if err != nil {
			t.Fatalf("after %d of %d deliveries: %v", len(ds), n, err)
		}
		for _, d := range b.All() {
			ds = append(ds, d)
		}
	}
	return ds
}

func TestOpenSaysWhatIsWanted(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) {
		c.Ordered, c.MaxInFlight, c.MaxInFlightBytes, c.AckTimeout = true, 5000, 1<<20, 7*time.Second
		c.Start, c.Labels = Earliest(), map[string]string{"app": "x"}
		c.Subscriptions = []Subscription{{Topic: "news", Mode: Multicast, Filter: "type = 'a'", MaxInFlight: 3, Start: AtOffset(9)}}
	}, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		o := st.open
		if o.ClientId != "c1" || o.GetMaxInFlight() != 5000 || o.GetMaxInFlightBytes() != 1<<20 ||
			o.AckTimeout.AsDuration() != 7*time.Second || o.Reconnect || o.MaxMessageBytes != 4<<20 || o.Labels["app"] != "x" {
			t.Errorf("Open is %v", o)
		}
		a, b := o.Subscriptions[0], o.Subscriptions[1]
		if a.Id != 1 || a.Topic != "orders" || a.Share != "s" || !a.Ordered || a.Start.GetAt() != pb.Start_AT_EARLIEST {
			t.Errorf("the first subscription is %v", a)
		}
		if b.Id != 2 || b.Filter != "type = 'a'" || b.GetMaxInFlight() != 3 || b.Start.GetOffset() != 9 {
			t.Errorf("the second subscription is %v", b)
		}
	})
}

func TestDeliveryIsReadLazily(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 40)
		d := recvN(t, s, 3)[1]
		if d.Topic() != "orders" || d.Partition() != "0" || d.Offset() != 41 || d.Attempt() != 1 || d.DeliveryID() != 1001 {
			t.Errorf("delivery %+v", d.Ref())
		}
		if v, ok := d.Attr("id"); !ok || v != "41" || string(d.Data()) != "data" {
			t.Errorf("id %q %v, data %q", v, ok, d.Data())
		}
		if _, ok := d.Attr("none"); ok {
			t.Error("an attribute that is not there was found")
		}
		if m := d.Map(); len(m) != 2 || m["type"] != "t" {
			t.Errorf("attributes %v", m)
		}
		c := d.Clone()
		if v, ok := c.AttrBytes("type"); !ok || string(v) != "t" || string(c.Data()) != "data" {
			t.Error("a clone has lost something")
		}
		if !c.Ack() || d.Ack() {
			t.Error("a clone is acked in place of the delivery, once")
		}
	})
}

// TestAcksInRanges: an ack after a pause goes at once; those that follow within the
// interval go together, as one range.
func TestAcksInRanges(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(40, 0)
		ds := recvN(t, s, 40)
		time.Sleep(time.Second)
		begun := time.Now()
		ds[0].Ack()
		if got := st.recvAck(); !slices.Equal(got, []uint64{1000}) || time.Since(begun) != 0 {
			t.Errorf("first ack %v after %v", got, time.Since(begun))
		}
		for _, d := range ds[1:31] {
			d.Ack()
		}
		m1 := st.recv()
		if r := m1.GetAck().GetRanges(); len(r) != 1 || r[0].First != 1001 || r[0].Last != 1030 {
			t.Errorf("got %v, want one range", m1)
		}
		if d := time.Since(begun); d != DefaultAckInterval {
			t.Errorf("sent after %v, want %v", d, DefaultAckInterval)
		}
	})
}

// TestAnyOrderOfIds: the server numbers deliveries before it queues them, so that
// they may arrive in another order.
func TestAnyOrderOfIds(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		for _, first := range []uint64{2020, 2000, 2010} {
			st.nextID = first
			st.deliver(10, int64(first))
		}
		for _, d := range recvN(t, s, 30) {
			if d.Offset() != int64(d.DeliveryID()) || !d.Ack() {
				t.Errorf("delivery %+v", d.Ref())
			}
		}
		st.recvAcks(30)
		st.answer(durable, 2005, 2024)
		synctest.Wait()
		if got := s.Stats(); got.Confirmed != 20 || got.Pending != 10 {
			t.Errorf("stats %+v", got)
		}
		st.nextID = 2027
		st.deliver(1, 0)
		m.accept(t) // an id that is outstanding already breaks the stream
	})
}

// TestAcksAtSixtyFour: so many go without waiting for the interval.
func TestAcksAtSixtyFour(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.AckInterval, c.MaxExtension = time.Hour, -1 }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(200, 0)
		ds := recvN(t, s, 200)
		ds[0].Ack()
		st.recvAck()
		begun := time.Now()
		for _, d := range ds[1:64] {
			d.Ack()
		}
		st.idle(time.Minute)
		ds[64].Ack()
		if got := st.recvAck(); len(got) != 64 || time.Since(begun) != time.Minute {
			t.Errorf("%d acks after %v", len(got), time.Since(begun))
		}
	})
}

func TestBatchAck(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(100, 0)
		b, err := s.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.At(7).Nack(nil)
		if n := b.Ack(); n != 99 {
			t.Errorf("%d acked, want 99", n)
		}
		if b.At(0).Ack() || b.Ack() != 0 {
			t.Error("acked twice")
		}
		b.Release()
		acked := 0
		for acked < 99 {
			if m := st.recv(); m.GetAck() != nil {
				acked += len(idsOf(m.GetAck()))
			} else if got := idsOf(m.GetNack()); !slices.Equal(got, []uint64{1007}) {
				t.Errorf("nacked %v", got)
			}
		}
	})
}

func TestConfirm(t *testing.T) {
	var told []string
	streaming(t, func(c *SubscribeConfig) {
		c.OnConfirm = func(r Ref, err error) { told = append(told, fmt.Sprint(r.Offset, err)) }
	}, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(4, 0)
		ds := recvN(t, s, 4)
		for _, d := range ds[:3] {
			d.Ack()
		}
		if n := len(s.Unconfirmed()); n != 3 {
			t.Errorf("%d unconfirmed, want 3", n)
		}
		st.recvAcks(3)
		st.answer(durable, 1000, 1000)
		st.answer(pb.AckResult_STATUS_STALE, 1001, 1001)
		st.answer(durable, 1002, 1099)
		if err := s.Confirm(t.Context()); err != nil && !errors.Is(err, ErrStale) {
			t.Errorf("Confirm: %v", err)
		}
		synctest.Wait()
		if len(s.Unconfirmed()) != 0 || !slices.Equal(told, []string{"0 <nil>", "1 " + ErrStale.Error(), "2 <nil>"}) {
			t.Errorf("unconfirmed %v, told %q", s.Unconfirmed(), told)
		}
		if got := s.Stats(); got.Acked != 3 || got.Confirmed != 2 || got.Refused != 1 || got.Received != 4 {
			t.Errorf("stats %+v", got)
		}
		ack := make(chan error)
		go func() { ack <- ds[3].AckConfirmed(t.Context()) }()
		st.recvAcks(1)
		st.answer(durable, 1003, 1003)
		if err := <-ack; err != nil {
			t.Errorf("AckConfirmed: %v", err)
		}
		if err := ds[3].AckConfirmed(t.Context()); !errors.Is(err, ErrNotOutstanding) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestRetryIsSentAgain: acks answered RETRY are repeated with growing pauses until
// the store is well.
func TestRetryIsSentAgain(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 0)
		ds := recvN(t, s, 3)
		ds[0].Ack()
		ds[1].Ack()
		ds[2].Nack(RetryAfter(5*time.Second, errors.New("why")))
		var acked, nacked int
		begun := time.Now()
		for acked < 10 {
			m := st.recv()
			if a := m.GetAck(); a != nil {
				acked += len(idsOf(a))
				for _, id := range idsOf(a) {
					st.answer(retry, id, id)
				}
				continue
			}
			if n := m.GetNack(); n.GetReason() != "why" || n.Delay.AsDuration() != 5*time.Second {
				t.Errorf("nack %v", n)
			}
			nacked++
			st.answer(retry, 1002, 1002)
		}
		if d := time.Since(begun); d < 300*time.Millisecond || d > 5*time.Second {
			t.Errorf("ten acks within %v: want growing pauses", d)
		}
		if nacked < 2 {
			t.Errorf("the nack was sent %d times", nacked)
		}
		go st.serve()
		time.Sleep(10 * time.Second)
		if len(s.Unconfirmed()) != 0 || s.Stats().Confirmed != 2 {
			t.Errorf("unconfirmed %v, stats %+v", s.Unconfirmed(), s.Stats())
		}
	})
}

// TestDeadlinesAreMoved: for all that is held, queued or taken, until the longest
// time; not for what was acked.
func TestDeadlinesAreMoved(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.MaxExtension = 2 * time.Minute }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		begun := time.Now()
		st.deliver(5, 0)
		ds := recvN(t, s, 5)
		st.deliver(5, 5) // stays in the queue
		ds[1].Ack()
		st.recvAcks(1)
		last := time.Duration(0)
		for extends := 0; ; extends++ {
			select {
			case m := <-st.in:
				at := time.Since(begun)
				if at-last > 12*time.Second {
					t.Errorf("not moved between %v and %v, of a timeout of 30 s", last, at)
				}
				last = at
				if got := idsOf(m.GetExtend()); len(got) != 9 || slices.Contains(got, 1001) {
					t.Errorf("moved %v", got)
				}
				continue
			case <-time.After(time.Minute):
			}
			if extends < 10 || last < 110*time.Second || last > 2*time.Minute {
				t.Errorf("moved %d times, last after %v", extends, last)
			}
			return
		}
	})
}

func TestNoExtension(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.MaxExtension = -1 }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(5, 0)
		st.idle(5 * time.Minute)
	})
}

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
		time.Sleep(5 * time.Second)
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
		time.Sleep(time.Minute)
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
		if subs := st.open.Subscriptions; len(subs) != 1 || subs[0].Topic != "news" {
			t.Errorf("reopened with %v", subs)
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
		time.Sleep(3 * time.Second)
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
		st.recvAcks(0)
		synctest.Wait()
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

// TestRecommendedAddressIsWrong: an instance advertises an address that does not
// work from here; the one that was asked is used itself.
func TestRecommendedAddressIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(f *fake) {
			f.recommend = func(*pb.RecommendRequest) (*pb.RecommendResponse, error) {
				return &pb.RecommendResponse{InstanceId: "a", InstanceUrl: target + "10.0.0.1:7460"}, nil
			}
		})
		c := n.client(nil, "a")
		openStream(t, c, m, orders())
		closeClientNow(t, c)
	})
}

func closeClientNow(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestOpenTimeout: an instance that takes a stream and says nothing is left.
func TestOpenTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		opened := make(chan error)
		go func() { _, err := c.OpenStream(t.Context(), orders()); opened <- err }()
		m.next(t)
		begun := time.Now()
		m.accept(t)
		if d := time.Since(begun); d < DefaultOpenTimeout || d > DefaultOpenTimeout+time.Second {
			t.Errorf("left after %v", d)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
		closeClientNow(t, c)
	})
}

func TestChange(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		answer := func(results ...*pb.SubscriptionResult) *pb.Change {
			ch := st.recv().GetChange()
			st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Changed{Changed: &pb.Changed{ChangeId: ch.GetChangeId(), Results: results}}})
			return ch
		}
		ended := make(chan error)
		var id uint32
		go func() {
			var err error
			id, err = s.Add(t.Context(), Subscription{Topic: "news", Mode: Broadcast})
			ended <- err
		}()
		if ch := answer(); len(ch.Add) != 1 || ch.Add[0].Topic != "news" || ch.Add[0].Id != 2 {
			t.Errorf("add %v", ch)
		}
		if err := <-ended; err != nil || id != 2 {
			t.Fatal(id, err)
		}
		go func() {
			_, err := s.Add(t.Context(), Subscription{Topic: "none", Mode: Broadcast})
			ended <- err
		}()
		answer(&pb.SubscriptionResult{Id: 3, Status: &spb.Status{Code: int32(codes.NotFound)}})
		if err := <-ended; status.Code(err) != codes.NotFound || len(s.Subscriptions()) != 2 {
			t.Errorf("refused: %v, subscriptions %v", err, s.Subscriptions())
		}
		go func() { ended <- s.Pause(t.Context(), 1) }()
		if ch := answer(); !slices.Equal(ch.Pause, []uint32{1}) {
			t.Errorf("pause %v", ch)
		}
		<-ended
		go func() { ended <- s.Remove(t.Context(), 2) }()
		if ch := answer(); !slices.Equal(ch.Remove, []uint32{2}) {
			t.Errorf("remove %v", ch)
		}
		<-ended
		go func() { ended <- s.SetWindow(t.Context(), 77, 0) }()
		if ch := answer(); ch.Window.GetMaxInFlight() != 77 {
			t.Errorf("window %v", ch)
		}
		<-ended
		if err := s.Resume(t.Context(), 2); err == nil {
			t.Error("a removed subscription was resumed")
		}
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t)
		if o := st.open; len(o.Subscriptions) != 1 || o.GetMaxInFlight() != 77 {
			t.Errorf("reopened with %v", o)
		}
		if ch := st.recv().GetChange(); !slices.Equal(ch.GetPause(), []uint32{1}) {
			t.Errorf("what was paused is paused anew, got %v", ch)
		}
	})
}

// TestAddWhileReconnecting: the answer to an Add that broke off is that of the next
// stream.
func TestAddWhileReconnecting(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		ended := make(chan error)
		go func() {
			_, err := s.Add(t.Context(), Subscription{Topic: "none", Mode: Broadcast})
			ended <- err
		}()
		st.recv()
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.next(t)
		st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{Results: []*pb.SubscriptionResult{
			{Id: 2, Status: &spb.Status{Code: int32(codes.NotFound), Message: "no such topic"}},
		}}}})
		if err := <-ended; status.Code(err) != codes.NotFound {
			t.Errorf("got %v", err)
		}
		st.deliver(1, 0)
		recvN(t, s, 1)
	})
}

// TestStreamCloses: what was taken can be acked until the end, what was not is
// given back.
func TestStreamCloses(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 0)
		ds := recvN(t, s, 3)
		st.deliver(4, 3)
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- s.Close(t.Context()) }()
		if ch := st.recv().GetChange(); !slices.Equal(ch.GetPause(), []uint32{1}) {
			t.Errorf("first the client asks for nothing new, got %v", ch)
		}
		time.Sleep(time.Second)
		for _, d := range ds {
			d.Ack()
		}
		if got := st.serve(); len(got) != 3 {
			t.Errorf("acked %v", got)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := s.Recv(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Recv after Close: %v", err)
		}
		if got := s.Stats(); got.Dropped != 4 || got.Confirmed != 3 {
			t.Errorf("stats %+v", got)
		}
	})
}

func TestStreamCloseIsBounded(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 0)
		recvN(t, s, 3)[0].Ack()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begun := time.Now()
		err := s.Close(ctx)
		var left *CloseError
		if !errors.As(err, &left) || left.Unconfirmed != 1 || left.Unfinished != 2 {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(begun); d > 13*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestRecvEndsWithContext(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestC66_NothingIsLeftBehind: opening and ending streams in every way leaves no
// goroutine; goleak looks at the end of each bubble, which waits for all.
func TestC66_NothingIsLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		for i := range 100 {
			s, st := openStream(t, c, m, orders())
			st.deliver(1, 0)
			b, err := s.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch i % 4 {
			case 0:
				b.Ack()
				go st.serve()
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 1:
				s.cutLife()
			case 2:
				st.end(status.Error(codes.NotFound, "no such topic"))
			case 3:
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = s.Close(ctx)
			}
			<-s.Done()
		}
		closeClient(t, c)
	})
}

func TestBadSubscriptions(t *testing.T) {
	n := newNetwork(t)
	c := n.client(nil, "nobody")
	defer closeClient(t, c)
	for name, change := range map[string]func(*SubscribeConfig){
		"no topic":         func(c *SubscribeConfig) { c.Topics = nil },
		"topic":            func(c *SubscribeConfig) { c.Topics = []string{"a\n"} },
		"Mode":             func(c *SubscribeConfig) { c.Mode = 0 },
		"Share goes":       func(c *SubscribeConfig) { c.Mode = Broadcast },
		"Filter goes":      func(c *SubscribeConfig) { c.Filter = "x" },
		"needs a Filter":   func(c *SubscribeConfig) { c.Mode, c.Share = Multicast, "" },
		"MaxInFlight ":     func(c *SubscribeConfig) { c.MaxInFlight = 100_001 },
		"MaxInFlightBytes": func(c *SubscribeConfig) { c.MaxInFlightBytes = -1 },
		"Concurrency":      func(c *SubscribeConfig) { c.Concurrency = -1 },
		"AckTimeout":       func(c *SubscribeConfig) { c.AckTimeout = -1 },
		"share":            func(c *SubscribeConfig) { c.Share = "\x01" },
		"AckBatch":         func(c *SubscribeConfig) { c.AckBatch = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := orders()
			change(&cfg)
			_, err := c.OpenStream(t.Context(), cfg)
			contains(t, err, name)
		})
	}
	if err := c.Subscribe(t.Context(), orders(), nil); err == nil {
		t.Error("subscribed without a handler")
	}
}

package ackmesh

import (
	"context"
	"errors"
	"slices"
	"strings"
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
		c.Retry = RetryPolicy{MaxAttempts: 3, Backoff: []time.Duration{time.Second, 5 * time.Second}}
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
		if r := a.Retry; r.GetMaxAttempts() != 3 || len(r.GetBackoff()) != 2 || r.Backoff[1].AsDuration() != 5*time.Second || b.Retry != nil {
			t.Errorf("the retries are %v and %v", r, b.Retry)
		}
	})
}

func TestRetryPolicyIsChecked(t *testing.T) {
	for want, r := range map[string]RetryPolicy{
		"":                               {MaxAttempts: 100, Backoff: []time.Duration{0, 12 * time.Hour}},
		"MaxAttempts -1: give 1 to 100":  {MaxAttempts: -1},
		"MaxAttempts 101: give 1 to 100": {MaxAttempts: 101},
		"has 17 waits: give at most 16":  {Backoff: make([]time.Duration, 17)},
		"Backoff -1ns: give 0 to 12h":    {Backoff: []time.Duration{-1}},
		"Backoff 13h0m0s: give 0 to 12h": {Backoff: []time.Duration{13 * time.Hour}},
	} {
		sub := Subscription{Topic: "orders", Mode: Broadcast, Retry: r}
		switch err := sub.validate(); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
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
		st.deliverRun(&pb.Run{Subscription: 2, Topic: "news", Partition: "0"}, 3, 0)
		st.deliver(1, 0)
		synctest.Wait()
		go func() { ended <- s.Remove(t.Context(), 2) }()
		if ch := answer(); !slices.Equal(ch.Remove, []uint32{2}) {
			t.Errorf("remove %v", ch)
		}
		<-ended
		if got := recvN(t, s, 1)[0]; got.Topic() != "orders" {
			t.Errorf("received %+v of a subscription that was removed", got.Ref())
		}
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
		<-time.After(time.Second)
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
		if _, err := s.Recv(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Recv after a Close that left something: %v", err)
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

package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// letters lists the dead letters of a topic.
func letters(t *testing.T, in *Instance, topic string) []*pb.DeadLetter {
	t.Helper()
	res, err := in.Admin().ListDeadLetters(context.Background(), &pb.ListDeadLettersRequest{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetDeadLetters()
}

// untilLetters waits until a topic has n dead letters.
func untilLetters(t *testing.T, in *Instance, topic string, n int) []*pb.DeadLetter {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		list := letters(t, in, topic)
		if len(list) >= n {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d dead letters, want %d", len(list), n)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestC44_BackoffOfNacks: a record nacked at once is sent after 1, 2, 4, 8 and 16 s,
// each within a fifth, then is one dead letter, which replayed reaches only the
// subscriber that failed, once, with attempt 1.
func TestC44_BackoffOfNacks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		other := Open(t, in.Mesh(), open("other", Sub("t", broadcast)))
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "poison")
		other.AckDurable(other.Take(1)...)
		last := time.Now()
		for i, wait := range []float64{0, 1, 2, 4, 8, 16} {
			got := s.Take(1)
			wantAttempts(t, got, int32(i+1))
			gap := time.Since(last).Seconds()
			if gap < wait*0.8-0.01 || gap > wait*1.2+0.6 {
				t.Errorf("attempt %d came after %.2f s, want %v ± 20 %%", i+1, gap, wait)
			}
			last = time.Now()
			s.Nack(got...)
			if st := s.Outcome(got[0]); st != durable {
				t.Fatalf("nack %d: %v", i+1, st)
			}
		}
		list := untilLetters(t, in, "t", 1)
		let := list[0]
		if len(list) != 1 || let.GetAttempts() != 6 || let.GetSubscriber() != "client/c" || let.GetOffset() != 0 || !strings.HasPrefix(let.GetReason(), "NACKED") {
			t.Fatalf("dead letters: %v", list)
		}
		if a := let.GetFrame().GetAttributes(); a["emdlqid"] != let.GetId() || a["emdlqtopic"] != "t" || a["emdlqattempts"] != "6" {
			t.Fatalf("the letter's event: %v", a)
		}
		s.Quiet(time.Hour)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 1 {
			t.Fatalf("the floor did not pass the dead letter: %v", p)
		}
		replayed, err := in.Admin().ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"})
		if err != nil || replayed.GetReplayed() != 1 {
			t.Fatalf("replay: %v %v", replayed, err)
		}
		again := s.Take(1)
		wantAttempts(t, again, 1)
		if again[0].Data() != "poison" || len(again[0].Frame.GetAttributes()) != 3 {
			t.Fatalf("replayed as %s with %v", Show(again), again[0].Frame.GetAttributes())
		}
		s.AckDurable(again...)
		other.Quiet(time.Hour)
		if list := letters(t, in, "t"); len(list) != 0 {
			t.Fatalf("dead letters after the replay: %v", list)
		}
	})
}

// TestC43_SixSends: exactly six deliveries whether nacked or never answered, then
// one dead letter.
func TestC43_SixSends(t *testing.T) {
	for _, mode := range []string{"nack", "silent", "mixed"} {
		t.Run(mode, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				in := Start(t, Options{})
				o := open("c", Sub("t", broadcast))
				o.AckTimeout = durationpb.New(2 * time.Second)
				s := Open(t, in.Mesh(), o)
				Publish(t, in.Mesh(), "t", "m")
				for i := range 6 {
					got := s.Take(1)
					wantAttempts(t, got, int32(i+1))
					if mode == "nack" || mode == "mixed" && i%2 == 0 {
						s.Nack(got...)
					}
				}
				untilLetters(t, in, "t", 1)
				s.Quiet(time.Hour)
				if n := len(letters(t, in, "t")); n != 1 {
					t.Fatalf("%d dead letters", n)
				}
				if n := in.Server.Metrics().DeadLettered.Load(); n != 1 {
					t.Fatalf("%d dead letters counted", n)
				}
			})
		})
	}
}

// TestC40_WaitingHoldsNoSlot: what waits for a retry does not hold up the rest.
func TestC40_WaitingHoldsNoSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		two := int32(2)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = &two
		s := Open(t, in.Mesh(), o)
		Publish(t, in.Mesh(), "t", Numbers(6)...)
		s.Nack(s.Take(2)...)
		begin := time.Now()
		got := s.Take(2)
		wantOffsets(t, got, []int64{2, 3})
		s.AckDurable(got...)
		got = s.Take(2)
		wantOffsets(t, got, []int64{4, 5})
		if since := time.Since(begin); since > 500*time.Millisecond {
			t.Fatalf("the rest waited %v", since)
		}
	})
}

// TestC41_VanishedClient: what a client held goes to another one at once, in
// order, one attempt more.
func TestC41_VanishedClient(t *testing.T) {
	for _, how := range []string{"clean", "broken"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				in := Start(t, Options{})
				sub := Sub("t", loadBalance)
				sub.Share = "s"
				o := open("c1", sub)
				o.AckTimeout = durationpb.New(time.Minute)
				c1 := Open(t, in.Mesh(), o)
				Publish(t, in.Mesh(), "t", Numbers(20)...)
				c1.Take(20)
				c2 := Open(t, in.Mesh(), open("c2", sub))
				begin := time.Now()
				if how == "clean" {
					if err := c1.CloseSend(); err != nil {
						t.Fatal(err)
					}
				} else {
					c1.Break()
				}
				got := c2.Take(20)
				if since := time.Since(begin); since > time.Second {
					t.Fatalf("c2 has them after %v", since)
				}
				wantOffsets(t, got, seq(0, 20))
				wantAttempts(t, got, 2)
			})
		})
	}
}

// TestC42_PoisonDoesNotBlock: one record that always fails, 300 others.
func TestC42_PoisonDoesNotBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share = "s"
		s := Open(t, in.Mesh(), open("c", sub))
		Publish(t, in.Mesh(), "t", append([]string{"poison"}, Numbers(300)...)...)
		begin := time.Now()
		good := 0
		for good < 300 {
			for _, g := range s.Take(1) {
				if g.Data() == "poison" {
					s.Nack(g)
					continue
				}
				good++
				s.Ack(g)
			}
		}
		if since := time.Since(begin); since > time.Second {
			t.Fatalf("the good ones took %v", since)
		}
		for len(letters(t, in, "t")) == 0 {
			for _, g := range s.Pending() {
				_ = g
				s.Nack(s.Take(1)...)
			}
			<-time.After(100 * time.Millisecond)
		}
		if since := time.Since(begin); since < 25*time.Second || since > 40*time.Second {
			t.Fatalf("the poison died after %v, want about 31 s", since)
		}
		if p := position(t, in, "t", "share/s"); p.GetPosition() != 301 {
			t.Fatalf("floor at %d", p.GetPosition())
		}
	})
}

// TestC46_PausedSpendsNothing: while a client is paused nothing is sent to it and
// nothing is spent.
func TestC46_PausedSpendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		zero, ten := int32(0), int32(10)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = &zero
		s := Open(t, in.Mesh(), o)
		Publish(t, in.Mesh(), "t", Numbers(5)...)
		s.Quiet(5 * time.Minute)
		s.Change(&pb.Change{Window: &pb.Window{MaxInFlight: &ten}})
		got := s.Take(5)
		wantAttempts(t, got, 1)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Fatalf("%d dead letters", n)
		}
	})
}

// TestC48_SecondTopic: taking on and dropping topics leaves the others alone.
func TestC48_SecondTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t1", broadcast)))
		add := func(id uint32, topic string) {
			res := s.Change(&pb.Change{ChangeId: uint64(id), Add: []*pb.Subscription{{Id: id, Topic: topic, Mode: broadcast}}})
			if st := res.GetResults()[0].GetStatus(); st.GetCode() != 0 {
				t.Fatal(st)
			}
		}
		add(2, "t2")
		add(3, "t3")
		for _, topic := range []string{"t1", "t2", "t3"} {
			Publish(t, in.Mesh(), topic, "x")
			if got := s.Take(1); got[0].Topic != topic {
				t.Fatalf("from %s: %s", topic, Show(got))
			}
		}
		s.Change(&pb.Change{Remove: []uint32{2}})
		for _, topic := range []string{"t2", "t1", "t3"} {
			Publish(t, in.Mesh(), topic, "y")
			if topic == "t2" {
				continue
			}
			if got := s.Take(1); got[0].Topic != topic {
				t.Fatalf("from %s: %s", topic, Show(got))
			}
		}
	})
}

// TestC51_Expiry: what has expired is finished, in flight or not yet sent, and
// leaves no hole.
func TestC51_Expiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		one := int32(1)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = &one
		s := Open(t, in.Mesh(), o)
		ttl := map[string]string{"emttl": "1000"}
		res, err := in.Mesh().Publish(context.Background(), &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{
			{Attributes: ttl, Data: []byte("m0")}, {Attributes: ttl, Data: []byte("m1")}, {Data: []byte("m2")},
		}})
		if err != nil || res.GetStatus().GetCode() != 0 {
			t.Fatal(res, err)
		}
		s.Take(1)
		<-time.After(2 * time.Second)
		s.Break()
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got := s.Take(1)
		if got[0].Data() != "m2" {
			t.Fatalf("came: %s", Show(got))
		}
		s.AckDurable(got...)
		if n := in.Server.Metrics().Expired.Load(); n != 2 {
			t.Errorf("%d expired, want 2", n)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 3 {
			t.Errorf("floor at %d", p.GetPosition())
		}
	})
}

// TestC38_KeyOrder: while a record of a key is unfinished no later one of the key
// is sent, whoever leaves; other keys go on.
func TestC38_KeyOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share, sub.Ordered = "s", true
		c1 := Open(t, in.Mesh(), open("c1", sub))
		for i := range 5 {
			for _, key := range []string{"k", "other"} {
				res, err := in.Mesh().Publish(context.Background(), &pb.PublishRequest{Topic: "t", PartitionKey: key, Events: []*pb.EventMeshFrame{{Data: fmt.Append(nil, key, i)}}})
				if err != nil || res.GetStatus().GetCode() != 0 {
					t.Fatal(res, err)
				}
			}
		}
		var order []string
		nacked, moved := false, false
		for len(order) < 9 {
			g := c1.Take(1)[0]
			if g.Data() == "k0" && !nacked {
				nacked = true
				c1.Nack(g)
				continue
			}
			order = append(order, g.Data())
			if len(order) == 8 && !moved { // another client takes over in the middle
				moved = true
				c1.Break()
				c1 = Open(t, in.Mesh(), open("c2", sub))
				order = order[:7]
				continue
			}
			c1.AckDurable(g)
		}
		var k, other []string
		for _, d := range order {
			if strings.HasPrefix(d, "k") {
				k = append(k, d)
			} else {
				other = append(other, d)
			}
		}
		if got := strings.Join(k, " "); got != "k0 k1 k2 k3" {
			t.Errorf("key k came as %s", got)
		}
		if got := strings.Join(other, " "); got != "other0 other1 other2 other3 other4" {
			t.Errorf("the other key came as %s", got)
		}
	})
}

// TestFilters: MULTICAST gets what its expression selects; a bad one says where.
func TestFilters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", pb.Mode_MODE_MULTICAST)
		sub.Filter = "region = 'eu' AND type LIKE 'order.%'"
		s := Open(t, in.Mesh(), open("c", sub))
		for i := range 12 {
			region := []string{"eu", "us", "asia"}[i%3]
			res, err := in.Mesh().Publish(context.Background(), &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{
				Attributes: map[string]string{"region": region, "type": "order.made"}, Data: []byte(region),
			}}})
			if err != nil || res.GetStatus().GetCode() != 0 {
				t.Fatal(res, err)
			}
		}
		got := s.Take(4)
		wantOffsets(t, got, []int64{0, 3, 6, 9})
		s.AckDurable(got...)
		s.Quiet(time.Minute)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 12 || in.Server.Metrics().Filtered.Load() != 8 {
			t.Errorf("floor at %d, %d filtered out", p.GetPosition(), in.Server.Metrics().Filtered.Load())
		}
		sub.Filter = "region ==== 'eu'"
		bad := TryOpen(t, in.Mesh(), open("bad", sub))
		st := bad.Opened.GetResults()[0].GetStatus()
		if codes.Code(st.GetCode()) != codes.InvalidArgument || !strings.Contains(st.GetMessage(), "column") {
			t.Errorf("a bad filter: %v", st)
		}
		sub.Filter = "region = 'us'"
		other := TryOpen(t, in.Mesh(), open("c", sub))
		if st := other.Opened.GetResults()[0].GetStatus(); codes.Code(st.GetCode()) != codes.FailedPrecondition || !strings.Contains(st.GetMessage(), "filter") {
			t.Errorf("another filter for a live subscriber: %v", st)
		}
	})
}

// TestTooLarge: a frame that the client cannot take is a dead letter, unsent.
func TestTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		o := open("c", Sub("t", broadcast))
		o.MaxMessageBytes = 1 << 20
		s := Open(t, in.Mesh(), o)
		Publish(t, in.Mesh(), "t", "a", strings.Repeat("x", 1<<20), "b")
		got := s.Take(2)
		if got[0].Data() != "a" || got[1].Data() != "b" {
			t.Fatal("what fits did not come")
		}
		s.AckDurable(got...)
		list := untilLetters(t, in, "t", 1)
		if !strings.HasPrefix(list[0].GetReason(), "TOO_LARGE") {
			t.Fatalf("reason %q", list[0].GetReason())
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 3 {
			t.Errorf("floor at %d", p.GetPosition())
		}
	})
}

// TestReset: up and down on a live share; old acks are STALE.
func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share = "s"
		s := Open(t, in.Mesh(), open("c", sub))
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		got := s.Take(20)
		s.AckDurable(got[:10]...)
		reset := func(to *pb.Start, dry bool) *pb.ResetPartition {
			res, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "share/s", To: to, DryRun: dry})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetPartitions()[0]
		}
		five := &pb.Start{Place: &pb.Start_Offset{Offset: 5}}
		if r := reset(five, true); r.GetFrom() != 10 || r.GetTo() != 5 || r.GetRecords() != 5 {
			t.Fatalf("dry run: %v", r)
		}
		s.Quiet(time.Second)
		epoch := reset(five, false).GetEpoch()
		s.Notice(pb.Notice_KIND_RESET)
		again := s.Take(15)
		wantOffsets(t, again, seq(5, 15))
		wantAttempts(t, again, 1)
		for _, g := range again {
			if g.Epoch != epoch {
				t.Fatalf("epoch %d, want %d", g.Epoch, epoch)
			}
		}
		s.Ack(got[15])
		if st := s.Outcome(got[15]); st != pb.AckResult_STATUS_STALE {
			t.Fatalf("ack of the old epoch: %v", st)
		}
		s.AckDurable(again[:3]...)
		if p := position(t, in, "t", "share/s"); p.GetPosition() != 8 {
			t.Fatalf("position %d", p.GetPosition())
		}
		if r := reset(&pb.Start{Place: &pb.Start_Offset{Offset: 1000}}, false); r.GetTo() != 20 || r.GetWarning() == "" {
			t.Fatalf("beyond the end: %v", r)
		}
		s.Quiet(time.Hour)
		Publish(t, in.Mesh(), "t", "new")
		wantOffsets(t, s.Take(1), seq(20, 1))
		if _, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "share/none", To: five}); status.Code(err) != codes.NotFound {
			t.Fatalf("reset of nobody: %v", err)
		}
	})
}

// TestC23_TopicMadeAnew: a live subscriber goes on at the start of the new topic.
func TestC23_TopicMadeAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(1000)...)
		got := s.Take(1000)
		s.AckDurable(got[:990]...)
		admin := in.Admin()
		if _, err := admin.DeleteTopic(context.Background(), &pb.DeleteTopicRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CreateTopic(context.Background(), &pb.CreateTopicRequest{Topic: "t", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		Publish(t, in.Mesh(), "t", "n0", "n1", "n2", "n3", "n4")
		fresh := s.Take(5)
		wantOffsets(t, fresh, seq(0, 5))
		s.AckDurable(fresh...)
		s.Quiet(time.Hour)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 5 || p.GetWaiting() != 0 || p.GetInFlight() != 0 {
			t.Fatalf("at the end: %v", p)
		}
	})
}

// TestPoisonFindsItself: the client dies on receiving one record, 200 neighbours
// in flight each time; the poison is sent at most six times and dies alone.
func TestPoisonFindsItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		Open(t, in.Mesh(), open("c", Sub("t", broadcast))).Break()
		data := Numbers(201)
		data[100] = "poison"
		Publish(t, in.Mesh(), "t", data...)
		sent, finished := 0, map[int64]bool{}
		for len(letters(t, in, "t")) == 0 {
			s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			died := false
			for !died {
				if !s.Await(time.Second, 1) {
					break
				}
				got := s.Take(len(s.Pending()))
				for _, g := range got {
					if g.Data() == "poison" {
						sent++
						died = true
					}
				}
				for _, g := range got {
					if died {
						break
					}
					s.AckDurable(g)
					finished[g.Offset] = true
				}
			}
			s.Break()
			if sent > 6 {
				t.Fatalf("the poison was sent %d times", sent)
			}
		}
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		for len(finished) < 200 {
			g := s.Take(1)[0]
			s.AckDurable(g)
			finished[g.Offset] = true
		}
		if list := letters(t, in, "t"); len(list) != 1 || list[0].GetOffset() != 100 {
			t.Fatalf("dead letters: %v", list)
		}
		if finished[100] {
			t.Fatal("the poison was finished")
		}
	})
}

// TestC45_BudgetLowered: what has spent more than a lowered budget dies at once.
func TestC45_BudgetLowered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "m")
		for range 2 {
			g := s.Take(1)
			s.Nack(g...)
			s.Outcome(g[0])
		}
		in.Stop()
		o.Config = func(c *server.Config) { c.Delivery.MaxAttempts = 1 }
		in = Start(t, o)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		untilLetters(t, in, "t", 1)
		s.Quiet(time.Hour)
	})
}

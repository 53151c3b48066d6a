package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
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
		var held []uint64
		for _, g := range s.Take(2) {
			held = append(held, g.ID)
		}
		s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: held, Delay: durationpb.New(16 * time.Second)}}})
		begin := time.Now()
		got := s.Take(2)
		wantOffsets(t, got, []int64{2, 3})
		s.AckDurable(got...)
		got = s.Take(2)
		wantOffsets(t, got, []int64{4, 5})
		if since := time.Since(begin); since > 500*time.Millisecond {
			t.Fatalf("the rest waited %v", since)
		}
		s.AckDurable(got...)
		got = s.Take(2)
		wantOffsets(t, got, []int64{0, 1})
		wantAttempts(t, got, 2)
		if since := time.Since(begin); since < 16*time.Second || since > 17*time.Second {
			t.Errorf("retried after %v, 16 s were asked for", since)
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

// TestC42_PoisonDoesNotBlock: one record that always fails, on whichever of the
// three streams of a share, 300 others.
func TestC42_PoisonDoesNotBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share = "s"
		var streams []*Stream
		for i := range 3 {
			streams = append(streams, Open(t, in.Mesh(), open(fmt.Sprint("c", i), sub)))
		}
		Publish(t, in.Mesh(), "t", append([]string{"poison"}, Numbers(300)...)...)
		begin := time.Now()
		good, poisoned, last := map[int64]bool{}, 0, time.Time{}
		for in.Server.Metrics().DeadLettered.Load() == 0 {
			for _, s := range streams {
				for range s.Pending() {
					g := s.Take(1)[0]
					if g.Data() == "poison" {
						poisoned++
						s.Nack(g)
						continue
					}
					good[g.Offset], last = true, time.Now()
					s.Ack(g)
				}
			}
			<-time.After(100 * time.Millisecond)
		}
		if since := last.Sub(begin); len(good) != 300 || since > time.Second {
			t.Fatalf("%d good ones took %v", len(good), since)
		}
		if poisoned != 6 {
			t.Errorf("the poison was sent %d times", poisoned)
		}
		if n := len(untilLetters(t, in, "t", 1)); n != 1 {
			t.Errorf("%d dead letters", n)
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

package servertest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// TestPop_CrashBeforeBrokerAck: a hundred times the process dies after clients
// were told DURABLE and before the broker was: nothing is delivered again on
// that data directory, and the broker is told once.
func TestPop_CrashBeforeBrokerAck(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		acked := 0
		for round := range 100 {
			s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
			Publish(t, p.in.Mesh(), "t", fmt.Sprintf("%d-a", round), fmt.Sprintf("%d-b", round), fmt.Sprintf("%d-c", round))
			got := s.Take(3)
			for _, g := range got {
				if g.Attempt != 1 || g.Data()[:len(g.Data())-2] != fmt.Sprint(round) {
					t.Fatalf("round %d: came %s", round, Show(got))
				}
			}
			release := p.br.HoldAcks()
			s.AckDurable(got...)
			acked += 3
			p.crash()
			release()
			if n := len(p.counts("c").Acks); n != acked-3 {
				t.Fatalf("round %d: the broker was told of %d messages", round, n)
			}
			p.start()
			<-time.After(time.Minute) // the receipts run out
			s = Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
			s.Quiet(time.Minute)
			p.untilAcked("c", acked)
			broken(s)
		}
		p.in.Stop()
		if n := p.entries(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// TestPop_LongAway: what was told DURABLE and not acked at the broker when the
// process died is not delivered when the subscriber comes back after a long
// weekend, and later than an id is kept for a subscriber that is here.
func TestPop_LongAway(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "a", "b")
		got := s.Take(2)
		release := p.br.HoldAcks()
		s.AckDurable(got[0])
		<-time.After(time.Second)
		p.crash()
		release()
		<-time.After(4 * 24 * time.Hour)
		p.start()
		<-time.After(24 * time.Hour)
		s = Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		again := s.Take(1)
		if again[0].Data() != got[1].Data() || again[0].Attempt != 2 {
			t.Fatalf("came: %s", Show(again))
		}
		s.AckDurable(again...)
		p.untilAcked("c", 2)
		s.Quiet(time.Hour)
	})
}

// TestPop_CrashBeforeAck: what was in flight in a crash comes again when its
// invisible time is over, with the next attempt; what was buffered comes as if
// for the first time.
func TestPop_CrashBeforeAck(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(3))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(5)...)
		got := s.Take(3)
		s.AckDurable(got[0])
		more := s.Take(1)
		<-time.After(time.Second)
		p.crash()
		begin := time.Now()
		p.start()
		o.MaxInFlight = nil
		s = Open(t, p.in.Mesh(), o)
		if !s.Await(time.Minute, 4) {
			t.Fatalf("%s came again", Show(s.Pending()))
		}
		attempts := map[string]int32{}
		for _, g := range s.Take(4) {
			attempts[g.Data()] = g.Attempt
			s.AckDurable(g)
		}
		if took := time.Since(begin); took > 45*time.Second {
			t.Errorf("it took %v", took)
		}
		if want := fmt.Sprint(map[string]int32{"m1": 2, "m2": 2, more[0].Data(): 2, "m4": 1}); fmt.Sprint(attempts) != want {
			t.Fatalf("attempts %v, want %v", attempts, want)
		}
		p.untilAcked("c", 5)
		s.Quiet(time.Hour)
	})
}

// TestPop_PoisonKillsServer: a record that kills the server each time it is
// delivered is sent six times in all, then it is a dead letter; its neighbours
// are finished.
func TestPop_PoisonKillsServer(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 2)
		o := open("c", Sub("t", broadcast))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", append(Numbers(100), "poison")...)
		sent, finished := 0, map[string]bool{}
		for range 60 {
			dead := false
			for len(finished) < 100 && s.Await(time.Minute, 1) {
				batch := slices.Clone(s.Pending())
				s.Take(len(batch))
				for _, g := range batch {
					if g.Data() == "poison" {
						sent, dead = sent+1, true
					}
				}
				if dead {
					break
				}
				s.AckDurable(batch...)
				for _, g := range batch {
					finished[g.Data()] = true
				}
			}
			if !dead && len(finished) == 100 {
				dead = s.Await(2*time.Minute, 1)
				if dead {
					sent++
				}
			}
			if !dead {
				break
			}
			<-time.After(time.Second)
			p.crash()
			p.start()
			s = Open(t, p.in.Mesh(), o)
		}
		if sent > 6 {
			t.Errorf("the poison was sent %d times", sent)
		}
		list := untilLetters(t, p.in, "t", 1)
		if len(list) != 1 || string(list[0].GetFrame().GetData()) != "poison" {
			t.Fatalf("dead letters: %v", list)
		}
		if len(finished) != 100 {
			t.Fatalf("%d neighbours are finished", len(finished))
		}
		p.untilAcked("c", 101)
	})
}

// TestPop_CleanEndCostsNothing: streams and servers that end in order cost a
// message no attempt of its budget, and what they held is visible at once.
func TestPop_CleanEndCostsNothing(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 2)
		o := open("c", Sub("t", broadcast))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(10)...)
		for i := range 20 {
			begin := time.Now()
			wantAttempts(t, s.Take(10), int32(i+1))
			if took := time.Since(begin); took > 2*time.Second {
				t.Fatalf("round %d: it took %v", i, took)
			}
			if i%2 == 0 {
				if err := s.CloseSend(); err != nil {
					t.Fatal(err)
				}
			} else {
				p.in.Stop()
				p.start()
			}
			s = Open(t, p.in.Mesh(), o)
		}
		s.AckDurable(s.Take(10)...)
		p.untilAcked("c", 10)
		if list := letters(t, p.in, "t"); len(list) != 0 {
			t.Fatalf("dead letters: %v", list)
		}
	})
}

// TestPop_TwoInstances: a share on two instances gets each message once; what a
// dead one held comes to the other. A second instance that joins does not move
// the group.
func TestPop_TwoInstances(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		sub := Sub("t", loadBalance)
		sub.Share, sub.Start = "s", Earliest()
		Publish(t, p.in.Mesh(), "t", Numbers(1000)...)
		oa := open("a", sub)
		oa.MaxInFlight = ptr(int32(100))
		a := Open(t, p.in.Mesh(), oa)
		finished := map[string]int{}
		ack := func(s *Stream, got []Got) {
			s.AckDurable(got...)
			for _, g := range got {
				finished[g.Data()]++
			}
		}
		ack(a, a.Take(100))
		held := a.Take(50)
		be := p.br.Open()
		defer be.Close()
		two := Start(t, Options{Backend: be})
		defer two.Stop()
		late := Sub("t", loadBalance)
		late.Share = "s" // the default start: it must not skip the backlog
		b := Open(t, two.Mesh(), open("b", late))
		for b.Await(time.Second, 1) {
			ack(b, b.Take(len(b.Pending())))
		}
		p.crash()
		if !b.Await(time.Minute, len(held)) {
			t.Fatalf("%d came to the other instance", len(b.Pending()))
		}
		for b.Await(time.Minute, 1) {
			ack(b, b.Take(len(b.Pending())))
		}
		if len(finished) != 1000 {
			t.Fatalf("%d messages are finished", len(finished))
		}
		for data, n := range finished {
			if n != 1 {
				t.Errorf("%s was finished %d times", data, n)
			}
		}
	})
}

// TestPop_Redelivered: a record that comes again from the broker while it is in
// flight joins its delivery, and one that was acked meanwhile is not delivered.
func TestPop_Redelivered(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.AckTimeout = durationpb.New(10 * time.Minute)
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", "a", "b")
		got := s.Take(2)
		p.br.FailRenewals(fakepop.ErrRefused)
		s.Quiet(2 * time.Minute) // both come again and again
		if n := sum(p.counts("c").Handed); n < 6 {
			t.Fatalf("handed out %d times", n)
		}
		s.AckDurable(got...)
		p.br.FailRenewals(nil)
		p.untilAcked("c", 2)
		s.Quiet(time.Hour)
	})
}

// TestPop_PausedIsReleased: what is buffered for a subscription that is paused
// goes to others.
func TestPop_PausedIsReleased(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		s.Change(&pb.Change{Pause: []uint32{1}})
		Publish(t, p.in.Mesh(), "t", "m")
		<-time.After(5 * time.Minute)
		if n := p.br.Outstanding("t", group("c")); n != 0 {
			t.Fatalf("%d records are kept for a paused subscription", n)
		}
		s.Change(&pb.Change{Resume: []uint32{1}})
		got := s.Take(1)
		wantAttempts(t, got, 1)
		s.AckDurable(got...)
		p.untilAcked("c", 1)
	})
}

// TestPop_TopicMadeAnew: after the topic was deleted and made again delivery
// begins at its minimum, and nothing of the old one is left.
func TestPop_TopicMadeAnew(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "old1", "old2")
		got := s.Take(2)
		s.AckDurable(got[0])
		if _, err := p.in.Admin().DeleteTopic(t.Context(), &pb.DeleteTopicRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		Publish(t, p.in.Mesh(), "t", "new")
		next := s.Take(1)
		if next[0].Data() != "new" || next[0].Attempt != 1 {
			t.Fatalf("came: %s", Show(next))
		}
		s.AckDurable(next...)
		s.Quiet(time.Minute)
		if n := p.entries(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// TestPop_SubscriberDeleted: nothing is left of it, neither here nor at the
// broker.
func TestPop_SubscriberDeleted(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "m")
		s.Nack(s.Take(1)...)
		<-time.After(100 * time.Millisecond)
		s.Break()
		<-time.After(time.Second)
		if n := p.entries(); n != 1 {
			t.Fatalf("%d entries before", n)
		}
		if _, err := p.in.Admin().DeleteSubscriber(t.Context(), &pb.DeleteSubscriberRequest{Topic: "t", Subscriber: "client/c"}); err != nil {
			t.Fatal(err)
		}
		if n := p.entries(); n != 0 || len(p.br.Groups("t")) != 0 {
			t.Fatalf("%d entries and the groups %v are left", n, p.br.Groups("t"))
		}
	})
}

// TestPop_Offsets: operators see the broker's offsets: they stand still until
// the client acks, then move.
func TestPop_Offsets(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(5)...)
		got := s.Take(5)
		if o := position(t, p.in, "t", "client/c"); o.GetPartition() != "broker-a:0" || o.GetPosition() != 0 || o.GetMaxOffset() != 5 || o.GetLag() != 5 || o.GetInFlight() != 5 {
			t.Fatalf("before any ack: %v", o)
		}
		s.AckDurable(got...)
		p.untilAcked("c", 5)
		if o := position(t, p.in, "t", "client/c"); o.GetPosition() != 5 || o.GetLag() != 0 || o.GetInFlight() != 0 {
			t.Fatalf("after all acks: %v", o)
		}
	})
}

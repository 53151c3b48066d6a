package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// TestC06_EachCopyHasItsAck: every broadcast subscriber has its own copy, and the
// broker's ack of it follows that subscriber's durable ack alone.
func TestC06_EachCopyHasItsAck(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 2)
		streams := map[string]*Stream{}
		got := map[string]Got{}
		for _, c := range []string{"a", "b", "c"} {
			streams[c] = Open(t, p.in.Mesh(), open(c, Sub("t", broadcast)))
		}
		Publish(t, p.in.Mesh(), "t", "m")
		for c, s := range streams {
			got[c] = s.Take(1)[0]
		}
		streams["a"].AckDurable(got["a"])
		streams["a"].Ack(got["a"])
		if st := streams["a"].Outcome(got["a"]); st != unknown {
			t.Fatalf("second ack of a: %v", st)
		}
		streams["b"].AckDurable(got["b"])
		p.untilAcked("a", 1)
		p.untilAcked("b", 1)
		if c := p.counts("c"); sum(c.AckCalls) != 0 {
			t.Fatalf("the broker was told of c's copy: %+v", c)
		}
		p.crash()
		<-time.After(time.Minute)
		p.start()
		for c := range streams {
			streams[c] = Open(t, p.in.Mesh(), open(c, Sub("t", broadcast)))
		}
		again := streams["c"].Take(1)[0]
		if again.Attempt != 2 {
			t.Fatalf("after the crash: %s", Show([]Got{again}))
		}
		streams["a"].Quiet(time.Minute)
		streams["b"].Quiet(time.Minute)
		streams["c"].AckDurable(again)
		for c := range streams {
			p.untilAcked(c, 1)
			if n := sum(p.counts(c).AckCalls); n != 1 {
				t.Errorf("%d acks were sent for the copy of %s", n, c)
			}
		}
	})
}

// TestC07_PopAckThatCannotBeStored: what is not durable here is not acked at the
// broker; the same delivery can be acked once the store has healed.
func TestC07_PopAckThatCannotBeStored(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "a")
		got := s.Take(1)[0]
		p.store.FailWrites(errors.New("disk on fire"))
		s.Ack(got)
		if st := s.Outcome(got); st != retry {
			t.Fatalf("ack while the store fails: %v", st)
		}
		s.Quiet(2 * time.Second)
		if c := p.counts("c"); sum(c.AckCalls) != 0 {
			t.Fatalf("the broker was told: %+v", c)
		}
		if p.br.Outstanding("t", group("c")) != 1 {
			t.Fatal("the record is not outstanding at the broker")
		}
		p.store.FailWrites(nil)
		s.AckDurable(got)
		p.untilAcked("c", 1)
		if n := sum(p.counts("c").AckCalls); n != 1 {
			t.Fatalf("%d acks at the broker", n)
		}
	})
}

// TestC28_SlowHandler: a handler that takes longer than the invisible time and
// the ack deadline holds its message alone; nothing comes twice from the broker.
func TestC28_SlowHandler(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(20)...)
		first := s.Take(20)
		<-time.After(45 * time.Second)
		second := s.Take(20)
		wantAttempts(t, second, 2) // after 30 s, all at once
		s.AckDurable(first...)     // late, and yet
		p.untilAcked("c", 20)
		s.Quiet(time.Hour)
		c := p.counts("c")
		for id, n := range c.Handed {
			if n != 1 {
				t.Errorf("the broker handed out %s %d times", id, n)
			}
		}
		if c.Renewed < 20 {
			t.Errorf("%d receipts renewed", c.Renewed)
		}
	})
}

// TestC28_SomeNotRenewed: a renewal that fails in passing for some of the receipts
// is tried again for these before they run out.
func TestC28_SomeNotRenewed(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.AckTimeout = durationpb.New(time.Hour)
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(20)...)
		got := s.Take(20)
		p.br.RefuseRenewals(7)
		s.Quiet(45 * time.Second)
		s.AckDurable(got...)
		p.untilAcked("c", 20)
		for id, n := range p.counts("c").Handed {
			if n != 1 {
				t.Errorf("the broker handed out %s %d times", id, n)
			}
		}
	})
}

// TestC28_Extended: 300 messages wait behind a slow handler that extends its
// deadline; each is delivered once and handed out once by the broker.
func TestC28_Extended(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(301))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(301)...)
		got := s.Take(301)
		for range 2 {
			s.Quiet(20 * time.Second)
			s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{
				Ranges: []*pb.DeliveryRange{{First: 1, Last: 1<<63 - 1}}, By: durationpb.New(30 * time.Second),
			}}})
		}
		s.Quiet(5 * time.Second)
		s.AckDurable(got...)
		p.untilAcked("c", 301)
		for id, n := range p.counts("c").Handed {
			if n != 1 {
				t.Errorf("the broker handed out %s %d times", id, n)
			}
		}
	})
}

// TestC28_NeverAcked: a handler that never answers ends in the dead letters after
// six attempts, and the broker is told once.
func TestC28_NeverAcked(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "m")
		for i := range int32(6) {
			if !s.Await(time.Minute, 1) {
				t.Fatalf("attempt %d does not come", i+1)
			}
			wantAttempts(t, s.Take(1), i+1)
		}
		list := untilLetters(t, p.in, "t", 1)
		if len(list) != 1 || list[0].GetAttempts() != 6 || string(list[0].GetFrame().GetData()) != "m" {
			t.Fatalf("dead letters: %v", list)
		}
		p.untilAcked("c", 1)
		s.Quiet(time.Hour)
		if n := sum(p.counts("c").Handed); n != 1 {
			t.Errorf("the broker handed it out %d times", n)
		}
	})
}

// TestC30_NewestReceipt: after renewals the newest receipt is what acks.
func TestC30_NewestReceipt(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.AckTimeout = durationpb.New(5 * time.Minute)
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", "m")
		got := s.Take(1)[0]
		s.Quiet(50 * time.Second)
		if n := p.counts("c").Renewed; n < 2 {
			t.Fatalf("renewed %d times in 50 s", n)
		}
		// The receipt in the frame is an old one by now; nothing depends on it.
		known, err := p.be.Ack(context.Background(), []any{got.Frame.GetAttributes()["empopck"], "no such key"})
		if err != nil || known[1] {
			t.Fatalf("acks of the frame's key and of an unknown one: %v, %v", known, err)
		}
		s.AckDurable(got)
		p.untilAcked("c", 1)
		s.Quiet(time.Hour)
		if c := p.counts("c"); sum(c.Handed) != 1 || c.Stale != 1 {
			t.Fatalf("handed out %d times, %d acks had no effect", sum(c.Handed), c.Stale)
		}
	})
}

// TestC31_RefusedAcks: an ack that the broker refuses is repeated; the client is
// told DURABLE meanwhile.
func TestC31_RefusedAcks(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "m")
		got := s.Take(1)[0]
		p.br.RefuseAcks(2)
		begin := time.Now()
		s.AckDurable(got)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("the client waited %v for its answer", took)
		}
		p.untilAcked("c", 1)
		if c := p.counts("c"); c.Refused != 2 || sum(c.AckCalls) != 3 {
			t.Fatalf("%d refused of %d tries", c.Refused, sum(c.AckCalls))
		}
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestC31_GivenUp: after the receipt's end the ack is given up; the record comes
// again, is acked then and not delivered.
func TestC31_GivenUp(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "m")
		got := s.Take(1)[0]
		p.br.FailAcks(storage.ErrUnavailable)
		s.AckDurable(got)
		s.Quiet(2 * time.Minute)
		p.br.FailAcks(nil)
		s.Quiet(2 * time.Minute)
		p.untilAcked("c", 1)
		c := p.counts("c")
		if sum(c.Handed) < 2 {
			t.Fatalf("the record did not come again: %+v", c)
		}
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestC32_ManyAcks: however often a client acks, the broker is told once.
func TestC32_ManyAcks(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		share := Sub("t", loadBalance)
		share.Share = "s"
		a := Open(t, p.in.Mesh(), open("a", share))
		b := Open(t, p.in.Mesh(), open("b", share))
		Publish(t, p.in.Mesh(), "t", Numbers(40)...)
		<-time.After(time.Second)
		all := slices.Concat(a.Pending(), b.Pending())
		if len(all) != 40 {
			t.Fatalf("%d deliveries", len(all))
		}
		for range 5 {
			a.Ack(all...)
			b.Ack(all...)
		}
		<-time.After(time.Minute)
		g := p.br.Groups("t")[0]
		c := p.br.Counts("t", g)
		if len(c.Acks) != 40 || sum(c.AckCalls) != 40 {
			t.Fatalf("%d messages acked with %d acks", len(c.Acks), sum(c.AckCalls))
		}
	})
}

// TestC49_IdleQueues: with eight idle queues a message in any of them arrives at
// once, also in queues that are added later.
func TestC49_IdleQueues(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 8)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		mesh := p.in.Mesh()
		seen := map[string]bool{}
		var worst time.Duration
		for i := range 100 {
			if i == 50 {
				if err := p.be.AddPartitions("t", 16); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Duration(i) * 300 * time.Millisecond)
			begin := time.Now()
			Publish(t, mesh, "t", slices.Repeat([]string{"m"}, 64)...) // fills one queue's run
			got := s.Take(64)
			worst = max(worst, time.Since(begin))
			seen[got[0].Partition] = true
			s.AckDurable(got...)
		}
		if worst > 2*time.Second {
			t.Errorf("the slowest took %v", worst)
		}
		if len(seen) != 16 {
			t.Errorf("messages of %d queues came", len(seen))
		}
	})
}

// TestC50_ProxyRestart: after the broker was away deliveries go on within 15 s,
// acks of what was in flight are repeated, and the instance goes on.
func TestC50_ProxyRestart(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 2 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			popBubble(t, func(t *testing.T) {
				p := popping(t, 4)
				o := open("c", Sub("t", broadcast))
				o.AckTimeout = durationpb.New(10 * time.Minute)
				s := Open(t, p.in.Mesh(), o)
				Publish(t, p.in.Mesh(), "t", Numbers(20)...)
				got := s.Take(20)
				p.br.Stop()
				s.AckDurable(got[:10]...)
				<-time.After(away)
				p.br.Start()
				begin := time.Now()
				Publish(t, p.in.Mesh(), "t", "next")
				next := s.Take(1)
				if took := time.Since(begin); took > 15*time.Second || next[0].Data() != "next" {
					t.Fatalf("after %v: %s", took, Show(next))
				}
				s.AckDurable(got[10:]...)
				s.AckDurable(next...)
				s.Quiet(10 * time.Minute)
				p.untilAcked("c", 21)
			})
		})
	}
}

// TestC51_PopExpired: expired messages, delivered before or not, are not
// delivered any more and acked at the broker once.
func TestC51_PopExpired(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(1))
		s := Open(t, p.in.Mesh(), o)
		req := &pb.PublishRequest{Topic: "t"}
		for i, ttl := range []string{"1000", "1000", ""} {
			f := &pb.EventMeshFrame{Data: fmt.Appendf(nil, "m%d", i), Attributes: map[string]string{}}
			if ttl != "" {
				f.Attributes["emttl"] = ttl
			}
			req.Events = append(req.Events, f)
		}
		if _, err := p.in.Mesh().Publish(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		s.Take(1)
		<-time.After(2 * time.Second)
		s.Break()
		s = Open(t, p.in.Mesh(), o)
		got := s.Take(1)
		if got[0].Data() != "m2" {
			t.Fatalf("came: %s", Show(got))
		}
		s.AckDurable(got...)
		p.untilAcked("c", 3)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestC52_NobodyWantsIt: what a filter leaves out is acked by the mesh, after one
// pop.
func TestC52_NobodyWantsIt(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 2)
		sub := Sub("t", pb.Mode_MODE_MULTICAST)
		sub.Filter = "type = 'none'"
		s := Open(t, p.in.Mesh(), open("c", sub))
		Publish(t, p.in.Mesh(), "t", Numbers(50)...)
		s.Quiet(time.Hour)
		p.untilAcked("c", 50)
		if c := p.counts("c"); sum(c.Handed) != 50 {
			t.Fatalf("handed out %d times", sum(c.Handed))
		}
	})
}

// TestC52_GarbageBody: a body that is no frame is delivered as raw bytes; one
// that a backend hands out as it is becomes a dead letter. Either is acked at
// the broker after one pop.
func TestC52_GarbageBody(t *testing.T) {
	garbage := []byte("\x00\x01 no frame")
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprint("raw ", raw), func(t *testing.T) {
			popBubble(t, func(t *testing.T) {
				p := popping(t, 1, fakepop.Options{Raw: raw})
				s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
				if _, err := storage.AppendWait(context.Background(), p.be, "t", []storage.Event{{Frame: garbage}}); err != nil {
					t.Fatal(err)
				}
				if raw {
					list := untilLetters(t, p.in, "t", 1)
					if !strings.HasPrefix(list[0].GetReason(), "DAMAGED") || string(list[0].GetFrame().GetData()) != string(garbage) {
						t.Fatalf("dead letters: %v", list)
					}
				} else {
					got := s.Take(1)
					if got[0].Data() != string(garbage) {
						t.Fatalf("came: %s", Show(got))
					}
					s.AckDurable(got...)
				}
				s.Quiet(time.Hour)
				p.untilAcked("c", 1)
				if n := sum(p.counts("c").Handed); n != 1 {
					t.Errorf("handed out %d times", n)
				}
			})
		})
	}
}

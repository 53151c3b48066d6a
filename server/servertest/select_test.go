package servertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

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
		if err := Open(t, in.Mesh(), open("c", Sub("t", broadcast))).CloseSend(); err != nil {
			t.Fatal(err)
		}
		data := Numbers(201)
		data[100] = "poison"
		Publish(t, in.Mesh(), "t", data...)
		sent, finished := 0, map[int64]bool{}
		for range 2 { // with all in flight: from then on all are suspects, which come alone
			s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			s.Take(len(data))
			sent++
			s.Break()
		}
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

package servertest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// resetTo resets client c on topic t.
func resetTo(t *testing.T, in *Instance, to *pb.Start) *pb.ResetPartition {
	t.Helper()
	res, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: to})
	if err != nil || len(res.GetPartitions()) != 1 {
		t.Fatal(res, err)
	}
	return res.GetPartitions()[0]
}

// TestResetOnATopicMadeAnew: a reset counts on the log as it is, also where the
// subscriber was away while the topic was deleted and made again.
func TestResetOnATopicMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		s.AckDurable(s.Take(10)...)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		broker, _ := storage.As[storage.TopicAdmin](o.Backend)
		if err := broker.DeleteTopic(context.Background(), "t"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		<-time.After(time.Minute)
		if p := resetTo(t, in, &pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_LATEST}}); p.GetTo() != 20 {
			t.Errorf("reset to %v", p)
		}
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "after the reset")
		if got := s.Take(1); got[0].Offset != 20 {
			t.Errorf("after a reset to 20 came %s", Show(got))
		}
		s.Quiet(time.Second)
	})
}

// TestResetAfterACut: a reset counts on the log as it is, also where that was cut
// and has grown again since the subscriber was there.
func TestResetAfterACut(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, all).Break()
		c.stopped(func() { c.regrow(60, 140) })
		resetTo(t, c.in, &pb.Start{Place: &pb.Start_Offset{Offset: 120}})
		s := c.open()
		c.wantFrom(s, 120, 60, 140)
		c.count(0)
	})
}

// TestCutAfterAReset: what a reset rests on is known: a log that is cut below it
// later, while the subscriber is away, is found out.
func TestCutAfterAReset(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(50, all).Break()
		Publish(t, c.in.Mesh(), "t", Numbers(100)[50:]...)
		resetTo(t, c.in, &pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_LATEST}})
		c.stopped(func() { c.regrow(60, 140) })
		s := c.open()
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestResetWithFewerPartitions: where a topic was made anew with fewer partitions, a
// reset of all moves those that there are.
func TestResetWithFewerPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Topics.Partitions = 4 }})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		for p := range 4 {
			into(t, in.Mesh(), "t", fmt.Sprint(p), "old")
		}
		s.AckDurable(s.Take(4)...)
		deleteTopic(t, in, "t")
		if _, err := in.Admin().CreateTopic(t.Context(), &pb.CreateTopicRequest{Topic: "t", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			Publish(t, in.Mesh(), "t", "new")
		}
		s.AckDurable(s.Take(2)...)
		res, err := in.Admin().ResetOffset(t.Context(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: &pb.Start{Place: &pb.Start_Offset{Offset: 1}}})
		if err != nil || len(res.GetPartitions()) != 1 {
			t.Fatalf("moved %v: %v", res.GetPartitions(), err)
		}
		again := s.Take(1)
		wantOffsets(t, again, []int64{1})
		s.AckDurable(again...)
		s.Quiet(time.Minute)
	})
}

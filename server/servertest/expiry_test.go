package servertest_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// nackFor gives a delivery back for so long.
func nackFor(t *testing.T, s *Stream, g Got, d time.Duration) {
	t.Helper()
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: []uint64{g.ID}, Delay: durationpb.New(d)}}})
	if st := s.Outcome(g); st != durable {
		t.Fatalf("nack: %v", st)
	}
}

// shortLived publishes a record that lives for two seconds, and one behind it, with
// the same key.
func shortLived(t *testing.T, in *Instance) {
	t.Helper()
	req := &pb.PublishRequest{Topic: "t", PartitionKey: "k", Events: []*pb.EventMeshFrame{
		{Data: []byte("short"), Attributes: map[string]string{"emttl": "2000"}}, {Data: []byte("next")},
	}}
	if _, err := in.Mesh().Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// wantExpired wants the record that lives for two seconds to be finished then, and
// the other one not to have waited longer.
func wantExpired(t *testing.T, in *Instance, s *Stream) {
	t.Helper()
	begin := time.Now()
	got := s.Take(1)
	if waited := time.Since(begin); got[0].Data() != "next" || waited > 3*time.Second {
		t.Fatalf("after %v came %s", waited, Show(got))
	}
	s.AckDurable(got...)
	Eventually(t, 5*time.Second, func() error {
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 2 {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
	if n := in.Server.Metrics().Expired.Load(); n != 1 {
		t.Errorf("%d records expired", n)
	}
}

// TestExpiryEndsAWait: a record that waits for its retry does not wait beyond its
// life, so that neither the position nor the next record of its key does.
func TestExpiryEndsAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", broadcast)
		sub.Ordered = true
		s := Open(t, in.Mesh(), open("c", sub))
		shortLived(t, in)
		nackFor(t, s, s.Take(1)[0], time.Hour)
		wantExpired(t, in, s)
	})
}

// TestPop_ExpiryEndsAWait: the same of a log that hands records out.
func TestPop_ExpiryEndsAWait(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		in := p.in
		sub := Sub("t", broadcast)
		sub.Ordered = true
		s := Open(t, in.Mesh(), open("c", sub))
		shortLived(t, in)
		nackFor(t, s, s.Take(1)[0], time.Hour)
		wantExpired(t, in, s)
		p.untilAcked("c", 2)
	})
}

package servertest_test

import (
	"slices"
	"testing"
	"testing/synctest"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestSpine is the way of one event: publish, deliver, ack, DURABLE.
func TestSpine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Log: true})
		mesh := in.Mesh()
		s := Open(t, mesh, &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{Sub("t", pb.Mode_MODE_BROADCAST)}})
		Publish(t, mesh, "t", Numbers(100)...)
		got := s.Take(100)
		for i, g := range got {
			if g.Data() != Numbers(100)[i] || g.Attempt != 1 || g.Offset != int64(i) {
				t.Fatalf("delivery %d is %s", i, Show(got[i:i+1]))
			}
		}
		s.AckDurable(got...)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if p := s.Positions["0"]; p.GetNextOffset() != 100 {
			t.Fatalf("position at the end: %v", p)
		}
		s = Open(t, mesh, &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{Sub("t", pb.Mode_MODE_BROADCAST)}})
		Publish(t, mesh, "t", "next")
		if next := s.Take(1); next[0].Data() != "next" || !slices.Equal(Offsets(next), []int64{100}) {
			t.Fatalf("after reopening: %s", Show(next))
		}
	})
}

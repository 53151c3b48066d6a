package ackmesh

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// FuzzTake: whatever a server sends, the client takes it or ends the stream with an
// error, and what it takes can be read and acked.
func FuzzTake(f *testing.F) {
	for _, m := range []*pb.SubscribeResponse{
		{Kind: &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{
			Outcomes:  []*pb.AckResult_Outcome{{Status: durable, DeliveryIds: []uint64{7}, Ranges: []*pb.DeliveryRange{{First: 9, Last: 3}, {First: 0, Last: 1 << 63}}}},
			Positions: []*pb.Position{at(5, 1), {FinishedAhead: []*pb.OffsetRange{{First: 9, Last: -9}, {First: -1 << 63, Last: 1<<63 - 1}}}},
		}}},
		{Kind: &pb.SubscribeResponse_Notice{Notice: &pb.Notice{Kind: pb.Notice_KIND_RESET, Subscription: 1, Positions: []*pb.Position{at(1, 9)}}}},
		{Kind: &pb.SubscribeResponse_Notice{Notice: &pb.Notice{Kind: pb.Notice_KIND_SUPERSEDED}}},
		{Kind: &pb.SubscribeResponse_Notice{Notice: &pb.Notice{Kind: pb.Notice_KIND_REASSIGNED, GoTo: &pb.RecommendResponse{InstanceUrl: "x"}}}},
		{Kind: &pb.SubscribeResponse_Changed{Changed: &pb.Changed{ChangeId: 1}}},
		{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{}}},
		{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: []*pb.Run{
			{Subscription: 1, Topic: "orders", Partition: "0", Epoch: 1, Deliveries: []*pb.Delivery{
				{DeliveryId: 7, Offset: 3, Frame: &pb.EventMeshFrame{Attributes: map[string]string{"id": "a"}, Data: []byte("x")}},
				{DeliveryId: 8, Offset: 9},
				{DeliveryId: 6, Offset: -1},
			}}, {Subscription: 9}, {Subscription: 1},
		}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s, ss, stop := detached(t)
		defer stop()
		for _, msg := range [][]byte{a, b, a} {
			if err := ss.take(mem.SliceBuffer(msg)); err != nil {
				if status.Code(err) != codes.Internal {
					t.Fatalf("the error is no status: %v", err)
				}
				return
			}
		}
		readAll(s)
		s.Stats()
		s.Positions()
		w := &writer{session: ss}
		w.turn(w.lastAck)
	})
}

// readAll reads and answers everything that is queued.
func readAll(s *Stream) {
	for _, r := range s.queue.clear() {
		for i := r.from; i < r.to; i++ {
			d := r.At(i)
			_, _ = d.Attr("id")
			_, _, _ = d.Head()
			if c := d.Clone(); len(c.Map()) > 0 && len(c.Data()) > 0 {
				c.Ack()
			}
			d.Nack(nil)
		}
		r.Ack()
		r.unref(r.to - r.from)
	}
}

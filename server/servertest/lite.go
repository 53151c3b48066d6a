package servertest

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Lite is a client of the service of lite topics on a connection of its own.
func (in *Instance) Lite() pb.LiteClient { return pb.NewLiteClient(in.Dial()) }

// liteStream shows a SubscribeLite stream as one of Subscribe.
type liteStream struct {
	grpc.BidiStreamingClient[pb.SubscribeRequest, pb.SubscribeResponse] // of methods that are not used: nil
	lite                                                                grpc.BidiStreamingClient[pb.SubscribeLiteRequest, pb.SubscribeLiteResponse]
}

// CloseSend is that of the stream.
func (l liteStream) CloseSend() error { return l.lite.CloseSend() }

// Send sends an Ack, a Nack or an Extend.
func (l liteStream) Send(m *pb.SubscribeRequest) error {
	out := &pb.SubscribeLiteRequest{}
	switch k := m.GetKind().(type) {
	case *pb.SubscribeRequest_Ack:
		out.Kind = &pb.SubscribeLiteRequest_Ack{Ack: k.Ack}
	case *pb.SubscribeRequest_Nack:
		out.Kind = &pb.SubscribeLiteRequest_Nack{Nack: k.Nack}
	case *pb.SubscribeRequest_Extend:
		out.Kind = &pb.SubscribeLiteRequest_Extend{Extend: k.Extend}
	}
	return l.lite.Send(out)
}

// Recv receives one message.
func (l liteStream) Recv() (*pb.SubscribeResponse, error) {
	m, err := l.lite.Recv()
	if err != nil {
		return nil, err
	}
	out := &pb.SubscribeResponse{}
	switch k := m.GetKind().(type) {
	case *pb.SubscribeLiteResponse_Opened:
		out.Kind = &pb.SubscribeResponse_Opened{Opened: k.Opened}
	case *pb.SubscribeLiteResponse_Changed:
		out.Kind = &pb.SubscribeResponse_Changed{Changed: k.Changed}
	case *pb.SubscribeLiteResponse_Deliveries:
		out.Kind = &pb.SubscribeResponse_Deliveries{Deliveries: k.Deliveries}
	case *pb.SubscribeLiteResponse_AckResult:
		out.Kind = &pb.SubscribeResponse_AckResult{AckResult: k.AckResult}
	case *pb.SubscribeLiteResponse_Notice:
		out.Kind = &pb.SubscribeResponse_Notice{Notice: k.Notice}
	}
	return out, nil
}

// OpenLite opens a SubscribeLite stream and waits for Opened; every lite
// topic must stand. Got.Topic is then the parent, Got.Partition the lite topic.
func OpenLite(t testing.TB, lite pb.LiteClient, open *pb.OpenLite) *Stream {
	t.Helper()
	s := TryOpenLite(t, lite, open)
	if s.Opened == nil {
		t.Fatalf("no Opened, the stream ended: %v", s.ended)
	}
	for _, r := range s.Opened.GetResults() {
		if r.GetStatus().GetCode() != 0 {
			t.Fatalf("lite topic %q refused: %v", r.GetLite(), r.GetStatus())
		}
	}
	return s
}

// TryOpenLite is OpenLite that takes refusals.
func TryOpenLite(t testing.TB, lite pb.LiteClient, open *pb.OpenLite) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	raw, err := lite.SubscribeLite(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := drive(t, liteStream{lite: raw}, cancel)
	s.sent(raw.Send(&pb.SubscribeLiteRequest{Kind: &pb.SubscribeLiteRequest_Open{Open: open}}))
	s.until(Patience, func() bool { return s.Opened != nil })
	return s
}

// ChangeLite adds and removes lite topics and waits for the answer.
func (s *Stream) ChangeLite(c *pb.ChangeLite) *pb.Changed {
	s.t.Helper()
	n := len(s.changed)
	raw := s.Raw.(liteStream)
	s.sent(raw.lite.Send(&pb.SubscribeLiteRequest{Kind: &pb.SubscribeLiteRequest_Change{Change: c}}))
	if !s.until(Patience, func() bool { return len(s.changed) > n }) {
		s.t.Fatalf("no Changed came (stream ended: %v)", s.ended)
	}
	return s.changed[n]
}

// PublishLite publishes payloads to a lite topic and returns where they are.
func PublishLite(t testing.TB, lite pb.LiteClient, parent, name string, data ...string) []*pb.PublishedEvent {
	t.Helper()
	req := &pb.PublishLiteRequest{Parent: parent, Lite: name}
	for _, d := range data {
		req.Events = append(req.Events, &pb.EventMeshFrame{Data: []byte(d)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	res, err := lite.PublishLite(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range res.GetEvents() {
		if e.GetStatus().GetCode() != 0 {
			t.Fatalf("publish event %d: %v", i, e.GetStatus())
		}
	}
	return res.GetEvents()
}

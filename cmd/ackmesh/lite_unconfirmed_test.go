package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// deafLite delivers an event and answers no ack.
type deafLite struct {
	ackmeshv1.UnimplementedLiteServer
	acked func()
}

func (d deafLite) SubscribeLite(stream grpc.BidiStreamingServer[ackmeshv1.SubscribeLiteRequest, ackmeshv1.SubscribeLiteResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			<-stream.Context().Done()
			return err
		}
		switch req.GetKind().(type) {
		case *ackmeshv1.SubscribeLiteRequest_Open:
			opened := &ackmeshv1.SubscribeLiteResponse{Kind: &ackmeshv1.SubscribeLiteResponse_Opened{Opened: &ackmeshv1.Opened{}}}
			one := &ackmeshv1.Delivery{DeliveryId: 1, Attempt: 1, Frame: &ackmeshv1.EventMeshFrame{}}
			came := &ackmeshv1.SubscribeLiteResponse{Kind: &ackmeshv1.SubscribeLiteResponse_Deliveries{Deliveries: &ackmeshv1.Deliveries{
				Runs: []*ackmeshv1.Run{{Topic: "chat", Partition: "a", Deliveries: []*ackmeshv1.Delivery{one}}},
			}}}
			if err := stream.Send(opened); err != nil {
				return err
			}
			if err := stream.Send(came); err != nil {
				return err
			}
		case *ackmeshv1.SubscribeLiteRequest_Ack:
			d.acked()
		}
	}
}

// TestLiteAcksNotConfirmed: an interrupted run whose acks nobody has confirmed has
// failed, and says so: its events may come again.
func TestLiteAcksNotConfirmed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	srv := grpc.NewServer()
	ackmeshv1.RegisterLiteServer(srv, deafLite{acked: interrupt})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var out, errOut bytes.Buffer
	a := newApp()
	a.out, a.errOut, a.environ = &out, &errOut, nil
	code := a.run(ctx, []string{"lite", "subscribe", "--server", listener.Addr().String(), "--parent", "chat", "--client", "c", "--lite", "a", "--timeout", "300ms"})
	if code != exitFailed || !strings.Contains(errOut.String(), "1 acks were not confirmed") {
		t.Errorf("exit code %d\n%s\n%s", code, out.String(), errOut.String())
	}
}

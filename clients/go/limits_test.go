package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protopack"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestLongDelay: a delay that is longer than servers wait is the longest that they
// do.
func TestLongDelay(t *testing.T) {
	handling(t, nil, func(context.Context, *Delivery) error {
		return RetryAfter(math.MaxInt64, errors.New("never"))
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(1, 0)
		n := st.recv().GetNack()
		if d := n.GetDelay().AsDuration(); n == nil || d != 7*24*time.Hour {
			t.Errorf("delay %v", d)
		}
		st.answer(durable, 1000, 1000)
		go st.serve()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestTokenSourceFails: a token that is not to be had just now is no reason to give up,
// unless its source says so.
func TestTokenSourceFails(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		final codes.Code
	}{
		"just now": {err: errors.New("connection refused")},
		"for good": {err: status.Error(codes.Unauthenticated, "account closed"), final: codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork(t)
				m := n.start("a")
				asked := 0
				client := n.client(func(cfg *Config) {
					cfg.AllowPlaintextToken = true
					cfg.TokenSource = func(context.Context) (string, error) {
						if asked++; asked <= 3 {
							return "", c.err
						}
						return "secret", nil
					}
				}, "a")
				opened := make(chan error, 1)
				go func() {
					s, err := client.OpenStream(t.Context(), orders())
					opened <- err
					if err == nil {
						s.cutLife()
						<-s.Done()
					}
				}()
				if c.final == codes.OK {
					select {
					case st := <-m.streams:
						st.t = t
						st.opened("a")
					case err := <-opened:
						t.Fatalf("given up: %v", err)
					}
				}
				if err := <-opened; status.Code(err) != c.final {
					t.Errorf("got %v", err)
				}
				closeClientQuietly(client)
			})
		})
	}
}

// TestNewerServer: a field that this client does not know, beside deliveries, does not
// keep them from it.
func TestNewerServer(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		msg := &pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: []*pb.Run{{
			Subscription: 1, Topic: "orders", Partition: "0", Epoch: 1,
			Deliveries: []*pb.Delivery{{DeliveryId: 7, Offset: 3, Attempt: 1, Frame: &pb.EventMeshFrame{Data: []byte("hi")}}},
		}}}}}
		msg.ProtoReflect().SetUnknown(protopack.Message{protopack.Tag{Number: 99, Type: protopack.VarintType}, protopack.Varint(1)}.Marshal())
		st.send(msg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b, err := s.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if d := b.At(0); d.DeliveryID() != 7 || string(d.Data()) != "hi" {
			t.Errorf("received %+v", d.Ref())
		}
	})
}

// TestResumeIsBounded: however many positions are known, Open is one that a server
// takes.
func TestResumeIsBounded(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		known := make([]*pb.Position, 30_000)
		for i := range known {
			p := at(1, 1)
			p.Partition = fmt.Sprintf("%s:%d", strings.Repeat("b", i%200), i)
			known[i] = p
		}
		st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{Positions: known}}})
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t)
		n, size := len(st.open.Resume), proto.Size(st.open)
		if n < 15_000 || n > 100_000 || size > 4<<20 {
			t.Errorf("%d positions in %d bytes", n, size)
		}
	})
}

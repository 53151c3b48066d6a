package servertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// client is a Go client of an instance.
func client(t *testing.T, in *Instance, id string) *ackmesh.Client {
	t.Helper()
	c, err := ackmesh.New(ackmesh.Config{
		Addresses: []string{"passthrough:///instance"}, ClientID: id, Direct: true, Keepalive: -1,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(in.Dialer())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Shutdown(ctx)
	})
	return c
}

// TestEvictedClientStaysAway: a client that is evicted learns that it is, and does not
// come back by itself, however busy its stream is.
func TestEvictedClientStaysAway(t *testing.T) {
	in := Start(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := client(t, in, "c1")
	for i := range 50 {
		s, err := c.OpenStream(ctx, ackmesh.SubscribeConfig{Topics: []string{"orders"}, Mode: ackmesh.Broadcast})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := in.Admin().EvictClient(ctx, &pb.EvictClientRequest{ClientId: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(ctx); !errors.Is(err, ackmesh.ErrEvicted) {
			t.Fatalf("round %d, %v: Recv: %v", i, answer, err)
		}
		<-s.Done()
	}
}

package servertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// TestC46_WaitingForAHandler: what waits in the client for its turn is not sent again,
// however long that takes, as long as handlers finish: it would come in copies, and
// die without having been seen. What a handler holds for too long is.
func TestC46_WaitingForAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		c := client(t, in, "c1")
		const events = 200
		for range events {
			if err := c.PublishAsync(t.Context(), "orders", ackmesh.NewEvent("t", nil), nil); err != nil {
				t.Fatal(err)
			}
		}
		attempts := make(chan int, 10*events)
		cfg := ackmesh.SubscribeConfig{
			Topics: []string{"orders"}, Mode: ackmesh.Broadcast, Start: ackmesh.Earliest(),
			AckTimeout: time.Second, MaxExtension: 10 * time.Second, Concurrency: 2,
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Subscribe(ctx, cfg, func(_ context.Context, d *ackmesh.Delivery) error {
				attempts <- d.Attempt()
				if d.Offset() == 7 && d.Attempt() == 1 {
					<-time.After(20 * time.Second)
				} else {
					<-time.After(time.Second)
				}
				return nil
			})
		}()
		<-time.After(10 * time.Minute)
		seen := make(map[int]int)
		for range len(attempts) {
			seen[<-attempts]++
		}
		if len(seen) != 2 || seen[1] != events || seen[2] != 1 {
			t.Errorf("deliveries by attempt: %v, want %d, and one again", seen, events)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		in.Stop()
	})
}

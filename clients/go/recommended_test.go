package ackmesh

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestRecommendedAddressIsWrong: an instance advertises an address that does not
// work from here; the one that was asked is used itself.
func TestRecommendedAddressIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(f *fake) {
			f.recommend = func(*pb.RecommendRequest) (*pb.RecommendResponse, error) {
				return &pb.RecommendResponse{InstanceId: "a", InstanceUrl: target + "10.0.0.1:7460"}, nil
			}
		})
		c := n.client(nil, "a")
		openStream(t, c, m, orders())
		closeClientNow(t, c)
	})
}

func closeClientNow(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestOpenTimeout: an instance that takes a stream and says nothing is left.
func TestOpenTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		opened := make(chan error)
		go func() { _, err := c.OpenStream(t.Context(), orders()); opened <- err }()
		m.next(t)
		begun := time.Now()
		m.accept(t)
		if d := time.Since(begun); d < DefaultOpenTimeout || d > DefaultOpenTimeout+time.Second {
			t.Errorf("left after %v", d)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
		closeClientNow(t, c)
	})
}

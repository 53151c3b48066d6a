package ackmesh

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
)

// lateReady is pick_first whose connections can be used a little before they are told
// to stand, which is how gRPC does it, only slower.
type lateReady struct{}

const readyDelay = 20 * time.Millisecond

func init() { balancer.Register(lateReady{}) }

func (lateReady) Name() string { return "late_ready" }

func (lateReady) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(pickfirst.Name).Build(&lateConn{ClientConn: cc}, opts)
}

type lateConn struct {
	balancer.ClientConn
	mu      sync.Mutex
	updates int
}

func (c *lateConn) UpdateState(s balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates++
	if s.ConnectivityState != connectivity.Ready {
		c.ClientConn.UpdateState(s)
		return
	}
	c.ClientConn.UpdateState(balancer.State{ConnectivityState: connectivity.Connecting, Picker: s.Picker})
	latest := c.updates
	time.AfterFunc(readyDelay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.updates == latest {
			c.ClientConn.UpdateState(s)
		}
	})
}

// TestConnThatHasJustCome: a connection that is used before gRPC tells that it stands
// is not taken for one that the server closes; one that is closed still is.
func TestConnThatHasJustCome(t *testing.T) {
	for name, direct := range map[string]bool{"direct": true, "recommended": false} {
		t.Run(name, func(t *testing.T) { connThatHasJustCome(t, direct) })
	}
}

func connThatHasJustCome(t *testing.T, direct bool) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		var streams atomic.Int32
		n.options = append(n.options, grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			streams.Add(1)
			return handler(srv, ss)
		}))
		m := n.start("a")
		c := n.client(func(c *Config) {
			c.Direct = direct
			c.DialOptions = append(c.DialOptions, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"late_ready":{}}]}`))
		}, "a")
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if _, err := c.Publish(t.Context(), "orders", NewEvent("b", nil)); err != nil {
			t.Fatal(err)
		}
		if got := streams.Load(); got != 1 || len(m.received()) != 2 {
			t.Errorf("%d streams and %d requests, want 1 and 2", got, len(m.received()))
		}
		begun := time.Now()
		m.srv.GracefulStop()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the server stopped after %v", d)
		}
		closeClient(t, c)
	})
}

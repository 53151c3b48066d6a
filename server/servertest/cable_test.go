package servertest_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// cable is a connection whose cable can be cut: nothing goes through any more, and
// neither end is told.
type cable struct {
	net.Conn
	cut    *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *cable) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *cable) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestC41_CutCable: what a client held whose cable was cut goes to another one once
// keepalive has noticed, in order, one attempt more.
func TestC41_CutCable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) {
			c.Keepalive.Time, c.Keepalive.Timeout = 20*time.Second, 10*time.Second
		}})
		sub := shareSub("t", "s")
		op := open("c1", sub)
		op.AckTimeout = durationpb.New(10 * time.Minute)
		var cut atomic.Bool
		dial := in.Dialer()
		conn := in.Dial(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := dial(ctx, addr)
			return &cable{Conn: c, cut: &cut, closed: make(chan struct{})}, err
		}))
		c1 := Open(t, pb.NewEventMeshClient(conn), op)
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		c1.Take(20)
		c2 := Open(t, in.Mesh(), open("c2", sub))
		cut.Store(true)
		begin := time.Now()
		c2.Await(time.Minute, 20)
		took := time.Since(begin)
		got := c2.Take(20)
		wantOffsets(t, got, seq(0, 20))
		wantAttempts(t, got, 2)
		if took < 5*time.Second || took > 31*time.Second {
			t.Errorf("they came after %v, keepalive takes 20 s and 10 s", took)
		}
	})
}

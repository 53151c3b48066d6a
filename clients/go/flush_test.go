package ackmesh

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestFlushWaitsForWhatIsBeingTold: an event whose request was answered, and that is
// to be sent again, is not answered; nor is one whose result is being told.
func TestFlushWaitsForWhatIsBeingTold(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		hold := make(chan struct{})
		m.set(func(m *fake) {
			m.hold = hold
			m.publish = func(r *pb.PublishRequest) *pb.PublishResponse {
				a := accepted(r)
				if len(a.Events) > 1 {
					a.Events[1] = &pb.PublishedEvent{Status: &spb.Status{Code: int32(codes.Unavailable)}}
				}
				return a
			}
		})
		for range maxPartial { // so many requests that what follows shares one
			publishN(t, c, 1, nil)
			synctest.Wait()
		}
		telling, told := make(chan struct{}), make(chan struct{})
		var second Result
		publishN(t, c, 1, func(Result) { close(telling); <-told })
		publishN(t, c, 1, func(r Result) { second = r })
		close(hold)
		<-telling
		flushed := make(chan error, 1)
		go func() { flushed <- c.Flush(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-flushed:
			t.Errorf("flushed while results are not told: %v", err)
			close(told)
			return
		default:
		}
		close(told)
		if err := <-flushed; err != nil || second.Err != nil || second.ID == "" {
			t.Errorf("flushed: %v, the repeated event: %+v", err, second)
		}
	})
}

// TestEachEventHasItsTime: an event that is published late in an outage is tried for
// as long as those before it.
func TestEachEventHasItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(func(c *Config) { c.Publish.Timeout = 20 * time.Second }, "a")
		first, second := make(chan Result, 1), make(chan Result, 1)
		publishN(t, c, 1, func(r Result) { first <- r })
		<-time.After(19 * time.Second)
		publishN(t, c, 1, func(r Result) { second <- r })
		if r := <-first; r.Err == nil {
			t.Error("published to nobody")
		}
		n.start("a")
		if r := <-second; r.Err != nil {
			t.Errorf("given up after two seconds: %v", r.Err)
		}
		closeClient(t, c)
	})
}

// TestNoRushWhileAnEventIsDue: an event that is due to be sent again does not make the
// attempts to connect follow each other without a pause.
func TestNoRushWhileAnEventIsDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(m *fake) {
			m.publish = func(*pb.PublishRequest) *pb.PublishResponse {
				return &pb.PublishResponse{Status: &spb.Status{Code: int32(codes.Unavailable)}}
			}
		})
		var dials atomic.Int32
		c := n.client(func(c *Config) {
			c.Publish.Timeout = 20 * time.Second
			c.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
				if dials.Add(1) > 200 { // slow down, so that the test ends
					<-ctx.Done()
				}
				return n.dial(ctx, name)
			})}
		}, "a")
		done := make(chan Result, 1)
		publishN(t, c, 1, func(r Result) { done <- r })
		synctest.Wait()
		m.stop()
		n.mu.Lock()
		delete(n.instances, "a")
		n.mu.Unlock()
		if r := <-done; r.Err == nil {
			t.Error("published to nobody")
		}
		if got := dials.Load(); got > 50 {
			t.Errorf("%d attempts to connect within 20 s", got)
		}
		closeClient(t, c)
	})
}

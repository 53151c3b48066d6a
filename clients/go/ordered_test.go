package ackmesh

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestC38_OneHandlerForARecord: a record of an ordered subscription that comes again
// after a break, while the handler of before still works on it, waits for that one:
// else two would work on one key. Where there is no order it does not wait.
func TestC38_OneHandlerForARecord(t *testing.T) {
	for name, ordered := range map[string]bool{"ordered": true, "not ordered": false} {
		t.Run(name, func(t *testing.T) {
			var running, begun atomic.Int32
			var release chan struct{} // of the bubble
			handling(t, func(c *SubscribeConfig) { c.Concurrency, c.Ordered = 3, ordered }, func(_ context.Context, d *Delivery) error {
				begun.Add(1)
				if d.Offset() == 0 {
					if running.Add(1) > 1 && ordered {
						t.Error("two handlers work on one record")
					}
					<-release
					running.Add(-1)
				}
				return nil
			}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
				release = make(chan struct{})
				st.deliver(1, 0)
				synctest.Wait()
				st.end(status.Error(codes.Unavailable, "cut"))
				st = m.accept(t, at(0, 1))
				st.nextID = 5000
				st.deliver(2, 0)
				<-time.After(time.Second)
				if n := begun.Load(); ordered && n != 2 || !ordered && n != 3 {
					t.Errorf("%d handlers have begun", n)
				}
				close(release)
				if got := st.recvAcks(2); len(got) != 2 {
					t.Errorf("acked %v", got)
				}
				st.answer(pb.AckResult_STATUS_DURABLE, 5000, 5001)
				go st.serve()
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestOrderedEndsWhileWaiting: what waits for the handler of before is given up when
// the grace ends.
func TestOrderedEndsWhileWaiting(t *testing.T) {
	handling(t, func(c *SubscribeConfig) { c.Concurrency, c.Ordered, c.Grace = 2, true, time.Second }, func(ctx context.Context, d *Delivery) error {
		<-ctx.Done()
		<-time.After(time.Second)
		return ctx.Err()
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(1, 0)
		synctest.Wait()
		st.end(status.Error(codes.Unavailable, "cut"))
		st = m.accept(t, at(0, 1))
		st.nextID = 5000
		st.deliver(1, 0)
		synctest.Wait()
		go st.serve()
		_ = end() // in whatever way, and in time
	})
}

package servertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestIdleIsNotAbsent: a subscriber that was away, came back, and had nothing to do
// until the instance was killed is not removed as if it had been away all the time.
// So with those whose events came in other partitions only.
func TestIdleIsNotAbsent(t *testing.T) {
	const day = 2 * time.Hour
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := Options{Backend: Log(t, 2), Store: Store(t), Config: func(c *server.Config) { c.Subscriber.Expiry = 14 * day }}
			c := &crash{struck: make(chan struct{})}
			dying := o
			dying.Store = &crashingStore{o.Store, c}
			in := Start(t, dying)
			s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * day)
			s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			if busy {
				publishKey(t, in, "t", "one partition", "x")
				s.AckDurable(s.Take(1)...)
			}
			<-time.After(10 * day)
			c.over.Store(true) // nothing is written any more
			in.Stop()

			in = Start(t, o)
			<-time.After(13 * day)
			res, err := in.Admin().ListSubscribers(context.Background(), &pb.ListSubscribersRequest{Topic: "t"})
			if err != nil || len(res.GetSubscribers()) != 1 {
				t.Fatalf("13 days after it was there: %v, %v (busy: %v)", res, err, busy)
			}
			Publish(t, in.Mesh(), "t", "while it was away")
			Open(t, in.Mesh(), open("c", Sub("t", broadcast))).Take(1)
			in.Stop()
		})
	}
}

package servertest_test

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestHealthOfTheStore: while the offset store takes no writes, for whatever
// reason, nothing is delivered and health says so; all goes on when it does.
func TestHealthOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		store := Store(t)
		o.Store = store
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		store.FailWrites(syscall.EIO)
		<-time.After(2 * time.Second)
		wantHealth(t, in, healthpb.HealthCheckResponse_NOT_SERVING)
		Publish(t, in.Mesh(), "t", "x")
		synctest.Wait()
		if got := s.Pending(); len(got) != 0 {
			t.Errorf("%d were delivered", len(got))
		}
		store.FailWrites(nil)
		<-time.After(2 * time.Second)
		wantHealth(t, in, healthpb.HealthCheckResponse_SERVING)
		s.AckDurable(s.Take(1)...)
	})
}

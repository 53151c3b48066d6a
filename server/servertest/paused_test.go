package servertest_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestPausesAreTold: a subscriber that gets nothing new since a limit is reached
// shows in a metric, by the limit, for as long as that lasts.
func TestPausesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Delivery.MaxAhead, c.Delivery.MaxWaiting = 20, 5 }})
		op := open("c", Sub("t", broadcast))
		op.AckTimeout = durationpb.New(5 * time.Minute)
		s := Open(t, in.Mesh(), op)
		Publish(t, in.Mesh(), "t", Numbers(30)...)
		ahead, waiting := "paused{by=max_ahead,subscriber=client/c,topic=t}", "paused{by=max_waiting,subscriber=client/c,topic=t}"
		want := func(when string, byAhead, byWaiting float64) {
			t.Helper()
			if m := metrics(t, in); m[ahead] != byAhead || m[waiting] != byWaiting {
				t.Errorf("%s: paused by max_ahead %v, by max_waiting %v", when, m[ahead], m[waiting])
			}
		}
		got := s.Take(20)
		s.Quiet(time.Minute)
		want("20 above the position", 1, 0)
		for _, g := range got[:5] {
			nackFor(t, s, g, 10*time.Second)
		}
		s.AckDurable(got[5:]...)
		s.Quiet(time.Second)
		want("5 wait", 0, 1)
		s.AckDurable(s.Take(5)...)
		s.AckDurable(s.Take(10)...)
		want("at the end", 0, 0)
	})
}

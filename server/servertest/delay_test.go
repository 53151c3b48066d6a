package servertest_test

import (
	"testing"
	"time"

	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestDelayOutlivesStreams: a record nacked for an hour comes after that hour, also
// where its stream, and the server, end in between.
func TestDelayOutlivesStreams(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			o := Lasting(t)
			in := Start(t, o)
			sub := Sub("t", broadcast)
			sub.Ordered = ordered
			s := Open(t, in.Mesh(), open("c", sub))
			PublishKey(t, in.Mesh(), "t", "k", Numbers(1)...)
			nackFor(t, s, s.Take(1)[0], time.Hour)
			s.Break()
			s = Open(t, in.Mesh(), open("c", sub))
			s.Quiet(10 * time.Minute)
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			in.Stop()
			in = Start(t, o)
			s = Open(t, in.Mesh(), open("c", sub))
			s.Quiet(49 * time.Minute)
			if !s.Await(2*time.Minute, 1) {
				t.Fatalf("it does not come: %v", position(t, in, "t", "client/c"))
			}
			got := s.Take(1)
			wantAttempts(t, got, 2)
			s.AckDurable(got...)
		})
	}
}

// TestPop_DelayOutlivesStreams: so it is on a log that hands records out, even where
// the server crashes in between.
func TestPop_DelayOutlivesStreams(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", "x")
		for attempt, ends := range []func(){func() { s.Break() }, func() { p.crash(); p.start() }} {
			got := s.Take(1)
			wantAttempts(t, got, int32(attempt+1))
			nackFor(t, s, got[0], time.Hour)
			ends()
			s = Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
			s.Quiet(59 * time.Minute)
			s.Await(2*time.Minute, 1)
		}
		got := s.Take(1)
		wantAttempts(t, got, 3)
		s.AckDurable(got...)
	})
}

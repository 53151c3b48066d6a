package ackmesh

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func (st *fakeStream) opened(name string) {
	st.t.Helper()
	st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{InstanceId: name}}})
}

// TestRemoveWhileOpening: a subscription that is removed after the next stream has
// asked for it, and before it is open, is removed there too. Else its records would
// be sent to a stream that nobody reads, until they are dead letters.
func TestRemoveWhileOpening(t *testing.T) {
	two := func(c *SubscribeConfig) { c.Topics = []string{"orders", "news"} }
	streaming(t, two, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.next(t)
		if n := len(st.open.Subscriptions); n != 2 {
			t.Fatalf("reopened with %d subscriptions", n)
		}
		if err := s.Remove(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := s.SetWindow(t.Context(), 7, 1<<20); err != nil {
			t.Fatal(err)
		}
		st.opened("a")
		ch := st.recv().GetChange()
		if !slices.Equal(ch.GetRemove(), []uint32{2}) {
			t.Errorf("removed %v", ch.GetRemove())
		}
		if w := ch.GetWindow(); w.GetMaxInFlight() != 7 || w.GetMaxInFlightBytes() != 1<<20 {
			t.Errorf("window %v", w)
		}
		st.idle(time.Second)
	})
}

// TestAddGivenUp: when the caller of Add does not wait for the answer, the server
// is told that the subscription is not wanted.
func TestAddGivenUp(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Add(ctx, Subscription{Topic: "news", Mode: Broadcast})
		if !errors.Is(err, context.DeadlineExceeded) || len(s.Subscriptions()) != 1 {
			t.Errorf("%v, subscriptions %v", err, s.Subscriptions())
		}
		if ch := st.recv().GetChange(); len(ch.GetAdd()) != 1 {
			t.Errorf("add %v", ch)
		}
		if ch := st.recv().GetChange(); !slices.Equal(ch.GetRemove(), []uint32{2}) {
			t.Errorf("then %v, want the removal", ch)
		}
	})
}

// TestWindowOutOfRange: a window that the server would refuse, and end the stream
// for, is refused here.
func TestWindowOutOfRange(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		for _, w := range [][2]int64{{-1, 0}, {100_001, 0}, {0, -1}, {0, 1<<30 + 1}, {math.MaxInt32, 1}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.SetWindow(ctx, int(w[0]), w[1]); err == nil || ctx.Err() != nil {
				t.Errorf("window %v: %v", w, err)
			}
			cancel()
		}
		st.idle(time.Second)
	})
}

// TestAddAsTheStreamChanges: a change is for the stream that stands, or is told at
// once that none does: nobody answers what is sent on one that has ended.
func TestAddAsTheStreamChanges(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		s.mu.Lock()
		old := s.sess
		s.mu.Unlock()
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t, at(0, 1))
		synctest.Wait()
		s.mu.Lock()
		wait := old.sendChange(&pb.Change{})
		s.mu.Unlock()
		select {
		case <-wait:
		default:
			t.Error("the answer of a stream that has ended is awaited")
		}
		st.idle(time.Second)
	})
}

package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestC32_ManyAcksOfOne: acks sent five times, and of another stream's ids, count
// once; the rest is UNKNOWN.
func TestC32_ManyAcksOfOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		a := Open(t, in.Mesh(), open("a", Sub("t", broadcast)))
		b := Open(t, in.Mesh(), open("b", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		got := a.Take(20)
		b.AckDurable(b.Take(20)...)
		for range 5 {
			a.Ack(got...)
			b.Ack(got...)
		}
		for _, g := range got {
			if st := b.Outcome(g); st != unknown {
				t.Fatalf("another stream's ack of %d: %v", g.Offset, st)
			}
		}
		if err := a.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if n := in.Server.Metrics().Acked.Load(); n != 40 {
			t.Fatalf("%d acks counted, want 40", n)
		}
		if p := position(t, in, "t", "client/a"); p.GetPosition() != 20 {
			t.Fatalf("position %d", p.GetPosition())
		}
	})
}

// TestC71_BoundedForOneThatIsGone: a client vanishes with 100,000 in flight. They
// are not kept in memory, and nothing more is pulled for it; others go on; a metric
// shows it; and when it comes back all of them come, in order.
func TestC71_BoundedForOneThatIsGone(t *testing.T) {
	const held, more = 100_000, 5000
	in := Start(t, Options{})
	window := int32(held)
	op := open("gone", Sub("t", broadcast))
	op.MaxInFlight, op.AckTimeout = &window, durationpb.New(time.Hour)
	gone := Open(t, in.Mesh(), op)
	mesh, m := in.Mesh(), in.Server.Metrics()
	for range held / 5000 {
		Publish(t, mesh, "t", Numbers(5000)...)
	}
	gone.Take(held)
	gone.Break()
	Eventually(t, Patience, func() error {
		if n := m.StreamsLive.Load(); n != 0 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	live := Open(t, in.Mesh(), open("live", Sub("t", broadcast)))
	delivered := m.Delivered.Load()
	Publish(t, mesh, "t", Numbers(more)...)
	for range more / 1000 {
		live.AckDurable(live.Take(1000)...)
	}
	if n := m.Delivered.Load() - delivered; n != more {
		t.Errorf("%d deliveries for one that is there", n)
	}
	if p := position(t, in, "t", "client/gone"); p.GetLag() != held+more || p.GetInFlight() != 0 {
		t.Fatalf("for the one that is gone: %v", p)
	}
	wantMetrics(t, in, "gone", map[string]float64{
		"pending{subscriber=client/gone,topic=t}": held, "lag{subscriber=client/gone,topic=t}": held + more,
	})
	if n := m.WindowBytes.Load(); n > 8<<20 {
		t.Errorf("%d bytes are held in memory", n)
	}
	gone = Open(t, in.Mesh(), op)
	for next := int64(0); next < held+more; next += 5000 {
		got := gone.Take(5000)
		wantOffsets(t, got, seq(next, 5000))
		gone.Ack(got...)
	}
	if n := len(letters(t, in, "t")); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestC71_WindowHolds: a client that acks nothing holds its window and no more.
func TestC71_WindowHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		o := open("c", Sub("t", broadcast))
		o.AckTimeout = durationpb.New(time.Hour)
		s := Open(t, in.Mesh(), o)
		for range 5 {
			Publish(t, in.Mesh(), "t", Numbers(1000)...)
		}
		s.Take(1000)
		s.Quiet(time.Minute)
		if p := position(t, in, "t", "client/c"); p.GetInFlight() != 1000 || p.GetLag() != 5000 {
			t.Fatalf("with a full window: %v", p)
		}
	})
}

// TestC72_ResetByTime: a time means the nearest record, or the first at or after;
// one after the last means the end.
func TestC72_ResetByTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		zero := time.Now()
		var got []Got
		for _, at := range []int{10, 20, 20, 20, 30} {
			<-time.After(time.Until(zero.Add(time.Duration(at) * time.Second)))
			Publish(t, in.Mesh(), "t", fmt.Sprint(at))
			got = append(got, s.Take(1)...)
		}
		s.AckDurable(got...)
		for _, tc := range []struct {
			at               int
			nearest, atAfter int64
		}{{20, 1, 1}, {18, 1, 1}, {12, 0, 1}, {5, 0, 0}, {31, 5, 5}} {
			for match, want := range map[pb.Start_TimeMatch]int64{pb.Start_TIME_MATCH_NEAREST: tc.nearest, pb.Start_TIME_MATCH_AT_OR_AFTER: tc.atAfter} {
				to := AtTime(zero.Add(time.Duration(tc.at) * time.Second))
				to.Match = match
				res, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: to, DryRun: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := res.GetPartitions()[0].GetTo(); got != want {
					t.Errorf("time %d %v: offset %d, want %d", tc.at, match, got, want)
				}
			}
		}
	})
}

// TestC77_SizesAtTheEdge: events up to 8 MiB are taken and delivered to clients
// that can take them; larger ones are refused before anything is stored; a client
// with a small limit gets a dead letter and goes on.
func TestC77_SizesAtTheEdge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		large := in.Dial(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20), grpc.MaxCallSendMsgSize(32<<20)))
		mesh := pb.NewEventMeshClient(large)
		o := open("large", Sub("t", broadcast))
		o.MaxMessageBytes = 32 << 20
		wide := Open(t, mesh, o)
		small := Open(t, in.Mesh(), open("small", Sub("t", broadcast))) // a generated client with its defaults
		sizes := []int{1 << 20, 4<<20 - 1, 4 << 20, 4<<20 + 1, 8 << 20}
		for _, n := range sizes {
			Publish(t, mesh, "t", strings.Repeat("x", n))
			got := wide.Take(1)
			if len(got[0].Frame.GetData()) != n {
				t.Fatalf("%d bytes came as %d", n, len(got[0].Frame.GetData()))
			}
			wide.AckDurable(got...)
		}
		res, err := mesh.Publish(context.Background(), &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{Data: make([]byte, 8<<20+1)}}})
		if err != nil {
			t.Fatal(err)
		}
		if c := codes.Code(res.GetEvents()[0].GetStatus().GetCode()); c != codes.InvalidArgument && c != codes.ResourceExhausted {
			t.Fatalf("8 MiB and a byte: %v", res.GetEvents()[0].GetStatus())
		}
		Publish(t, mesh, "t", "after")
		got := small.Take(2)
		if len(got[0].Frame.GetData()) != 1<<20 || got[1].Data() != "after" {
			t.Fatalf("the small client got %d and %d bytes", len(got[0].Frame.GetData()), len(got[1].Frame.GetData()))
		}
		small.AckDurable(got...)
		untilLetters(t, in, "t", 4)
		small.Quiet(time.Hour)
		if p := position(t, in, "t", "client/small"); p.GetPosition() != 6 {
			t.Fatalf("the small client is at %d", p.GetPosition())
		}
	})
}

// TestC80_AttemptsRise: whatever makes a record come again, its attempt is one
// more, and the counter of repeats agrees.
func TestC80_AttemptsRise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		op := open("c", Sub("t", broadcast))
		op.AckTimeout = durationpb.New(2 * time.Second)
		s := Open(t, in.Mesh(), op)
		Publish(t, in.Mesh(), "t", "m")
		next := func(want int32) Got {
			t.Helper()
			g := s.Take(1)
			wantAttempts(t, g, want)
			return g[0]
		}
		next(1)         // and a timeout
		s.Nack(next(2)) // a nack
		next(3)
		s.Break() // a broken stream
		s = Open(t, in.Mesh(), op)
		next(4)
		if err := s.CloseSend(); err != nil { // a clean end
			t.Fatal(err)
		}
		s = Open(t, in.Mesh(), op)
		next(5)
		// Counted when it is handed to the writer: maybe after it is here.
		for n, end := int64(0), time.After(10*time.Second); n != 4; n = in.Server.Metrics().Redelivered.Load() {
			select {
			case <-end:
				t.Fatalf("%d repeats counted, want 4", n)
			case <-time.After(time.Millisecond):
			}
		}
		in.Stop() // a restart
		in = Start(t, o)
		s = Open(t, in.Mesh(), op)
		s.AckDurable(next(6))
		s.Quiet(time.Hour)
	})
}

// TestC81_DeadStaysDead: a record that died while its client left is not sent
// again; its replay is a new one, once.
func TestC81_DeadStaysDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "m")
		for i := range 6 {
			g := s.Take(1)
			s.Nack(g...)
			if i < 5 {
				s.Outcome(g[0])
			}
		}
		s.Break() // as the sixth failure is on its way
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		sends := 0
		for len(letters(t, in, "t")) == 0 {
			for range s.Pending() {
				sends++
				s.Nack(s.Take(1)...)
			}
			<-time.After(100 * time.Millisecond)
		}
		if sends > 1 {
			t.Errorf("sent %d times more after the sixth failure", sends)
		}
		s.Quiet(time.Hour)
		for range 3 { // browsing changes nothing
			if n := len(letters(t, in, "t")); n != 1 {
				t.Fatalf("%d dead letters", n)
			}
		}
		if _, err := in.Admin().ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		again := s.Take(1)
		wantAttempts(t, again, 1)
		s.AckDurable(again...)
		s.Quiet(time.Hour)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Fatalf("%d dead letters after the replay", n)
		}
	})
}

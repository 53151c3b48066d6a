package servertest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// drain drains an instance, or has it take streams again.
func drain(t *testing.T, in *Instance, req *pb.DrainRequest) int32 {
	t.Helper()
	res, err := in.Admin().Drain(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetStreams()
}

func wantHealth(t *testing.T, in *Instance, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	res, err := healthpb.NewHealthClient(in.Dial()).Check(context.Background(), &healthpb.HealthCheckRequest{Service: "ackmesh.v1.EventMesh"})
	if err != nil || res.GetStatus() != want {
		t.Errorf("health: %v, %v, want %v", res.GetStatus(), err, want)
	}
}

// TestDrain: an instance that is drained sends its clients on, takes what they
// answer, publishes still, and serves again after an undo as if nothing had been.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		idle := Open(t, in.Mesh(), open("idle", Sub("u", broadcast)))
		holder := Open(t, in.Mesh(), open("holder", Sub("t", broadcast)))
		stuck := Open(t, in.Mesh(), open("stuck", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(4)...)
		held, kept := holder.Take(4), stuck.Take(4)
		holder.Nack(held[3]) // waits for its retry
		if st := holder.Outcome(held[3]); st != durable {
			t.Fatal(st)
		}
		begin := time.Now()
		if n := drain(t, in, &pb.DrainRequest{InstanceId: "test", Grace: durationpb.New(20 * time.Second)}); n != 3 {
			t.Errorf("%d streams were told to go, want 3", n)
		}
		wantHealth(t, in, healthpb.HealthCheckResponse_NOT_SERVING)
		wantMetrics(t, in, "drained", map[string]float64{"drained": 1})
		if err := idle.End(); status.Code(err) != codes.Unavailable || time.Since(begin) > time.Second {
			t.Errorf("a stream that holds nothing: %v after %v", err, time.Since(begin))
		}
		for _, s := range []*Stream{idle, holder, stuck} {
			s.Notice(pb.Notice_KIND_DRAINING)
		}
		if s := TryOpen(t, in.Mesh(), open("new", Sub("t", broadcast))); status.Code(s.End()) != codes.Unavailable {
			t.Errorf("a new stream: %v", s.End())
		}
		_, err := pb.NewSessionClient(in.Dial()).Recommend(context.Background(), &pb.RecommendRequest{})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("recommend: %v", err)
		}
		Publish(t, in.Mesh(), "t", "m4")
		holder.Quiet(5 * time.Second) // neither that nor the retry
		holder.AckDurable(held[:3]...)
		if err := holder.End(); status.Code(err) != codes.Unavailable || time.Since(begin) > 6*time.Second {
			t.Errorf("a stream that has answered: %v after %v", err, time.Since(begin))
		}
		if err := stuck.End(); status.Code(err) != codes.Unavailable || time.Since(begin).Round(time.Second) != 20*time.Second {
			t.Errorf("a stream that does not answer: %v after %v", err, time.Since(begin))
		}

		drain(t, in, &pb.DrainRequest{Undo: true})
		wantHealth(t, in, healthpb.HealthCheckResponse_SERVING)
		wantMetrics(t, in, "undone", map[string]float64{"drained": 0})
		holder = Open(t, in.Mesh(), open("holder", Sub("t", broadcast)))
		got := holder.Take(2)
		wantOffsets(t, got, []int64{3, 4})
		if got[0].Attempt != 2 || got[1].Attempt != 1 {
			t.Errorf("after the drain: %s", Show(got))
		}
		stuck = Open(t, in.Mesh(), open("stuck", Sub("t", broadcast)))
		wantOffsets(t, stuck.Take(5), seq(0, 5))
		_ = kept
	})
}

// TestDrainUndoneAtOnce: an undo while streams still end lets a client that comes
// back have its retries.
func TestDrainUndoneAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := shareSub("t", "s")
		a, b := Open(t, in.Mesh(), open("a", sub)), Open(t, in.Mesh(), open("b", sub))
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		a.Await(time.Second, 20)
		b.Await(time.Second, 20)
		mine, others := a.Pending(), b.Pending()
		if len(mine)+len(others) != 20 {
			t.Fatalf("%d and %d of 20 came", len(mine), len(others))
		}
		drain(t, in, &pb.DrainRequest{Grace: durationpb.New(time.Minute)})
		drain(t, in, &pb.DrainRequest{Undo: true})
		a.Nack(mine...)
		b.AckDurable(others...)
		back := Open(t, in.Mesh(), open("c", sub))
		wantAttempts(t, back.Take(len(mine)), 2)
	})
}

// TestDrainIsBroughtForward: a second drain may end sooner than the first.
func TestDrainIsBroughtForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "m")
		s.Take(1)
		begin := time.Now()
		drain(t, in, &pb.DrainRequest{Grace: durationpb.New(5 * time.Minute)})
		s.Quiet(time.Second)
		drain(t, in, &pb.DrainRequest{Grace: durationpb.New(time.Second)})
		if err := s.End(); status.Code(err) != codes.Unavailable || time.Since(begin) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestDrainAndUndoAtOnce: of a drain and an undo at the same time one comes last:
// health and whether streams are taken then tell the same.
func TestDrainAndUndoAtOnce(t *testing.T) {
	in := Start(t, Options{})
	check := healthpb.NewHealthClient(in.Dial())
	for range 200 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { in.Server.Drain(0) })
			all.Go(in.Server.EndDrain)
		}
		all.Wait()
		res, err := check.Check(context.Background(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		s := TryOpen(t, in.Mesh(), open("c", Sub("t", broadcast)))
		if taken := s.Opened != nil; taken != (res.GetStatus() == healthpb.HealthCheckResponse_SERVING) {
			t.Fatalf("health is %v, a stream was taken: %v", res.GetStatus(), taken)
		}
		s.Break()
	}
}

// TestDrainEndsWhoDoesNotRead: a client that does not even read is gone soon after
// the grace as well.
func TestDrainEndsWhoDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Pipe: 4 << 10})
		raw, err := in.Mesh().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sub := Sub("t", broadcast)
		sub.Start = Earliest()
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open("c", sub)}}); err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 64<<10)
		for range 40 {
			Publish(t, in.Mesh(), "t", large)
		}
		<-time.After(time.Second)
		drain(t, in, &pb.DrainRequest{Grace: durationpb.New(5 * time.Second)})
		<-time.After(15 * time.Second)
		if n := in.Server.Metrics().StreamsLive.Load(); n != 0 {
			t.Errorf("%d streams are left 10 s after the grace", n)
		}
	})
}

// TestDrainRefused: what makes no sense is refused and changes nothing.
func TestDrainRefused(t *testing.T) {
	in := Start(t, Options{})
	for _, tt := range []struct {
		req  *pb.DrainRequest
		code codes.Code
	}{
		{&pb.DrainRequest{InstanceId: "another"}, codes.NotFound},
		{&pb.DrainRequest{Grace: durationpb.New(-1)}, codes.InvalidArgument},
		{&pb.DrainRequest{Grace: durationpb.New(time.Hour)}, codes.InvalidArgument},
		{&pb.DrainRequest{Grace: durationpb.New(time.Second), Undo: true}, codes.InvalidArgument},
	} {
		if _, err := in.Admin().Drain(context.Background(), tt.req); status.Code(err) != tt.code {
			t.Errorf("%v: %v, want %v", tt.req, err, tt.code)
		}
	}
	wantHealth(t, in, healthpb.HealthCheckResponse_SERVING)
}

package servertest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

const (
	publishing = pb.SetRateLimitRequest_DIRECTION_PUBLISH
	delivering = pb.SetRateLimitRequest_DIRECTION_DELIVER
)

func setRateLimit(t *testing.T, in *Instance, req *pb.SetRateLimitRequest) {
	t.Helper()
	if _, err := in.Admin().SetRateLimit(context.Background(), req); err != nil {
		t.Fatal(err)
	}
}

// request is a PublishRequest of n events to a topic.
func request(topic string, n int) *pb.PublishRequest {
	req := &pb.PublishRequest{Topic: topic}
	for _, data := range Numbers(n) {
		req.Events = append(req.Events, &pb.EventMeshFrame{Data: []byte(data)})
	}
	return req
}

// tooFast is how long a refusal for the rate asks to wait.
func tooFast(t *testing.T, st *status.Status) time.Duration {
	t.Helper()
	if st.Code() != codes.ResourceExhausted {
		t.Fatalf("%v, want RESOURCE_EXHAUSTED", st)
	}
	for _, d := range st.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	t.Fatalf("%v does not say when to try again", st)
	return 0
}

// TestPublishRateLimit: what is beyond the rate is refused with when to try again,
// alone and in a stream, other topics are not, and a restart changes nothing.
func TestPublishRateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		mesh, ctx := in.Mesh(), context.Background()
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "t", Direction: publishing, EventsPerSecond: 10})
		for range 2 {
			if _, err := mesh.Publish(ctx, request("t", 10)); err != nil {
				t.Fatal(err)
			}
			_, err := mesh.Publish(ctx, request("t", 1))
			wait := tooFast(t, status.Convert(err))
			<-time.After(wait - time.Millisecond)
			if _, err := mesh.Publish(ctx, request("t", 1)); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("before the wait was over: %v", err)
			}
			if _, err := mesh.Publish(ctx, request("other", 100)); err != nil {
				t.Errorf("another topic: %v", err)
			}
			<-time.After(2 * time.Second)
		}
		in.Stop()

		in = Start(t, o)
		stream, err := in.Mesh().PublishStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var fates []codes.Code
		for id := range uint64(3) {
			req := request("t", 10)
			req.RequestId = id + 1
			if id == 2 {
				req.Topic = "other"
			}
			if err := stream.Send(req); err != nil {
				t.Fatal(err)
			}
			res, err := stream.Recv()
			if err != nil || res.GetRequestId() != id+1 {
				t.Fatalf("answer %d: %v, %v", id+1, res, err)
			}
			if st := status.FromProto(res.GetStatus()); st.Code() == codes.OK {
				fates = append(fates, codes.OK)
			} else {
				tooFast(t, st)
				fates = append(fates, st.Code())
			}
		}
		if fates[0] != codes.OK || fates[1] != codes.ResourceExhausted || fates[2] != codes.OK {
			t.Errorf("after a restart, in a stream: %v", fates)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream: %v", err)
		}
		wantMetrics(t, in, "refused", map[string]float64{"publish_rate_limited_total": 10, "rate_limits": 1})
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "t", Direction: publishing})
		if _, err := in.Mesh().Publish(ctx, request("t", 1000)); err != nil {
			t.Errorf("after the limit was removed: %v", err)
		}
	})
}

// TestPublishRateLimitOfAToken: publishers are told apart by their tokens, and
// who may not see a topic does not see its limit.
func TestPublishRateLimitOfAToken(t *testing.T) {
	f := newTokens(t,
		token("shop", `roles: [publish], topics: ["*"]`), token("till", `roles: [publish], topics: ["*"]`),
		token("reader", `roles: [admin-read], topics: [orders], clients: [till]`))
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		ctx := context.Background()
		setRateLimit(t, in, &pb.SetRateLimitRequest{ClientId: "shop", Direction: publishing, BytesPerSecond: 100})
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "payments", Direction: publishing, EventsPerSecond: 1e6})
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "orders", Direction: publishing, EventsPerSecond: 1e6})
		shop, till := meshAs(in, "shop"), meshAs(in, "till")
		if _, err := shop.Publish(ctx, request("orders", 100)); err != nil {
			t.Errorf("a large one when all was quiet: %v", err)
		}
		_, err := shop.Publish(ctx, request("payments", 1))
		if wait := tooFast(t, status.Convert(err)); wait < time.Second {
			t.Errorf("after 400 bytes at 100 a second: wait %v", wait)
		}
		for range 10 {
			if _, err := till.Publish(ctx, request("orders", 100)); err != nil {
				t.Errorf("another token: %v", err)
			}
		}
		list, err := adminAs(in, "reader").ListRateLimits(ctx, &pb.ListRateLimitsRequest{})
		if err != nil || len(list.GetRateLimits()) != 1 || list.GetRateLimits()[0].GetTopic() != "orders" {
			t.Errorf("the reader sees %v, %v", list, err)
		}
		_, err = adminAs(in, "reader").SetRateLimit(ctx, &pb.SetRateLimitRequest{Topic: "orders", Direction: publishing})
		denied(t, "set by one who reads", err, "role admin")
	})
}

// TestDeliverRateLimit: deliveries beyond the rate wait, all come in the end, and
// others on the topic do not wait for them.
func TestDeliverRateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		setRateLimit(t, in, &pb.SetRateLimitRequest{ClientId: "slow", Direction: delivering, EventsPerSecond: 10})
		slow, fast := Open(t, in.Mesh(), open("slow", Sub("t", broadcast))), Open(t, in.Mesh(), open("fast", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(100)...)
		begin := time.Now()
		fast.AckDurable(fast.Take(100)...)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("another subscriber waited %v", took)
		}
		for n := 1; n <= 100; n++ {
			got := slow.Take(1)
			at := time.Since(begin)
			if most := 10*at.Seconds() + 11; float64(n) > most {
				t.Fatalf("%d deliveries in %v at 10 a second", n, at)
			}
			slow.AckDurable(got...)
		}
		if took := time.Since(begin); took < 8*time.Second || took > 11*time.Second {
			t.Errorf("100 deliveries at 10 a second took %v", took)
		}
		if n := metrics(t, in)["deliver_rate_limited_total"]; n == 0 {
			t.Error("no pause was counted")
		}

		Publish(t, in.Mesh(), "t", Numbers(100)...)
		slow.Take(1)
		setRateLimit(t, in, &pb.SetRateLimitRequest{ClientId: "slow", Direction: delivering})
		begin = time.Now()
		slow.Take(99)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("after the limit was removed the rest took %v", took)
		}
	})
}

// TestDeliverRateLimitOfAShare: who is held back does not keep from others of the
// share what they can have.
func TestDeliverRateLimitOfAShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "t", ClientId: "slow", Direction: delivering, EventsPerSecond: 1})
		sub := shareSub("t", "s")
		slow, fast := Open(t, in.Mesh(), open("slow", sub)), Open(t, in.Mesh(), open("fast", sub))
		Publish(t, in.Mesh(), "t", Numbers(500)...)
		if !fast.Await(time.Second, 490) {
			t.Errorf("%d came on the stream that is not held back", len(fast.Pending()))
		}
		if n := len(slow.Pending()); n > 3 {
			t.Errorf("%d came in a second at 1 a second", n)
		}
	})
}

// TestRateLimitRefused: what cannot be kept is refused, and listing shows what is.
func TestRateLimitRefused(t *testing.T) {
	in := Start(t, Options{})
	ctx, admin := context.Background(), in.Admin()
	for _, req := range []*pb.SetRateLimitRequest{
		{Topic: "t", EventsPerSecond: 1},
		{Topic: "t", Direction: publishing, EventsPerSecond: -1},
		{Topic: "t\x00", Direction: publishing, EventsPerSecond: 1},
		{ClientId: "c\n", Direction: delivering, EventsPerSecond: 1},
		{Direction: 7, EventsPerSecond: 1},
	} {
		if _, err := admin.SetRateLimit(ctx, req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
	setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "t", ClientId: "c", Direction: delivering, EventsPerSecond: 5, BytesPerSecond: 6})
	list, err := admin.ListRateLimits(ctx, &pb.ListRateLimitsRequest{})
	want := &pb.ListRateLimitsResponse{RateLimits: []*pb.RateLimit{{Topic: "t", ClientId: "c", Direction: delivering, EventsPerSecond: 5, BytesPerSecond: 6}}}
	if err != nil || !proto.Equal(list, want) {
		t.Errorf("listed: %v, %v", list, err)
	}
}

// TestDeliverRateLimitOfManyLites: lite topics that a limit holds back do not wake
// one another: what they cost rises with their number, not with its square.
func TestDeliverRateLimitOfManyLites(t *testing.T) {
	const lites, seconds, each = 100, 5, 20
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		setRateLimit(t, in, &pb.SetRateLimitRequest{ClientId: "c", Direction: delivering, EventsPerSecond: 50})
		fillLites(t, in.Lite(), lites, each)
		s := OpenLite(t, in.Lite(), openLite("c", liteNames(lites)...))
		<-time.After(seconds * time.Second)
		// All who look at once for what may be sent see the same; that is made up for later.
		if n := len(s.Pending()); n < 50*seconds || n > 50*(seconds+1)+1+lites {
			t.Errorf("%d deliveries in %d s at 50 a second", n, seconds)
		}
		if turns := metrics(t, in)["deliver_rate_limited_total"]; turns > lites*seconds*100 {
			t.Errorf("%d lite topics took %v turns in %d s", lites, turns, seconds)
		}
	})
}

package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

func small(c *server.Config) { c.Limits.PublishBytes, c.Limits.PublishEvents = server.KiB, 5 }

// TestPublishBounds: a request beyond limits.publish-bytes or limits.publish-events is
// refused with the bound, which a stream tells at its beginning and which does not end
// it. Other calls are not concerned.
func TestPublishBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: small})
		mesh, ctx := in.Mesh(), context.Background()
		large := request("t", 1)
		large.Events[0].Data = make([]byte, 100_000)
		for _, c := range []struct {
			req  *pb.PublishRequest
			code codes.Code
			text string
		}{
			{large, codes.ResourceExhausted, "at most 1024"},
			{request("t", 6), codes.InvalidArgument, "more than 5 events"},
			{request("t", 5), codes.OK, ""},
		} {
			_, err := mesh.Publish(ctx, c.req)
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.text) {
				t.Errorf("alone: %v, want %v with %q", err, c.code, c.text)
			}
			stream, err := mesh.PublishStream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			header, err := stream.Header()
			if err != nil || strings.Join(header.Get("ackmesh-publish-bytes"), "") != "1024" || strings.Join(header.Get("ackmesh-publish-events"), "") != "5" {
				t.Errorf("header %v, %v", header, err)
			}
			for _, req := range []*pb.PublishRequest{c.req, request("t", 1)} {
				if err := stream.Send(req); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range []codes.Code{c.code, codes.OK} {
				res, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if st := status.FromProto(res.GetStatus()); st.Code() != want || i == 0 && !strings.Contains(st.Message(), c.text) {
					t.Errorf("in a stream: %v, want %v with %q", st, want, c.text)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
		}
		o := open("c", Sub("t", broadcast))
		for i := range 500 {
			o.Resume = append(o.Resume, &pb.Position{Topic: "t", Partition: fmt.Sprint(i, strings.Repeat("p", 200)), NextOffset: 1})
		}
		raw, err := mesh.Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: o}}); err != nil {
			t.Fatal(err)
		}
		if res, err := raw.Recv(); res.GetOpened() == nil {
			t.Errorf("Open of many positions: %v, %v", res, err)
		}
		if err := raw.CloseSend(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPublishManyEvents: limits.publish-events may be raised.
func TestPublishManyEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Limits.PublishEvents = 30_000 }})
		res, err := in.Mesh().Publish(context.Background(), request("t", 25_000))
		if err != nil || len(res.GetEvents()) != 25_000 || res.GetStatus().GetCode() != 0 {
			t.Errorf("%d answers, %v, %v", len(res.GetEvents()), res.GetStatus(), err)
		}
	})
}

// TestPublishToASmallServer: the Go client publishes to a server that takes smaller
// requests than it makes, and is told which event no request can hold.
func TestPublishToASmallServer(t *testing.T) {
	for name, size := range map[string]int{"answered": 3000, "broken": 8 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := Start(t, Options{Config: small})
				c := client(t, in, "c1")
				var results []ackmesh.Result
				take := func(r ackmesh.Result) { results = append(results, r) }
				for i := range 200 {
					e := ackmesh.NewEvent("t", make([]byte, 100))
					if i == 100 {
						e.Data = make([]byte, size)
						for k := range 30 {
							e.Set(fmt.Sprint("a", k), strings.Repeat("v", 4000))
						}
					}
					if err := c.PublishAsync(t.Context(), "orders", e, take); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				failed := 0
				for _, r := range results {
					if r.Err == nil {
						continue
					}
					failed++
					if status.Code(r.Err) != codes.ResourceExhausted || !strings.Contains(r.Err.Error(), "at most 1024") {
						t.Error(r.Err)
					}
				}
				if len(results) != 200 || failed != 1 {
					t.Errorf("%d results, %d failures", len(results), failed)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				in.Stop()
			})
		})
	}
}

// TestPublishAsFastAsAllowed: the Go client waits as a rate limit says; nothing fails,
// and little is sent to be refused.
func TestPublishAsFastAsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		setRateLimit(t, in, &pb.SetRateLimitRequest{Topic: "orders", Direction: publishing, EventsPerSecond: 100})
		c := client(t, in, "c1")
		begun := time.Now()
		for range 3000 {
			err := c.PublishAsync(t.Context(), "orders", ackmesh.NewEvent("t", nil), func(r ackmesh.Result) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < 27*time.Second || d > 35*time.Second {
			t.Errorf("3000 events at 100 a second took %v", d)
		}
		if n := metrics(t, in)["publish_rate_limited_total"]; n > 4*3000 {
			t.Errorf("%v events were refused, of 3000", n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		in.Stop()
	})
}

package ackmesh

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// bounded makes an instance tell that it takes requests of so many bytes and events,
// and take no other. refused counts.
func bounded(m *fake, bytes, events int) (refused *atomic.Int32) {
	refused = new(atomic.Int32)
	m.set(func(m *fake) {
		m.header = metadata.Pairs(bytesHeader, strconv.Itoa(bytes), eventsHeader, strconv.Itoa(events))
		m.publish = func(r *pb.PublishRequest) *pb.PublishResponse {
			switch {
			case proto.Size(r) > bytes:
				refused.Add(1)
				return &pb.PublishResponse{Status: &spb.Status{Code: int32(codes.ResourceExhausted)}}
			case len(r.Events) > events:
				refused.Add(1)
				return &pb.PublishResponse{Status: &spb.Status{Code: int32(codes.InvalidArgument)}}
			}
			return accepted(r)
		}
	})
	return refused
}

// TestPublishWithinTheServersBounds: requests are as large as the server says, also
// those that were made, or sent, before it did. An event that is alone too large fails
// by itself.
func TestPublishWithinTheServersBounds(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		refused := bounded(m, 2000, 7)
		answered := 0
		tell := func(r Result) {
			if answered++; r.Err != nil {
				t.Error(r.Err)
			}
		}
		publishN(t, c, 300, tell)
		huge := make(chan Result, 1)
		if err := c.PublishAsync(t.Context(), "orders", NewEvent("huge", make([]byte, 5000)), func(r Result) { huge <- r }); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if answered != 300 {
			t.Errorf("%d of 300 events are answered when Flush returns", answered)
		}
		r := <-huge
		if status.Code(r.Err) != codes.ResourceExhausted {
			t.Errorf("the large event: %v", r.Err)
		}
		contains(t, r.Err, "2000", "limits.publish-bytes")
		before := refused.Load()
		publishN(t, c, 300, tell)
		_, err := c.Publish(t.Context(), "orders", NewEvent("huge", make([]byte, 5000)))
		contains(t, err, "2000", "limits.publish-bytes")
		if err := c.Flush(t.Context()); err != nil || answered != 600 {
			t.Errorf("%d of 600 events are answered: %v", answered, err)
		}
		if more := refused.Load() - before; more > 0 {
			t.Errorf("%d requests were refused after the server had told its bounds", more)
		}
	})
}

// TestPublishInPartsKeepsOrder: what is sent in parts, since the server took it for too
// large, goes before what is sent later.
func TestPublishInPartsKeepsOrder(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		publishN(t, c, 1, nil)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		m.set(func(m *fake) { m.hold = hold })
		for range maxPartial {
			publishN(t, c, 1, nil)
			synctest.Wait()
		}
		publishN(t, c, 100, nil)
		bounded(m, 1000, 5) // told on the next stream
		m.set(func(m *fake) { m.breakAt = 1 })
		close(hold)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := 0
		for _, r := range m.received() {
			for _, e := range r.Events {
				if len(r.Events) <= 5 && string(e.Data) == fmt.Sprint(next) {
					next++
				}
			}
		}
		if next != 100 {
			t.Errorf("only %d of 100 events came in order", next)
		}
	})
}

// TestPublishPastAForeignBound: where the server does not tell its bound, and gRPC
// breaks the stream of who does not keep to it, requests shrink until they go through,
// and an event that is alone too large fails by itself.
func TestPublishPastAForeignBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		var streams atomic.Int32
		n.options = append(n.options, grpc.MaxRecvMsgSize(5000), grpc.StreamInterceptor(
			func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				streams.Add(1)
				return handler(srv, ss)
			}))
		n.start("a")
		c := n.client(nil, "a")
		body := make([]byte, 800)
		var failed, answered int
		for i := range 200 {
			e := NewEvent("made", body)
			if i == 77 {
				e.Data = make([]byte, 6000)
			}
			err := c.PublishAsync(t.Context(), "orders", e, func(r Result) {
				if answered++; r.Err == nil {
					return
				}
				failed++
				if status.Code(r.Err) != codes.ResourceExhausted || i != 77 {
					t.Errorf("event %d: %v", i, r.Err)
				}
				contains(t, r.Err, "6", "larger than max", "make it smaller")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if answered != 200 || failed != 1 || time.Since(begun) > 10*time.Second {
			t.Errorf("%d answered, %d failed, after %v", answered, failed, time.Since(begun))
		}
		before := streams.Load()
		for range 200 {
			if err := c.PublishAsync(t.Context(), "orders", NewEvent("made", body), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if streams.Load() != before || before > 10 {
			t.Errorf("%d streams, then %d more", before, streams.Load()-before)
		}
		closeClient(t, c)
	})
}

// TestPublishElsewhereWithMoreRoom: an event that was too large for one server, which
// has gone, is not for the next one.
func TestPublishElsewhereWithMoreRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		bounded(m, 2000, 7)
		c := n.client(nil, "a")
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Fatal(err)
		}
		m.stop()
		synctest.Wait()
		done := make(chan Result, 1)
		if err := c.PublishAsync(t.Context(), "orders", NewEvent("a", make([]byte, 5000)), func(r Result) { done <- r }); err != nil {
			t.Fatal(err)
		}
		bounded(n.start("a"), 20_000, 7)
		if r := <-done; r.Err != nil {
			t.Error(r.Err)
		}
		closeClient(t, c)
	})
}

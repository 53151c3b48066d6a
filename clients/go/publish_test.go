package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// publishing runs a test with one instance and one client.
func publishing(t *testing.T, change func(*Config), f func(t *testing.T, c *Client, m *fake)) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(change, "a")
		f(t, c, m)
		closeClient(t, c)
	})
}

func TestPublishWaitsForTheAnswer(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		e := NewEvent("made", []byte("x")).Set("id", "my-id")
		rs, err := c.Publish(t.Context(), "orders", e, NewEvent("made", nil))
		if err != nil {
			t.Fatal(err)
		}
		if rs[0].ID != "my-id" || rs[0].Partition != "0" || rs[1].Partition != "0" {
			t.Errorf("results %+v", rs)
		}
		var events []*pb.EventMeshFrame
		for _, r := range m.received() {
			if r.Topic != "orders" {
				t.Errorf("topic %q", r.Topic)
			}
			events = append(events, r.Events...)
		}
		if got := events[1].Attributes; got["id"] == "" || got["source"] != "/clients/c1" || got["type"] != "made" {
			t.Errorf("attributes %v: id and source must be filled in", got)
		}
		if rs[1].ID != events[1].Attributes["id"] {
			t.Errorf("the result says id %q, the event had %q", rs[1].ID, events[1].Attributes["id"])
		}
	})
}

// TestPublishBatches: while the server is busy, events gather in full requests; the
// first goes alone, at once.
func TestPublishBatches(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		hold := make(chan struct{})
		m.set(func(m *fake) { m.hold = hold })
		begun := time.Now()
		publishN(t, c, 1, nil)
		synctest.Wait()
		if got := m.received(); len(got) != 1 || time.Since(begun) != 0 {
			t.Fatalf("%d requests after %v: the first event must go at once", len(got), time.Since(begun))
		}
		var wg sync.WaitGroup
		wg.Add(1000)
		publishN(t, c, 1000, func(r Result) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			wg.Done()
		})
		synctest.Wait()
		close(hold)
		wg.Wait()
		total, requests := 0, m.received()
		for _, r := range requests {
			total += len(r.Events)
			if len(r.Events) > 64 || proto.Size(r) > 48<<10+100 {
				t.Errorf("a request of %d events and %d bytes", len(r.Events), proto.Size(r))
			}
		}
		if total != 1001 || len(requests) > 40 {
			t.Errorf("%d events in %d requests", total, len(requests))
		}
	})
}

func publishN(t *testing.T, c *Client, n int, done func(Result)) {
	t.Helper()
	for i := range n {
		if err := c.PublishAsync(t.Context(), "orders", NewEvent("made", fmt.Append(nil, i)), done); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPublishKeepsOrder(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		m.set(func(m *fake) { m.breakAt = 3 })
		publishN(t, c, 500, nil)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		last := map[string]int{}
		for i, r := range m.received() {
			for k, e := range r.Events {
				last[string(e.Data)] = i*1000 + k
			}
		}
		for i := 1; i < 500; i++ {
			if last[fmt.Sprint(i)] <= last[fmt.Sprint(i-1)] {
				t.Fatalf("event %d was last sent before event %d", i, i-1)
			}
		}
	})
}

func TestPublishOneBadEventDoesNotHideTheOthers(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		m.set(func(m *fake) {
			m.publish = func(r *pb.PublishRequest) *pb.PublishResponse {
				a := accepted(r)
				for i, e := range r.Events {
					if e.Attributes["id"] == "bad" {
						a.Events[i].Status = &spb.Status{Code: int32(codes.InvalidArgument), Message: "no"}
						a.Status = a.Events[i].Status
					}
				}
				return a
			}
		})
		huge := NewEvent("made", make([]byte, 9<<20))
		rs, err := c.Publish(t.Context(), "orders", NewEvent("a", nil), NewEvent("b", nil).Set("id", "bad"), huge, NewEvent("c", nil))
		contains(t, err, "2 of 4")
		for i, want := range []codes.Code{codes.OK, codes.InvalidArgument, codes.InvalidArgument, codes.OK} {
			if got := status.Code(rs[i].Err); got != want {
				t.Errorf("event %d: %v, want %v", i, got, want)
			}
		}
	})
}

// TestPublishRepeatsWithTheSameID: an event answered UNAVAILABLE is sent again with
// the id and source it had, so that the server recognises it.
func TestPublishRepeatsWithTheSameID(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint("whole request: ", whole), func(t *testing.T) {
			publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
				calls := 0
				m.set(func(m *fake) {
					m.publish = func(r *pb.PublishRequest) *pb.PublishResponse {
						if calls++; calls > 2 {
							return accepted(r)
						}
						return unavailable(r, whole)
					}
				})
				begun := time.Now()
				rs, err := c.Publish(t.Context(), "orders", NewEvent("a", []byte("payload")))
				if err != nil || rs[0].Offset != 0 {
					t.Fatal(rs, err)
				}
				if d := time.Since(begun); d < 100*time.Millisecond || d > time.Second {
					t.Errorf("two repeats took %v, want two pauses of 50 to 200 ms", d)
				}
				got := m.received()
				if len(got) != 3 {
					t.Fatalf("%d requests, want 3", len(got))
				}
				for _, r := range got[1:] {
					if !proto.Equal(r.Events[0], got[0].Events[0]) {
						t.Errorf("repeated as %v, was %v", r.Events[0], got[0].Events[0])
					}
				}
			})
		})
	}
}

func unavailable(r *pb.PublishRequest, whole bool) *pb.PublishResponse {
	st := &spb.Status{Code: int32(codes.Unavailable), Message: "later"}
	if whole {
		return &pb.PublishResponse{Status: st}
	}
	a := accepted(r)
	for _, e := range a.Events {
		e.Status = st
	}
	return a
}

func TestPublishPermanentErrorIsNotRetried(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		m.set(func(m *fake) { m.openError = status.Error(codes.PermissionDenied, "not you") })
		_, err := c.Publish(t.Context(), "orders", NewEvent("a", nil))
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v", err)
		}
		m.set(func(m *fake) { m.openError = nil })
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Errorf("after the reason is gone: %v", err)
		}
	})
}

// TestPublishBackpressure: at the limit of bytes in flight, publishing blocks until
// something is answered or the context ends.
func TestPublishBackpressure(t *testing.T) {
	publishing(t, func(c *Config) { c.Publish.MaxInFlightBytes = 5000 }, func(t *testing.T, c *Client, m *fake) {
		hold := make(chan struct{})
		m.set(func(m *fake) { m.hold = hold })
		body := make([]byte, 2000)
		for range 2 {
			if err := c.PublishAsync(t.Context(), "orders", NewEvent("a", body), nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.PublishAsync(ctx, "orders", NewEvent("a", body), func(Result) { t.Error("called for an event that was not taken") })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		contains(t, err, "5000 bytes")
		close(hold)
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", make([]byte, 20_000))); err != nil {
			t.Errorf("an event above the limit goes alone: %v", err)
		}
	})
}

func TestPublishTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(func(c *Config) { c.Publish.Timeout = 20 * time.Second }, "nobody")
		begun := time.Now()
		rs, err := c.Publish(t.Context(), "orders", NewEvent("a", nil), NewEvent("a", nil).Set(AttrID, "mine"))
		contains(t, err, "20s", "nobody")
		if len(rs[0].ID) < 10 || rs[1].ID != "mine" { // what to publish again with
			t.Errorf("ids of events whose fate is open: %q, %q", rs[0].ID, rs[1].ID)
		}
		if d := time.Since(begun); d < 20*time.Second || d > 26*time.Second {
			t.Errorf("given up after %v", d)
		}
		closeClient(t, c)
	})
}

// TestPublishUnansweredBreaksTheStream: a server that takes requests and never
// answers is left.
func TestPublishUnansweredBreaksTheStream(t *testing.T) {
	publishing(t, func(c *Config) { c.Publish.Timeout = 10 * time.Second }, func(t *testing.T, c *Client, m *fake) {
		m.set(func(m *fake) { m.hold = make(chan struct{}) })
		_, err := c.Publish(t.Context(), "orders", NewEvent("a", nil))
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		m.set(func(m *fake) { m.hold = nil })
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Errorf("on a new stream: %v", err)
		}
	})
}

func TestPublishContextEnds(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		hold := make(chan struct{})
		m.set(func(m *fake) { m.hold = hold })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Publish(ctx, "orders", NewEvent("a", nil))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		contains(t, err, "fate is open")
		close(hold)
	})
}

// TestPublishSurvivesRestart: what is published while no server is there arrives
// once one is, and what was unanswered arrives again.
func TestPublishSurvivesRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(m *fake) { m.hold = make(chan struct{}) })
		c := n.client(nil, "a")
		done := make(chan Result, 2)
		ok := func(r Result) { done <- r }
		publishN(t, c, 1, ok)
		synctest.Wait()
		m.stop()
		publishN(t, c, 1, ok)
		<-time.After(3 * time.Second)
		n.start("a")
		for range 2 {
			if r := <-done; r.Err != nil {
				t.Error(r.Err)
			}
		}
		closeClient(t, c)
	})
}

// TestPublishLetsTheServerStop: an idle publish stream does not hold up a server
// that stops gracefully, and what is published meanwhile goes elsewhere.
func TestPublishLetsTheServerStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.start("a"), n.start("b")
		c := n.client(nil, "a", "b")
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Fatal(err)
		}
		used, other := a, b
		if len(b.received()) > 0 {
			used, other = b, a
		}
		begun := time.Now()
		used.srv.GracefulStop()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the server stopped after %v", d)
		}
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil || len(other.received()) != 1 {
			t.Errorf("%v, %d requests at the other", err, len(other.received()))
		}
		closeClient(t, c)
	})
}

func TestCloseAnswersAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		hold := make(chan struct{})
		m.set(func(m *fake) { m.hold = hold })
		c := n.client(nil, "a")
		answered := 0
		publishN(t, c, 100, func(r Result) {
			if answered++; r.Err != nil {
				t.Error(r.Err)
			}
		})
		time.AfterFunc(time.Second, func() { close(hold) })
		closeClient(t, c)
		if answered != 100 {
			t.Errorf("%d of 100 answered before Close returned", answered)
		}
		if err := c.PublishAsync(t.Context(), "orders", NewEvent("a", nil), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(m *fake) { m.hold = make(chan struct{}) })
		c := n.client(func(c *Config) { c.CloseTimeout = 3 * time.Second }, "a")
		var got error
		publishN(t, c, 1, func(r Result) { got = r.Err })
		if err := c.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if !errors.Is(got, ErrClosed) {
			t.Errorf("the event: %v", got)
		}
	})
}

func TestBadEvents(t *testing.T) {
	many := &Event{}
	for i := range 57 {
		many.Set(fmt.Sprint("a", i), "v")
	}
	full := &Event{Attributes: many.Attributes[:55]}
	for name, c := range map[string]struct {
		event *Event
		names string
	}{
		"nil":          {nil, "nil"},
		"too many":     {many, "57 attributes"},
		"no room left": {full, "57 attributes with the id and source"},
		"empty name":   {(&Event{}).Set("", "v"), "no name"},
		"long name":    {(&Event{}).Set(strings.Repeat("n", 257), "v"), "257 bytes"},
		"long value":   {(&Event{}).Set("n", strings.Repeat("v", 4097)), "4097 bytes"},
		"value text":   {(&Event{}).Set("n", "\xff"), "UTF-8"},
		"name text":    {(&Event{}).Set("\xff", "v"), "UTF-8"},
		"data":         {&Event{Data: make([]byte, 8<<20+1)}, "8388609 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			cl := n.client(nil, "nobody")
			err := cl.PublishAsync(t.Context(), "orders", c.event, func(Result) { t.Error("called") })
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("got %v", err)
			}
			contains(t, err, c.names)
			closeClient(t, cl)
		})
	}
}

func TestBadTopic(t *testing.T) {
	n := newNetwork(t)
	c := n.client(nil, "nobody")
	for _, topic := range []string{"", "a\x00b", strings.Repeat("t", 256), "\xff"} {
		if _, err := c.Publish(t.Context(), topic, NewEvent("a", nil)); err == nil {
			t.Errorf("topic %q was taken", topic)
		}
	}
	closeClient(t, c)
}

func TestBigEventGoesAlone(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		big := NewEvent("big", make([]byte, 8<<20-1000))
		m.srv.GetServiceInfo()
		rs, err := c.Publish(t.Context(), "orders", NewEvent("a", nil), NewEvent("b", make([]byte, 3<<20)), NewEvent("c", nil))
		if err != nil {
			t.Fatal(err, rs)
		}
		for _, r := range m.received() {
			if len(r.Events) > 1 && proto.Size(r) > 3<<20 {
				t.Errorf("%d events travel with the big one", len(r.Events))
			}
		}
		if err := big.check(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloudEvent(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	e := (&CloudEvent{
		ID: "1", Source: "/s", Type: "t", Subject: "sub", Time: at, DataContentType: "text/plain",
		DataSchema: "urn:x", Extensions: map[string]string{"partitionkey": "k", "id": "overridden"}, Data: []byte("d"),
	}).Event().SetTTL(1500 * time.Microsecond)
	for name, want := range map[string]string{
		"id": "1", "source": "/s", "type": "t", "subject": "sub", "time": "2026-01-02T02:04:05.000000678Z",
		"datacontenttype": "text/plain", "dataschema": "urn:x", "partitionkey": "k", "emttl": "2",
	} {
		if got, ok := e.Get(name); !ok || got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if _, ok := e.Get("none"); ok {
		t.Error("an attribute that is not there was found")
	}
}

package ackmesh

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// tooFast is a refusal for the rate.
func tooFast(t *testing.T, wait time.Duration) *status.Status {
	t.Helper()
	st, err := status.New(codes.ResourceExhausted, "too fast").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// answers makes an instance answer requests with these statuses, then OK, and says
// when each came.
func answers(m *fake, whole bool, statuses ...*spb.Status) (came func() []time.Time) {
	var at []time.Time
	m.set(func(m *fake) {
		m.publish = func(r *pb.PublishRequest) *pb.PublishResponse {
			m.set(func(*fake) { at = append(at, time.Now()) })
			if len(statuses) == 0 {
				return accepted(r)
			}
			st := statuses[0]
			statuses = statuses[1:]
			if whole {
				return &pb.PublishResponse{Status: st}
			}
			a := accepted(r)
			for _, e := range a.Events {
				e.Status = st
			}
			return a
		}
	})
	return func() (all []time.Time) {
		m.set(func(*fake) { all = append(all, at...) })
		return all
	}
}

// TestPublishWaitsAsTold: what was refused for its rate is sent again, as it was, when
// the answer says.
func TestPublishWaitsAsTold(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint("whole request: ", whole), func(t *testing.T) {
			publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
				came := answers(m, whole, tooFast(t, 3*time.Second).Proto(), tooFast(t, 20*time.Second).Proto())
				if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
					t.Fatal(err)
				}
				at, got := came(), m.received()
				if len(at) != 3 {
					t.Fatalf("%d requests, want 3", len(at))
				}
				for i, want := range []time.Duration{3 * time.Second, 20 * time.Second} {
					if d := at[i+1].Sub(at[i]); d < want || d > want+10*time.Millisecond {
						t.Errorf("repeat %d came after %v, told was %v", i+1, d, want)
					}
					if !proto.Equal(got[i+1].Events[0], got[0].Events[0]) {
						t.Errorf("repeated as %v, was %v", got[i+1].Events[0], got[0].Events[0])
					}
				}
			})
		})
	}
}

// TestPublishKeepsBackWhatIsTooFast: while a topic is published to too fast, its other
// requests are not sent to be refused, keep their order, and other topics are not
// kept back.
func TestPublishKeepsBackWhatIsTooFast(t *testing.T) {
	publishing(t, func(c *Config) { c.Publish.MaxBatchEvents = 10 }, func(t *testing.T, c *Client, m *fake) {
		refused, stored := 0, 0
		var free time.Time
		m.set(func(m *fake) {
			m.publish = func(r *pb.PublishRequest) *pb.PublishResponse { // a request a second
				if wait := time.Until(free); wait > 0 && r.Topic == "orders" {
					refused++
					return &pb.PublishResponse{Status: tooFast(t, wait).Proto()}
				}
				if r.Topic == "orders" {
					free = time.Now().Add(time.Second)
					for _, e := range r.Events {
						if string(e.Data) != fmt.Sprint(stored) {
							t.Errorf("event %s is stored as number %d", e.Data, stored)
						}
						stored++
					}
				}
				return accepted(r)
			}
		})
		publishN(t, c, 10, nil)
		synctest.Wait()
		for i := 10; i < 200; i++ {
			if err := c.PublishAsync(t.Context(), "orders", NewEvent("made", fmt.Append(nil, i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		synctest.Wait()
		if _, err := c.Publish(t.Context(), "other", NewEvent("made", nil)); err != nil || time.Since(begun) > 0 {
			t.Errorf("another topic was answered after %v: %v", time.Since(begun), err)
		}
		first := refused
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); stored != 200 || d < 18*time.Second || d > 30*time.Second {
			t.Errorf("%d events stored in %v, want 200 at ten a second", stored, d)
		}
		if more := refused - first; more > 3*20 {
			t.Errorf("%d requests were sent to be refused, for 20 that were stored", more)
		}
	})
}

// TestPublishRefusedForGood: a refusal whose wait is longer than the event has, or that
// tells none, is the result; one that comes again and again is it in the end.
func TestPublishRefusedForGood(t *testing.T) {
	size := &spb.Status{Code: int32(codes.ResourceExhausted), Message: "too large"}
	unavailable := &spb.Status{Code: int32(codes.Unavailable), Message: "later"}
	for name, c := range map[string]struct {
		statuses []*spb.Status
		code     codes.Code
		after    time.Duration
	}{
		"too long":        {[]*spb.Status{tooFast(t, time.Hour).Proto()}, codes.ResourceExhausted, 0},
		"no time":         {[]*spb.Status{size}, codes.ResourceExhausted, 0},
		"a negative time": {[]*spb.Status{tooFast(t, -time.Second).Proto()}, codes.ResourceExhausted, 0},
		"tried before":    {[]*spb.Status{unavailable, tooFast(t, time.Hour).Proto()}, codes.DeadlineExceeded, 100 * time.Millisecond},
		"again and again": {[]*spb.Status{tooFast(t, 7*time.Second).Proto(), tooFast(t, 7*time.Second).Proto(), tooFast(t, 7*time.Second).Proto()}, codes.ResourceExhausted, 14 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			publishing(t, func(c *Config) { c.Publish.Timeout = 20 * time.Second }, func(t *testing.T, cl *Client, m *fake) {
				came := answers(m, true, c.statuses...)
				begun := time.Now()
				_, err := cl.Publish(t.Context(), "orders", NewEvent("a", nil))
				if status.Code(err) != c.code {
					t.Errorf("got %v, want %v", err, c.code)
				}
				contains(t, err, "too")
				if d := time.Since(begun); d > c.after+10*time.Millisecond || len(came()) != len(c.statuses) {
					t.Errorf("%d requests, the result after %v", len(came()), d)
				}
			})
		})
	}
}

// TestPublishKeptBackTooLong: an event that was never sent, since its topic was kept
// back, is told so.
func TestPublishKeptBackTooLong(t *testing.T) {
	publishing(t, func(c *Config) { c.Publish.Timeout = 20 * time.Second }, func(t *testing.T, c *Client, m *fake) {
		all := make([]*spb.Status, 100)
		for i := range all {
			all[i] = tooFast(t, 19*time.Second).Proto()
		}
		came := answers(m, true, all...)
		publishN(t, c, 1, nil)
		synctest.Wait()
		done := make(chan Result, 1)
		publishN(t, c, 1, func(r Result) { done <- r })
		r := <-done
		if status.Code(r.Err) != codes.ResourceExhausted || len(came()) > 3 {
			t.Errorf("%v, after %d requests", r.Err, len(came()))
		}
	})
}

// TestPublishStreamRefusedForItsRate: a stream that was refused for the rate of calls
// is not opened again before the time.
func TestPublishStreamRefusedForItsRate(t *testing.T) {
	publishing(t, nil, func(t *testing.T, c *Client, m *fake) {
		m.set(func(m *fake) { m.openError = tooFast(t, 15*time.Second).Err() })
		time.AfterFunc(time.Second, func() { m.set(func(m *fake) { m.openError = nil }) })
		begun := time.Now()
		if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < 15*time.Second || d > 16*time.Second {
			t.Errorf("published after %v, told was 15s", d)
		}
	})
}

// TestStreamRefusedForItsRate: the same holds for a stream that subscribes.
func TestStreamRefusedForItsRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		m.set(func(m *fake) { m.openError = tooFast(t, 15*time.Second).Err() })
		time.AfterFunc(time.Second, func() { m.set(func(m *fake) { m.openError = nil }) })
		begun := time.Now()
		c := n.client(nil, "a")
		_, st := openStream(t, c, m, orders())
		if d := time.Since(begun); d < 15*time.Second || d > 16*time.Second {
			t.Errorf("opened after %v, told was 15s", d)
		}
		go st.serve()
		closeClient(t, c)
	})
}

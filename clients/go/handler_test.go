package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// handling runs a test with a Subscribe under way. end ends it and returns its
// error.
func handling(t *testing.T, change func(*SubscribeConfig), h Handler, f func(t *testing.T, m *fake, st *fakeStream, end func() error)) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		cfg := orders()
		if change != nil {
			change(&cfg)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Subscribe(ctx, cfg, h) }()
		defer closeClientQuietly(c)
		defer cancel()
		f(t, m, m.accept(t, at(0, 1)), func() error { cancel(); return <-ended })
	})
}

// closeClientQuietly closes a client whose subscription may be stuck on purpose.
func closeClientQuietly(c *Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Shutdown(ctx)
}

func TestHandlerAcksAndNacks(t *testing.T) {
	long := strings.Repeat("é", 600)
	verdicts := []error{
		nil,
		errors.New("broken"),
		RetryAfter(3*time.Second, errors.New("later")),
		fmt.Errorf("wrapped: %w", DeadLetter(errors.New("hopeless"))),
		ErrHold,
		errors.New(long),
		errors.New("bad \xff text"),
	}
	var held *Delivery
	handling(t, nil, func(_ context.Context, d *Delivery) error {
		if errors.Is(verdicts[d.Offset()], ErrHold) {
			held = d.Clone()
		}
		return verdicts[d.Offset()]
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(len(verdicts), 0)
		nacks := map[uint64]*pb.Nack{}
		for len(nacks) < 5 {
			m := st.recv()
			if a := m.GetAck(); a != nil && !slices.Equal(idsOf(a), []uint64{1000}) {
				t.Errorf("acked %v", idsOf(a))
			}
			for _, id := range idsOf(m.GetNack()) {
				nacks[id] = m.GetNack()
			}
		}
		if n := nacks[1001]; n.Reason != "broken" || n.Delay != nil || n.DeadLetter {
			t.Errorf("nack %v", n)
		}
		if n := nacks[1002]; n.Reason != "later" || n.Delay.AsDuration() != 3*time.Second {
			t.Errorf("nack %v", n)
		}
		if n := nacks[1003]; n.Reason != "wrapped: hopeless" || !n.DeadLetter {
			t.Errorf("nack %v", n)
		}
		if n := nacks[1005]; len(n.Reason) > 1024 || !utf8.ValidString(n.Reason) || len(n.Reason) < 1000 {
			t.Errorf("a reason of %d bytes", len(n.Reason))
		}
		if n := nacks[1006]; n.Reason != "bad \uFFFD text" {
			t.Errorf("nack %v", n)
		}
		if !held.Ack() {
			t.Error("what was held cannot be acked")
		}
		if got := st.recvAck(); !slices.Equal(got, []uint64{1004}) {
			t.Errorf("acked %v", got)
		}
	})
}

func TestPanicIsANack(t *testing.T) {
	handling(t, nil, func(_ context.Context, d *Delivery) error {
		switch d.Offset() {
		case 0:
			panic("boom")
		case 1:
			var m map[string]int
			m["x"] = 1 //nolint:staticcheck // it is to panic
		}
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(3, 0)
		reasons := map[uint64]string{}
		acked := false
		for len(reasons) < 2 || !acked {
			m := st.recv()
			for _, id := range idsOf(m.GetNack()) {
				reasons[id] = m.GetNack().Reason
			}
			acked = acked || slices.Equal(idsOf(m.GetAck()), []uint64{1002})
		}
		st.answer(durable, 1000, 1002)
		if reasons[1000] != "panic: boom" || !strings.Contains(reasons[1001], "nil map") {
			t.Errorf("reasons %v", reasons)
		}
		go st.serve()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestGoexitIsANack: a handler that ends its goroutine, as t.FailNow does, nacks.
func TestGoexitIsANack(t *testing.T) {
	handling(t, func(c *SubscribeConfig) { c.Concurrency = 2 }, func(_ context.Context, d *Delivery) error {
		if d.Offset() == 0 {
			runtime.Goexit()
		}
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(1, 0)
		if n := st.recv().GetNack(); n.GetReason() != errPanic.Error() {
			t.Errorf("nack %v", n)
		}
		st.deliver(1, 1)
		st.recvAcks(1)
		st.answer(durable, 1000, 1001)
		go st.serve()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrency(t *testing.T) {
	var now, most atomic.Int32
	handling(t, func(c *SubscribeConfig) { c.Concurrency = 7 }, func(context.Context, *Delivery) error {
		n := now.Add(1)
		for {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		<-time.After(time.Second)
		now.Add(-1)
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		begun := time.Now()
		for i := range 10 {
			st.deliver(7, int64(7*i))
		}
		st.recvAcks(70)
		if d := time.Since(begun); most.Load() != 7 || d > 11*time.Second {
			t.Errorf("%d at once, 70 handlers of 1 s took %v", most.Load(), d)
		}
	})
}

// TestOneHandlerKeepsOrder: with a concurrency of one, records are handled in the
// order in which they arrive.
func TestOneHandlerKeepsOrder(t *testing.T) {
	var got []int64
	handling(t, nil, func(_ context.Context, d *Delivery) error { got = append(got, d.Offset()); return nil },
		func(t *testing.T, m *fake, st *fakeStream, end func() error) {
			for i := range 50 {
				st.deliver(13, int64(13*i))
			}
			st.recvAcks(650)
			if !slices.IsSorted(got) || len(got) != 650 {
				t.Errorf("handled %v", got)
			}
		})
}

// TestSlowHandlerIsExtended: with a handler of ten minutes and an ack timeout of
// 30 s, deadlines are moved for it and for all that waits behind it.
func TestSlowHandlerIsExtended(t *testing.T) {
	handling(t, nil, func(context.Context, *Delivery) error { <-time.After(10 * time.Minute); return nil },
		func(t *testing.T, m *fake, st *fakeStream, end func() error) {
			deadline := map[uint64]time.Time{}
			first := st.deliver(300, 0)
			for id := first; id < first+300; id++ {
				deadline[id] = time.Now().Add(30 * time.Second)
			}
			for acked := 0; acked < 2; {
				m := st.recv()
				for _, id := range idsOf(m.GetExtend()) {
					if deadline[id].Before(time.Now()) {
						t.Fatalf("%d was moved %v too late", id, time.Since(deadline[id]))
					}
					deadline[id] = time.Now().Add(30 * time.Second)
				}
				for _, id := range idsOf(m.GetAck()) {
					delete(deadline, id)
					acked++
				}
			}
			for id, at := range deadline {
				if at.Before(time.Now()) {
					t.Fatalf("%d ran out at %v", id, at)
				}
			}
		})
}

// TestCleanEnd: nothing new is taken, running handlers finish, their acks are
// confirmed before the half-close, the rest is given back.
func TestCleanEnd(t *testing.T) {
	var begun, finished atomic.Int32
	handling(t, func(c *SubscribeConfig) { c.Concurrency = 3 }, func(ctx context.Context, d *Delivery) error {
		begun.Add(1)
		<-time.After(4 * time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		finished.Add(1)
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(10, 0)
		<-time.After(time.Second)
		acked := make(chan []uint64)
		go func() { acked <- st.serve() }()
		if err := end(); err != nil {
			t.Error(err)
		}
		if got := <-acked; len(got) != 3 || begun.Load() != 3 || finished.Load() != 3 {
			t.Errorf("acked %v, begun %d, finished %d", got, begun.Load(), finished.Load())
		}
	})
}

// TestGraceIsBounded: after the grace, handlers' contexts end, and what they did
// not finish is told.
func TestGraceIsBounded(t *testing.T) {
	handling(t, nil, func(ctx context.Context, d *Delivery) error { <-ctx.Done(); return ctx.Err() },
		func(t *testing.T, m *fake, st *fakeStream, end func() error) {
			st.deliver(5, 0)
			synctest.Wait()
			go st.serve()
			begun := time.Now()
			err := end()
			if d := time.Since(begun); d < DefaultGrace || d > DefaultGrace+time.Second {
				t.Errorf("ended after %v", d)
			}
			var left *CloseError
			if err != nil && !errors.As(err, &left) {
				t.Errorf("got %v", err)
			}
		})
}

// TestEndBeforeOpen: a subscription that never reached a server ends at once.
func TestEndBeforeOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(nil, "nobody")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := c.Subscribe(ctx, orders(), func(context.Context, *Delivery) error { return nil })
		if err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		closeClient(t, c)
	})
}

func TestCloseEndsSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		m := n.start("a")
		c := n.client(nil, "a")
		ended := make(chan error, 1)
		go func() {
			ended <- c.Subscribe(t.Context(), orders(), func(context.Context, *Delivery) error { return nil })
		}()
		st := m.accept(t)
		go st.serve()
		closeClient(t, c)
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := c.Subscribe(t.Context(), orders(), func(context.Context, *Delivery) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestQueuedOfABrokenStreamIsDropped: it cannot be acked and comes again, so
// handling it would only double the work.
func TestQueuedOfABrokenStreamIsDropped(t *testing.T) {
	var got []uint64
	var release chan struct{} // made in the bubble
	handling(t, nil, func(_ context.Context, d *Delivery) error {
		got = append(got, d.DeliveryID())
		<-release
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		release = make(chan struct{})
		st.deliver(10, 0)
		synctest.Wait()
		st.end(status.Error(codes.Unavailable, "gone"))
		st = m.accept(t)
		close(release)
		st.nextID = 2000
		st.deliver(2, 0)
		st.recvAcks(2)
		if !slices.Equal(got, []uint64{1000, 2000, 2001}) {
			t.Errorf("handled %v", got)
		}
	})
}

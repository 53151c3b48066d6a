package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestAckWhileFinishing: an ack that is made after the writer has collected acks, and
// before it looks whether all is finished, is collected before the stream ends.
func TestAckWhileFinishing(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(1, 0)
		d := recvN(t, s, 1)[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		w := &writer{session: s.sess}
		now := time.Now()
		w.gatherAcks(now)
		d.entry.Ack(d.index) // the ack is made, and not yet told to the writer
		if _, over := w.finish(now); over {
			t.Error("the stream ends with an ack that was not sent")
		}
		if _, over := w.finish(now.Add(2 * confirmFor)); !over {
			t.Error("the wait for it never ends")
		}
		w.over, w.confirmBy = false, time.Time{}
	})
}

// TestCloseWithAStuckServer: a server that reads nothing more does not hold up Close.
func TestCloseWithAStuckServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		n.options = []grpc.ServerOption{grpc.InitialWindowSize(64 << 10)}
		m := n.start("a")
		m.deaf = true
		c := n.client(nil, "a")
		s, st := openStream(t, c, m, orders())
		const many = 400
		st.deliver(many, 0)
		for i, d := range recvN(t, s, many) {
			d.Nack(errors.New(fmt.Sprint(i, strings.Repeat("x", 1000))))
		}
		synctest.Wait()
		begun := time.Now()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = s.Close(ctx) // in whatever way
		}()
		select {
		case <-closed:
			if d := time.Since(begun); d > 13*time.Second {
				t.Errorf("closed after %v", d)
			}
		case <-time.After(5 * time.Minute):
			t.Error("not closed after five minutes")
			s.cutLife()
			<-closed
		}
		m.stop()
		closeClientQuietly(c)
	})
}

// TestRecvWhileClosing: the end of its context ends Recv also while the stream waits
// for what is not finished.
func TestRecvWhileClosing(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(1, 0)
		d := recvN(t, s, 1)[0]
		closed := make(chan error)
		go func() { closed <- s.Close(context.Background()) }()
		st.recv()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		received := make(chan error, 1)
		go func() { _, err := s.Recv(ctx); received <- err }()
		select {
		case err := <-received:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Recv: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Recv does not end with its context")
		}
		d.Ack()
		st.serve()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// lapsing is a context that can end without telling anyone yet, as one does in the
// moment between its end and the calls that it makes.
type lapsing struct {
	context.Context
	ended atomic.Bool
}

func (c *lapsing) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// TestWakeIsPassedOn: who is woken for a batch, and does not take it since its context
// has ended, wakes the next.
func TestWakeIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newQueue()
		ctx := &lapsing{Context: context.Background()}
		first, second := make(chan *Batch, 1), make(chan *Batch, 1)
		go func() { first <- q.pop(ctx) }()
		synctest.Wait()
		go func() { second <- q.pop(context.Background()) }()
		synctest.Wait()
		ctx.ended.Store(true)
		q.put(&Batch{ds: make([]Delivery, 1)})
		synctest.Wait()
		if b := <-first; b != nil {
			t.Error("taken though the context has ended")
		}
		select {
		case b := <-second:
			if b == nil {
				t.Error("nothing taken")
			}
		default:
			t.Error("a batch lies in the queue, and who waits for one sleeps")
			q.close()
			<-second
		}
	})
}

// TestGoexitKeepsTheWorkers: handlers that end their goroutines do not use up those
// that handle the rest.
func TestGoexitKeepsTheWorkers(t *testing.T) {
	handling(t, nil, func(_ context.Context, d *Delivery) error {
		if d.Offset() < 3 {
			runtime.Goexit()
		}
		return nil
	}, func(t *testing.T, m *fake, st *fakeStream, end func() error) {
		st.deliver(4, 0)
		nacks, acks := 0, 0
		for nacks+acks < 4 {
			select {
			case m := <-st.in:
				nacks += len(idsOf(m.GetNack()))
				acks += len(idsOf(m.GetAck()))
			case <-time.After(time.Second):
				t.Fatalf("%d nacks, %d acks, then nothing: no worker is left", nacks, acks)
			}
		}
		if nacks != 3 || acks != 1 {
			t.Errorf("%d nacks, %d acks", nacks, acks)
		}
		st.answer(pb.AckResult_STATUS_DURABLE, 1000, 1003)
		go st.serve()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestEndedForGood: a stream that the server ends for good does not come back, although
// the notice about it is lost: the status says so too.
func TestEndedForGood(t *testing.T) {
	for reason, want := range map[string]error{"EVICTED": ErrEvicted, "SUPERSEDED": ErrSuperseded, "OTHER": nil} {
		t.Run(reason, func(t *testing.T) {
			streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
				end, err := status.New(codes.Aborted, "by an operator").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "ackmesh"})
				if err != nil {
					t.Fatal(err)
				}
				st.end(end.Err())
				if want == nil {
					m.accept(t)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = s.Recv(ctx)
				if !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				contains(t, err, "by an operator")
			})
		})
	}
}

// TestEndedForGoodWhileOpening: so does one that is ended before it was open.
func TestEndedForGoodWhileOpening(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		end, err := status.New(codes.ResourceExhausted, "by an operator").WithDetails(&errdetails.ErrorInfo{Reason: "EVICTED", Domain: "ackmesh"})
		if err != nil {
			t.Fatal(err)
		}
		st.end(status.Error(codes.Unavailable, "restarted"))
		m.next(t).end(end.Err())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Recv(ctx); !errors.Is(err, ErrEvicted) {
			t.Fatalf("got %v, want %v", err, ErrEvicted)
		}
	})
}

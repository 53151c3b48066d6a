package ackmesh

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestAcksInRanges: an ack after a pause goes at once; those that follow within the
// interval go together, as one range.
func TestAcksInRanges(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(40, 0)
		ds := recvN(t, s, 40)
		<-time.After(time.Second)
		begun := time.Now()
		ds[0].Ack()
		if got := st.recvAck(); !slices.Equal(got, []uint64{1000}) || time.Since(begun) != 0 {
			t.Errorf("first ack %v after %v", got, time.Since(begun))
		}
		for _, d := range ds[1:31] {
			d.Ack()
		}
		m1 := st.recv()
		if r := m1.GetAck().GetRanges(); len(r) != 1 || r[0].First != 1001 || r[0].Last != 1030 {
			t.Errorf("got %v, want one range", m1)
		}
		if d := time.Since(begun); d != DefaultAckInterval {
			t.Errorf("sent after %v, want %v", d, DefaultAckInterval)
		}
	})
}

// TestAnyOrderOfIds: the server numbers deliveries before it queues them, so that
// they may arrive in another order.
func TestAnyOrderOfIds(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		for _, first := range []uint64{2020, 2000, 2010} {
			st.nextID = first
			st.deliver(10, int64(first))
		}
		for _, d := range recvN(t, s, 30) {
			if d.Offset() != int64(d.DeliveryID()) || !d.Ack() {
				t.Errorf("delivery %+v", d.Ref())
			}
		}
		st.recvAcks(30)
		st.answer(durable, 2005, 2024)
		synctest.Wait()
		if got := s.Stats(); got.Confirmed != 20 || got.Pending != 10 {
			t.Errorf("stats %+v", got)
		}
		st.nextID = 2027
		st.deliver(1, 0)
		m.accept(t) // an id that is outstanding already breaks the stream
	})
}

// TestAcksAtAckBatch: so many go without waiting for the interval.
func TestAcksAtAckBatch(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.AckBatch, c.AckInterval, c.MaxExtension = 64, time.Hour, -1 }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(200, 0)
		ds := recvN(t, s, 200)
		ds[0].Ack()
		st.recvAck()
		begun := time.Now()
		for _, d := range ds[1:64] {
			d.Ack()
		}
		st.idle(time.Minute)
		ds[64].Ack()
		if got := st.recvAck(); len(got) != 64 || time.Since(begun) != time.Minute {
			t.Errorf("%d acks after %v", len(got), time.Since(begun))
		}
	})
}

func TestBatchAck(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(100, 0)
		b, err := s.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.At(7).Nack(nil)
		if n := b.Ack(); n != 99 {
			t.Errorf("%d acked, want 99", n)
		}
		if b.At(0).Ack() || b.Ack() != 0 {
			t.Error("acked twice")
		}
		b.Release()
		acked := 0
		for acked < 99 {
			if m := st.recv(); m.GetAck() != nil {
				acked += len(idsOf(m.GetAck()))
			} else if got := idsOf(m.GetNack()); !slices.Equal(got, []uint64{1007}) {
				t.Errorf("nacked %v", got)
			}
		}
	})
}

func TestConfirm(t *testing.T) {
	var told []string
	streaming(t, func(c *SubscribeConfig) {
		c.OnConfirm = func(r Ref, err error) { told = append(told, fmt.Sprint(r.Offset, err)) }
	}, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(4, 0)
		ds := recvN(t, s, 4)
		for _, d := range ds[:3] {
			d.Ack()
		}
		if n := len(s.Unconfirmed()); n != 3 {
			t.Errorf("%d unconfirmed, want 3", n)
		}
		st.recvAcks(3)
		st.answer(durable, 1000, 1000)
		st.answer(pb.AckResult_STATUS_STALE, 1001, 1001)
		st.answer(durable, 1002, 1099)
		if err := s.Confirm(t.Context()); !errors.Is(err, ErrStale) {
			t.Errorf("Confirm: %v", err)
		}
		synctest.Wait()
		if len(s.Unconfirmed()) != 0 || !slices.Equal(told, []string{"0 <nil>", "1 " + ErrStale.Error(), "2 <nil>"}) {
			t.Errorf("unconfirmed %v, told %q", s.Unconfirmed(), told)
		}
		if got := s.Stats(); got.Acked != 3 || got.Confirmed != 2 || got.Refused != 1 || got.Received != 4 {
			t.Errorf("stats %+v", got)
		}
		ack := make(chan error)
		go func() { ack <- ds[3].AckConfirmed(t.Context()) }()
		st.recvAcks(1)
		st.answer(durable, 1003, 1003)
		if err := <-ack; err != nil {
			t.Errorf("AckConfirmed: %v", err)
		}
		if err := ds[3].AckConfirmed(t.Context()); !errors.Is(err, ErrNotOutstanding) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestRetryIsSentAgain: acks answered RETRY are repeated with growing pauses until
// the store is well.
func TestRetryIsSentAgain(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 0)
		ds := recvN(t, s, 3)
		ds[0].Ack()
		ds[1].Ack()
		ds[2].Nack(RetryAfter(5*time.Second, errors.New("why")))
		var acked, nacked int
		begun := time.Now()
		for acked < 10 {
			m := st.recv()
			if a := m.GetAck(); a != nil {
				acked += len(idsOf(a))
				for _, id := range idsOf(a) {
					st.answer(retry, id, id)
				}
				continue
			}
			if n := m.GetNack(); n.GetReason() != "why" || n.Delay.AsDuration() != 5*time.Second {
				t.Errorf("nack %v", n)
			}
			nacked++
			st.answer(retry, 1002, 1002)
		}
		if d := time.Since(begun); d < 300*time.Millisecond || d > 5*time.Second {
			t.Errorf("ten acks within %v: want growing pauses", d)
		}
		if nacked < 2 {
			t.Errorf("the nack was sent %d times", nacked)
		}
		go st.serve()
		<-time.After(10 * time.Second)
		if len(s.Unconfirmed()) != 0 || s.Stats().Confirmed != 2 {
			t.Errorf("unconfirmed %v, stats %+v", s.Unconfirmed(), s.Stats())
		}
	})
}

// TestDeadlinesAreMoved: for all that is held, queued or taken, until the longest
// time; not for what was acked.
//
// What is taken is seen at the next look, a quarter of the ack timeout later at most.
func TestDeadlinesAreMoved(t *testing.T) {
	const ackQuarter = 30 * time.Second / 4
	streaming(t, func(c *SubscribeConfig) { c.MaxExtension = 2 * time.Minute }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		begun := time.Now()
		st.deliver(5, 0)
		ds := recvN(t, s, 5)
		st.deliver(5, 5) // stays in the queue
		ds[1].Ack()
		st.recvAcks(1)
		last := time.Duration(0)
		for extends := 0; ; extends++ {
			select {
			case m := <-st.in:
				at := time.Since(begun)
				if at-last > 12*time.Second {
					t.Errorf("not moved between %v and %v, of a timeout of 30 s", last, at)
				}
				last = at
				if got := idsOf(m.GetExtend()); len(got) != 9 || slices.Contains(got, 1001) {
					t.Errorf("moved %v", got)
				}
				continue
			case <-time.After(time.Minute):
			}
			if extends < 10 || last < 110*time.Second || last > 2*time.Minute+ackQuarter {
				t.Errorf("moved %d times, last after %v", extends, last)
			}
			return
		}
	})
}

func TestNoExtension(t *testing.T) {
	streaming(t, func(c *SubscribeConfig) { c.MaxExtension = -1 }, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(5, 0)
		st.idle(5 * time.Minute)
	})
}

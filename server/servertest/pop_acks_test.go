package servertest_test

import (
	"testing"
	"time"

	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// TestPop_AcksFallBehind: while the broker takes no acks only so much is popped;
// what is finished is acked, all of it once, when it does again.
func TestPop_AcksFallBehind(t *testing.T) {
	const events = 6000
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		for i := range events / 500 {
			Publish(t, p.in.Mesh(), "t", Numbers(500 * (i + 1))[500*i:]...)
		}
		p.br.FailAcks(storage.ErrUnavailable)
		taken := 0
		for len(p.counts("c").Handed) > taken {
			got := s.Take(len(p.counts("c").Handed) - taken)
			taken += len(got)
			s.AckDurable(got...)
			<-time.After(100 * time.Millisecond)
		}
		if taken < 2000 || taken > 4000 {
			t.Errorf("%d messages popped while none could be acked", taken)
		}
		p.br.FailAcks(nil)
		for taken < events {
			got := s.Take(min(200, events-taken))
			taken += len(got)
			s.AckDurable(got...)
		}
		p.untilAcked("c", events)
	})
}

// TestPop_StreamEndsBeforeAcks: what is finished and was not acked at the broker
// when the last stream ended counts as pending no more, and is acked and not
// delivered when the next stream begins.
func TestPop_StreamEndsBeforeAcks(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(100)...)
		p.br.FailAcks(storage.ErrUnavailable)
		s.AckDurable(s.Take(100)...)
		pending := &p.in.Server.Metrics().Pop.PendingAcks
		if n := pending.Load(); n != 100 {
			t.Errorf("%d acks pending at the broker, want 100", n)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if n := pending.Load(); n != 0 {
			t.Errorf("%d acks pending at the broker without a stream", n)
		}
		p.br.FailAcks(nil)
		again := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		p.untilAcked("c", 100)
		again.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

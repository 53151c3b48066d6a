package servertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
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

// stubborn is a log that does not remove one group.
type stubborn struct {
	storage.Backend
	storage.GroupAdmin
	group string
}

func (b stubborn) Unwrap() storage.Backend { return b.Backend }

func (b stubborn) DeleteGroup(ctx context.Context, topic, group string) error {
	if group == b.group {
		return errors.New("no permission")
	}
	return b.GroupAdmin.DeleteGroup(ctx, topic, group)
}

// TestPop_OneDoesNotExpire: an absent subscriber whose group the broker does not
// remove stays, and does not keep the others from being removed.
func TestPop_OneDoesNotExpire(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		p.in.Stop()
		p.opts.Config = func(c *server.Config) { c.Subscriber.Expiry = 10 * time.Hour }
		p.opts.Wrap = func(b storage.Backend) storage.Backend {
			admin, _ := storage.As[storage.GroupAdmin](b)
			return stubborn{b, admin, group("a")}
		}
		p.start()
		for _, c := range []string{"a", "b", "c"} {
			Open(t, p.in.Mesh(), open(c, Sub("t", broadcast))).Break()
		}
		<-time.After(24 * time.Hour)
		list, err := p.in.Admin().ListSubscribers(t.Context(), &pb.ListSubscribersRequest{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(list.GetSubscribers()); n != 1 {
			t.Errorf("%d subscribers are left: %v", n, list)
		}
		if groups := p.br.Groups("t"); len(groups) != 1 || groups[0] != group("a") {
			t.Errorf("groups %v are left", groups)
		}
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
		synctest.Wait() // they are counted after they are answered
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

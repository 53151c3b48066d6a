//go:build long

// Package retry holds retries against the clock on the wall, with a server that
// is a process of its own. The same in fake time is in server/servertest.
package retry

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// tick is how much later than due a retry may be: the machine has other things to
// do.
const tick = 600 * time.Millisecond

func open(client string) *pb.Open {
	return &pb.Open{ClientId: client, Subscriptions: []*pb.Subscription{servertest.Sub("t", pb.Mode_MODE_BROADCAST)}}
}

func letters(t *testing.T, admin pb.AdminClient) []*pb.DeadLetter {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	res, err := admin.ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetDeadLetters()
}

// TestNackedAtOnce: a record that is nacked at once is sent after 1, 2, 4, 8 and
// 16 s, each within a fifth, then is one dead letter; replayed it reaches only the
// subscriber that failed, once, as attempt 1.
func TestNackedAtOnce(t *testing.T) {
	srv := process.Start(t, t.TempDir(), "--topics.partitions", "1")
	mesh, admin := pb.NewEventMeshClient(srv.Dial()), pb.NewAdminClient(srv.DialAdmin())
	other, s := servertest.Open(t, mesh, open("other")), servertest.Open(t, mesh, open("c"))
	servertest.Publish(t, mesh, "t", "m")
	other.AckDurable(other.Take(1)...)
	begin := time.Now()
	last := begin
	for i, wait := range []time.Duration{0, 1, 2, 4, 8, 16} {
		wait *= time.Second
		got := s.Take(1)
		gap := time.Since(last)
		t.Logf("attempt %d after %v", got[0].Attempt, gap.Round(time.Millisecond))
		if got[0].Attempt != int32(i+1) || gap < wait*8/10 || gap > wait*12/10+tick {
			t.Errorf("attempt %d came after %v, want attempt %d after %v ± 20 %%", got[0].Attempt, gap, i+1, wait)
		}
		last = time.Now()
		s.Nack(got...)
	}
	servertest.Eventually(t, process.Patience, func() error {
		if list := letters(t, admin); len(list) != 1 || list[0].GetAttempts() != 6 || !strings.HasPrefix(list[0].GetReason(), "NACKED") {
			return &wrong{list}
		}
		return nil
	})
	t.Logf("dead after %v", time.Since(begin).Round(time.Millisecond))
	s.Quiet(2 * time.Second)
	if res, err := admin.ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"}); err != nil || res.GetReplayed() != 1 {
		t.Fatal(res, err)
	}
	got := s.Take(1)
	if got[0].Attempt != 1 || got[0].Data() != "m" {
		t.Errorf("replayed as %s", servertest.Show(got))
	}
	s.AckDurable(got...)
	s.Quiet(2 * time.Second)
	other.Quiet(2 * time.Second)
	srv.Check()
}

// wrong is dead letters that are not what was expected.
type wrong struct{ list []*pb.DeadLetter }

func (w *wrong) Error() string {
	var b strings.Builder
	b.WriteString("dead letters:")
	for _, l := range w.list {
		b.WriteString(" " + l.String())
	}
	return b.String()
}

package servertest_test

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/memory"
)

const stale = pb.AckResult_STATUS_STALE

// wantAllDone wants a subscriber to have nothing left on a topic of one partition.
func wantAllDone(t *testing.T, in *Instance, sub string) {
	t.Helper()
	Eventually(t, 5*time.Second, func() error {
		p := position(t, in, "t", sub)
		if p.GetPosition() != p.GetMaxOffset() || p.GetLag()+p.GetInFlight()+p.GetWaiting()+p.GetFinishedAhead() != 0 {
			return fmt.Errorf("left of %s: %v", sub, p)
		}
		return nil
	})
	wantMetrics(t, in, "when all is done", map[string]float64{
		"lag{subscriber=" + sub + ",topic=t}": 0, "pending{subscriber=" + sub + ",topic=t}": 0,
	})
}

// publishTypes publishes an event of each type.
func publishTypes(t *testing.T, in *Instance, types string) {
	t.Helper()
	req := &pb.PublishRequest{Topic: "t"}
	for i, typ := range types {
		req.Events = append(req.Events, &pb.EventMeshFrame{
			Attributes: map[string]string{"type": string(typ), "partitionkey": fmt.Sprint(i % 3)}, Data: fmt.Append(nil, i),
		})
	}
	if _, err := in.Mesh().Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// multicast is a subscription for events of one type.
func multicast(typ string, ordered bool) *pb.Subscription {
	sub := Sub("t", pb.Mode_MODE_MULTICAST)
	sub.Filter, sub.Ordered = "type = '"+typ+"'", ordered
	return sub
}

// TestGapsBetweenOffsets: on a log with gaps between offsets, as transactions and
// compaction leave them, what is filtered out and what is nacked makes no hole in the
// progress, nor does a restart.
func TestGapsBetweenOffsets(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			log := memory.New(memory.Options{Partitions: 1, Gap: func(_, _ string, off int64) int64 { return off * 7 % 5 }})
			t.Cleanup(func() { _ = log.Close() })
			o := Options{Backend: log, Store: Store(t)}
			in := Start(t, o)
			s := Open(t, in.Mesh(), open("c", multicast("a", ordered)))
			publishTypes(t, in, "babaabbaabab")
			came := map[string]int32{}
			for len(came) < 6 {
				g := s.Take(1)[0]
				if g.Attempt == 1 {
					s.Nack(g)
					s.Outcome(g)
				} else {
					s.AckDurable(g)
					came[g.Data()] = g.Attempt
				}
				if len(came) == 3 && in.Server.Metrics().Acked.Load() == 3 {
					in.Stop()
					in = Start(t, o)
					s = Open(t, in.Mesh(), open("c", multicast("a", ordered)))
				}
			}
			wantAllDone(t, in, "client/c")
		})
	}
}

// TestFilterChangedAmidRetries: what waits for a retry and does not match the filter
// any more, once that was changed, is finished.
func TestFilterChangedAmidRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", multicast("a", false)))
		publishTypes(t, in, "abababab")
		got := s.Take(4)
		s.Nack(got...)
		s.Outcome(got[3])
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		s = Open(t, in.Mesh(), open("c", multicast("b", false)))
		s.Quiet(time.Minute)
		wantAllDone(t, in, "client/c")
	})
}

// TestResetAmidRetries: a reset of a live share ends what is in flight, what waits for
// a retry and what is finished above the position: answers to it change nothing, and
// only what lies behind the new position comes, as if for the first time.
func TestResetAmidRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		a, b := Open(t, in.Mesh(), open("a", shareSub("t", "s"))), Open(t, in.Mesh(), open("b", shareSub("t", "s")))
		for _, data := range Numbers(20) {
			Publish(t, in.Mesh(), "t", data)
		}
		<-time.After(time.Second)
		ofA, ofB := a.Take(len(a.Pending())), b.Take(len(b.Pending()))
		if len(ofA) < 2 || len(ofB) < 2 || len(ofA)+len(ofB) != 20 {
			t.Fatalf("%d came to the one, %d to the other", len(ofA), len(ofB))
		}
		a.Nack(ofA[0])
		a.Outcome(ofA[0])
		b.AckDurable(ofB[len(ofB)-1])
		to := &pb.ResetOffsetRequest{Topic: "t", Subscriber: "share/s", To: &pb.Start{Place: &pb.Start_Offset{Offset: 15}}}
		if _, err := in.Admin().ResetOffset(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		a.Ack(ofA[1])
		b.Nack(ofB[0])
		if x, y := a.Outcome(ofA[1]), b.Outcome(ofB[0]); x != stale || y != stale {
			t.Errorf("an ack of before: %v, a nack: %v", x, y)
		}
		<-time.After(20 * time.Second) // longer than any retry waits
		ofA, ofB = a.Take(len(a.Pending())), b.Take(len(b.Pending()))
		wantAttempts(t, append(ofA, ofB...), 1)
		seen := map[int64]bool{}
		for _, off := range Offsets(append(ofA, ofB...)) {
			seen[off] = off >= 15
		}
		if len(seen) != 5 || len(ofA)+len(ofB) != 5 {
			t.Errorf("after the reset came %s, %s", Show(ofA), Show(ofB))
		}
		a.AckDurable(ofA...)
		b.AckDurable(ofB...)
		wantAllDone(t, in, "share/s")
	})
}

// TestRemovedAmidDeliveries: a subscription that is removed with records in flight
// gives them back at no cost; answers to them are UNKNOWN, and when it is added again
// under the same id they come again.
func TestRemovedAmidDeliveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(5)...)
		got := s.Take(5)
		s.AckDurable(got[2])
		for range 10 { // more often than there are attempts
			s.Change(&pb.Change{Remove: []uint32{1}})
			s.Ack(got[0])
			if st := s.Outcome(got[0]); st != unknown {
				t.Fatalf("an ack of what was removed: %v", st)
			}
			s.Quiet(time.Minute)
			s.Change(&pb.Change{Add: []*pb.Subscription{Sub("t", broadcast)}})
			got = s.Take(4)
			wantOffsets(t, got, []int64{0, 1, 3, 4})
		}
		s.AckDurable(got...)
		wantAllDone(t, in, "client/c")
	})
}

// TestPausedAmidDeliveries: what times out while its subscription is paused waits
// until that is resumed, unless a late ack finishes it.
func TestPausedAmidDeliveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(4)...)
		got := s.Take(4)
		s.Change(&pb.Change{Pause: []uint32{1}})
		s.Nack(got[0])
		s.AckDurable(got[1])
		s.Quiet(10 * time.Minute)
		s.AckDurable(got[2])
		s.Change(&pb.Change{Resume: []uint32{1}})
		again := s.Take(2)
		wantOffsets(t, again, []int64{0, 3})
		wantAttempts(t, again, 2)
		s.AckDurable(again...)
		wantAllDone(t, in, "client/c")
	})
}

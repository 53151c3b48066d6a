package servertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// TestC73_ResetOnPop: a reset takes effect on a live stream, up and down; old
// deliveries are stale.
func TestC73_ResetOnPop(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(20)...)
		got := s.Take(20)
		s.AckDurable(got[:10]...)
		reset := func(to *pb.Start) *pb.ResetPartition {
			t.Helper()
			res, err := p.in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: to})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetPartitions()[0]
		}
		if r := reset(&pb.Start{Place: &pb.Start_Offset{Offset: 5}}); r.GetTo() != 5 || r.GetFrom() != 20 {
			t.Fatalf("reset: %v", r)
		}
		again := s.Take(15)
		wantOffsets(t, again, seq(5, 15))
		wantAttempts(t, again, 1)
		s.Notice(pb.Notice_KIND_RESET)
		s.Ack(got[15])
		if st := s.Outcome(got[15]); st != pb.AckResult_STATUS_STALE {
			t.Fatalf("ack of an older epoch: %v", st)
		}
		reset(&pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_LATEST}})
		Publish(t, p.in.Mesh(), "t", "new")
		next := s.Take(1)
		if next[0].Data() != "new" {
			t.Fatalf("after a reset to the end: %s", Show(next))
		}
		s.AckDurable(next...)
		s.Quiet(time.Hour)
		if n := p.br.Outstanding("t", group("c")); n != 0 {
			t.Fatalf("%d records are outstanding", n)
		}
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestC73_ResetBeforeBrokerAcks: what was acked before a reset, and is not yet
// acked at the broker, is delivered anew like all the rest.
func TestC73_ResetBeforeBrokerAcks(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(20)...)
		release := p.br.HoldAcks()
		s.AckDurable(s.Take(20)[:10]...)
		_, err := p.in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest()})
		if err != nil {
			t.Fatal(err)
		}
		again := s.Take(20)
		wantOffsets(t, again, seq(0, 20))
		s.AckDurable(again[:5]...)
		release()
		s.AckDurable(again[5:]...)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// leaver gives up as a caller when an epoch is raised, and lets the store have it
// a moment later.
type leaver struct {
	offsetstore.Store
	leave func()
}

func (s leaver) Submit(txn *offsetstore.Txn, done func(error)) {
	if len(txn.Puts) == 0 || txn.Puts[0].Value.Epoch == 0 {
		s.Store.Submit(txn, done)
		return
	}
	s.leave()
	time.AfterFunc(100*time.Millisecond, func() { s.Store.Submit(txn, done) })
}

// TestC73_ResetCallerLeaves: the caller of a reset gives up while the new epoch is
// being stored. The reset is done all the same: no half of it stays.
func TestC73_ResetCallerLeaves(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		p.in.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p.over = func(s offsetstore.Store) offsetstore.Store { return leaver{s, cancel} }
		p.start()
		s := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, p.in.Mesh(), "t", Numbers(20)...)
		got := s.Take(20)
		s.AckDurable(got[:10]...)
		_, err := p.in.Admin().ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest()})
		if status.Code(err) != codes.Canceled {
			t.Fatalf("reset: %v", err)
		}
		again := s.Take(20)
		wantOffsets(t, again, seq(0, 20))
		wantAttempts(t, again, 1)
		s.Ack(got[15])
		if st := s.Outcome(got[15]); st != pb.AckResult_STATUS_STALE {
			t.Fatalf("ack of an older epoch: %v", st)
		}
		s.AckDurable(again...)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestC73_ResetNotPossible: where groups cannot be moved, a reset and an explicit
// start are refused with the backend's name.
func TestC73_ResetNotPossible(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		br := fakepop.New(fakepop.Options{Partitions: 1})
		defer br.Close()
		be := br.Open()
		in := Start(t, Options{Backend: be.Bare()})
		defer in.Stop()
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); !strings.Contains(n.GetDetail(), "remoting") {
			t.Errorf("notice of the broker's own start: %v", n)
		}
		Publish(t, in.Mesh(), "t", "m")
		s.AckDurable(s.Take(1)...)
		_, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest()})
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "fakepop") {
			t.Fatalf("reset: %v", err)
		}
		sub := Sub("t", broadcast)
		sub.Start = Earliest()
		other := TryOpen(t, in.Mesh(), open("d", sub))
		if st := other.Opened.GetResults()[0].GetStatus(); codes.Code(st.GetCode()) != codes.Unimplemented || !strings.Contains(st.GetMessage(), "fakepop") {
			t.Fatalf("explicit start: %v", st)
		}
		other.Break()
		s.Break()
	})
}

// TestC81_DeadLetterIsTheEnd: the budget is spent while the client goes away;
// then nothing of the original comes any more, and a replay comes once.
func TestC81_DeadLetterIsTheEnd(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", "m")
		for range 5 {
			got := s.Take(1)
			s.Nack(got...)
			s.Outcome(got[0])
		}
		s.Nack(s.Take(1)...)
		s.Break() // at the same moment
		s = Open(t, p.in.Mesh(), o)
		for s.Await(time.Minute, 1) { // the nack may have been lost
			s.Nack(s.Take(1)...)
		}
		if list := untilLetters(t, p.in, "t", 1); len(list) != 1 {
			t.Fatalf("dead letters: %v", list)
		}
		s.Quiet(time.Hour)
		p.untilAcked("c", 1)
		if _, err := p.in.Admin().ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		again := s.Take(1)
		wantAttempts(t, again, 1)
		s.AckDurable(again...)
		s.Quiet(time.Hour)
		p.untilAcked("c", 2)
		if list := letters(t, p.in, "t"); len(list) != 0 {
			t.Fatalf("dead letters after the replay: %v", list)
		}
	})
}

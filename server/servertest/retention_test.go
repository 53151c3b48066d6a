package servertest_test

import (
	"strings"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// trim has retention remove what lies below an offset of topic t.
func trim(t *testing.T, log storage.Backend, before int64) {
	t.Helper()
	trimmer, ok := storage.As[storage.Trimmer](log)
	if !ok {
		t.Fatal("the log cannot be trimmed")
	}
	if err := trimmer.Trim(t.Context(), "t", "0", before); err != nil {
		t.Fatal(err)
	}
}

// TestRetentionUnderARetry: a record that retention has removed while it waited for
// its retry is not waited for any more: the position goes on, and that is told.
func TestRetentionUnderARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		got := s.Take(10)
		nackFor(t, s, got[3], time.Hour)
		nackFor(t, s, got[5], time.Hour)
		s.AckDurable(append(got[:3:3], got[4], got[6], got[7], got[8], got[9])...)
		for range 12 { // push the first records out of memory
			Publish(t, in.Mesh(), "t", strings.Repeat("x", 1<<20))
			s.AckDurable(s.Take(1)...)
		}
		trim(t, o.Backend, 15)
		s.Quiet(2 * time.Hour)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 22 || p.GetLag() != 0 || p.GetWaiting() != 0 || p.GetInFlight() != 0 {
			t.Errorf("in the end: %v", p)
		}
		if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); n.GetPositions()[0].GetNextOffset() != 15 {
			t.Errorf("told: %v", n)
		}
	})
}

// TestRetentionWhileAway: for one that comes back after retention has removed what it
// had in flight, what waited for a retry and what it never got, delivery goes on at
// the minimum, and it is told.
func TestRetentionWhileAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		got := s.Take(10)
		nackFor(t, s, got[0], time.Hour)
		s.AckDurable(got[4], got[9])
		in.Stop()
		for range 2 {
			in = Start(t, o)
			Publish(t, in.Mesh(), "t", Numbers(5)...)
			in.Stop()
		}
		trim(t, o.Backend, 8)
		in = Start(t, o)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		again := s.Take(11)
		wantOffsets(t, again, append([]int64{8}, seq(10, 10)...))
		s.AckDurable(again...)
		s.Quiet(2 * time.Hour)
		if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); n.GetPositions()[0].GetNextOffset() != 8 {
			t.Errorf("told: %v", n)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 20 || p.GetLag() != 0 || p.GetWaiting() != 0 || p.GetInFlight() != 0 {
			t.Errorf("in the end: %v", p)
		}
	})
}

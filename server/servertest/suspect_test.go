package servertest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// worker opens a stream of share s of topic t, whose client may work for an hour
// on each of so many records.
func worker(t *testing.T, in *Instance, client string, window int32) *Stream {
	t.Helper()
	o := open(client, shareSub("t", "s"))
	o.MaxInFlight, o.AckTimeout = &window, durationpb.New(time.Hour)
	return Open(t, in.Mesh(), o)
}

// breakWith publishes a record to a share in which client "long" works on another
// one for long, and breaks the stream of client "c" twice with it: it goes alone
// from then on. "long" has room for more then.
func breakWith(t *testing.T, in *Instance, data string) (long *Stream, held []Got) {
	t.Helper()
	long = worker(t, in, "long", 1)
	Publish(t, in.Mesh(), "t", "long")
	held = long.Take(1)
	Publish(t, in.Mesh(), "t", data)
	for attempt := range int32(2) {
		c := worker(t, in, "c", 10)
		wantAttempts(t, c.Take(1), attempt+1)
		broken(c)
	}
	window := int32(100)
	long.Change(&pb.Change{ChangeId: 1, Window: &pb.Window{MaxInFlight: &window}})
	return long, held
}

// broken breaks a stream, and returns when the server has seen it.
func broken(s *Stream) {
	s.Break()
	synctest.Wait()
}

// TestLongWorkBesideASuspect: a record that was in flight in two breaks goes
// alone, but neither it nor what is behind it waits for what another client of the
// share works on for long.
func TestLongWorkBesideASuspect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		long, held := breakWith(t, in, "m")
		c := worker(t, in, "c", 10)
		suspect := c.Take(1)
		wantOffsets(t, suspect, seq(1, 1))
		wantAttempts(t, suspect, 3)
		Publish(t, in.Mesh(), "t", "behind")
		c.Quiet(time.Minute)
		c.AckDurable(suspect...)
		behind := long.Take(1) // it has most room
		wantOffsets(t, behind, seq(2, 1))
		long.AckDurable(append(held, behind...)...)
		wantDone(t, in, 3)
	})
}

// TestLongWorkWithoutASpareStream: when the only streams left are those of clients
// that work for long, one of them gets the suspect.
func TestLongWorkWithoutASpareStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		long, held := breakWith(t, in, "m")
		suspect := long.Take(1)
		wantOffsets(t, suspect, seq(1, 1))
		wantAttempts(t, suspect, 3)
		long.AckDurable(suspect...)
		long.AckDurable(held...)
		wantDone(t, in, 2)
	})
}

// TestPoisonBesideLongWork: a record that kills whoever gets it is sent six times
// and dies, though another client of the share works on a record all the while,
// and that one is finished.
func TestPoisonBesideLongWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		long, held := breakWith(t, in, "poison")
		for attempt := int32(3); attempt <= 6; attempt++ {
			c := worker(t, in, "c", 10)
			got := c.Take(1)
			wantOffsets(t, got, seq(1, 1))
			wantAttempts(t, got, attempt)
			broken(c)
		}
		if list := untilLetters(t, in, "t", 1); list[0].GetOffset() != 1 || list[0].GetAttempts() != 6 {
			t.Fatalf("dead letters: %v", list)
		}
		c := worker(t, in, "c", 10)
		c.Quiet(time.Minute)
		long.AckDurable(held...)
		wantDone(t, in, 2)
	})
}

// TestLastAttemptWaitsForASpareStream: the last attempt of a record that broke
// five streams is not made on the stream of a client that works on another one:
// its break would not tell which of the two it was.
func TestLastAttemptWaitsForASpareStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		long, held := breakWith(t, in, "poison")
		for attempt := int32(3); attempt <= 5; attempt++ {
			c := worker(t, in, "c", 10)
			wantAttempts(t, c.Take(1), attempt)
			broken(c)
		}
		long.Quiet(time.Minute)
		c := worker(t, in, "c", 10)
		wantAttempts(t, c.Take(1), 6)
		broken(c)
		untilLetters(t, in, "t", 1)
		long.AckDurable(held...)
		wantDone(t, in, 2)
	})
}

// wantDone waits until the share has finished so many records and nothing is left.
func wantDone(t *testing.T, in *Instance, records int64) {
	t.Helper()
	Eventually(t, Patience, func() error {
		if p := position(t, in, "t", "share/s"); p.GetPosition() != records || p.GetWaiting()+p.GetInFlight() != 0 {
			return fmt.Errorf("not all is finished: %v", p)
		}
		return nil
	})
}

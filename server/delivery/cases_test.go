package delivery

import (
	"slices"
	"testing"
	"time"
)

// ackAll is a handler that acks at once.
func ackAll(r *rig, d rigSend) { r.ack(d) }

// TestC26_LateAck: the holder times out, another gets it, the first acks late,
// then the second does: one completion, and the second is told it is done.
func TestC26_LateAck(t *testing.T) {
	r := newRig(t, Settings{}, 1)
	r.attach(1, 1, time.Second)
	r.pump()
	first := r.sends[0][0]
	r.attach(2, 5, time.Minute)
	r.sleep(time.Second)
	second := r.sends[0][1]
	if second.s != 2 || second.attempt != 2 {
		t.Fatalf("sent again as %+v", second)
	}
	if o := r.ack(first); o.Waiting != 1 {
		t.Fatalf("late ack: %+v", o)
	}
	r.pump()
	if o := r.m.Ack(r.now, 2, second.first, 1); o.Done != 1 {
		t.Fatalf("ack of the second holder: %+v", o)
	}
	r.allDone()
}

// TestC27_AckMeetsDeadline: acks at the very deadline, before and after the
// tick that times them out. Finished ones never live again.
func TestC27_AckMeetsDeadline(t *testing.T) {
	const n = 10_000
	r := newRig(t, Settings{}, n)
	r.attach(1, n, time.Second)
	r.pump()
	at, ok := r.m.Deadline()
	if !ok {
		t.Fatal("no deadline")
	}
	r.now = at
	all := make([]rigSend, 0, n)
	for off := range int64(n) {
		all = append(all, r.sends[off][0])
	}
	for _, d := range all[:n/2] {
		r.ack(d)
	}
	timedOut := 0
	for _, g := range r.m.Tick(r.now) {
		timedOut += popcount(g.Mask)
	}
	if timedOut != n/2 {
		t.Fatalf("%d timed out, want the other %d", timedOut, n/2)
	}
	for _, d := range all[n/2:] {
		if o := r.ack(d); o.Waiting == 0 {
			t.Fatalf("ack of %d just after its deadline: %+v", d.off, o)
		}
	}
	r.sleep(time.Hour)
	for off, s := range r.sends {
		if len(s) != 1 {
			t.Fatalf("offset %d was sent %d times", off, len(s))
		}
	}
	r.allDone()
}

func popcount(mask uint64) (n int) {
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// TestC29_ClockStartsWhenHanded: what waits in a buffer does not time out.
func TestC29_ClockStartsWhenHanded(t *testing.T) {
	r := newRig(t, Settings{}, 0)
	r.attach(1, 10, 2*time.Second)
	r.m.Offer(0, 0)
	r.m.Sent(1, 1, []int64{0})
	if given := r.m.Tick(r.now.Add(time.Hour)); len(given) != 0 {
		t.Fatalf("timed out in the buffer: %v", given)
	}
	r.m.Handed(r.now.Add(time.Hour), 1, 1)
	if at, ok := r.m.Deadline(); !ok || !at.Equal(r.now.Add(time.Hour+2*time.Second)) {
		t.Fatalf("deadline %v %v", at, ok)
	}
}

// TestC37_OrderOfReturned: what comes back comes in offset order, after a
// stream that ended, after a timeout and after a crash.
func TestC37_OrderOfReturned(t *testing.T) {
	for name, back := range map[string]func(*rig){
		"detach":  func(r *rig) { r.detach(1, false); r.attach(1, 100, time.Minute); r.pump() },
		"timeout": func(r *rig) { r.sleep(time.Minute) },
		"crash":   func(r *rig) { r.crash(); r.attach(1, 100, time.Minute); r.pump() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Settings{}, 10)
			r.batch = 3
			r.attach(1, 100, time.Minute)
			r.pump()
			var again []int64
			r.handle = func(r *rig, d rigSend) { again = append(again, d.off) }
			back(r)
			if want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(again, want) {
				t.Fatalf("came back as %v", again)
			}
		})
	}
}

// TestC40_WaitingHoldsNoSlot: with a window of 2, two nacked records do not
// keep the next ones back.
func TestC40_WaitingHoldsNoSlot(t *testing.T) {
	r := newRig(t, Settings{Backoff: []time.Duration{16 * time.Second}}, 6)
	r.attach(1, 2, time.Minute)
	r.handle = func(r *rig, d rigSend) {
		if d.off < 2 && d.attempt == 1 {
			r.nack(d)
			return
		}
		r.ack(d)
	}
	r.pump()
	for off := int64(2); off < 6; off++ {
		if !r.m.Finished(off) {
			t.Fatalf("%d waits for the retries: %+v", off, r.m.Stats())
		}
	}
	r.sleep(20 * time.Second)
	r.allDone()
}

// TestC41_HolderGone: what a stream held goes to another at once, in order,
// with the next attempt.
func TestC41_HolderGone(t *testing.T) {
	for _, broken := range []bool{false, true} {
		r := newRig(t, Settings{}, 20)
		r.attach(1, 20, time.Minute)
		r.pump()
		r.attach(2, 100, time.Minute)
		r.detach(1, broken)
		var got []int64
		r.handle = func(r *rig, d rigSend) {
			if d.s != 2 || d.attempt != 2 {
				t.Fatalf("came as %+v", d)
			}
			got = append(got, d.off)
			r.ack(d)
		}
		r.pump()
		if len(got) != 20 || !slices.IsSorted(got) {
			t.Fatalf("came as %v", got)
		}
		r.allDone()
	}
}

// TestC42_PoisonBlocksNobody: one record is always nacked; 300 others go
// through in normal time, it becomes a dead letter after about 31 s, and the
// floor passes it.
func TestC42_PoisonBlocksNobody(t *testing.T) {
	r := newRig(t, Settings{}, 301)
	for s := range StreamID(3) {
		r.attach(s+1, 50, 30*time.Second)
	}
	r.handle = func(r *rig, d rigSend) {
		if d.off == 42 {
			r.nack(d)
			return
		}
		r.ack(d)
	}
	r.pump()
	if s := r.m.Stats(); s.Position != 42 || s.FinishedAhead != 258 {
		t.Fatalf("others do not go through: %+v", s)
	}
	start := r.now
	for len(r.dead) == 0 && r.now.Sub(start) < time.Minute {
		r.sleep(100 * time.Millisecond)
	}
	took := r.now.Sub(start)
	if len(r.dead) != 1 || r.dead[0].Offset != 42 || r.dead[0].Attempts != 6 || r.dead[0].Reason != ReasonNacked {
		t.Fatalf("dead letters %+v", r.dead)
	}
	if took < 24*time.Second || took > 38*time.Second {
		t.Fatalf("it died after %v", took)
	}
	r.allDone()
}

// TestC43_ExactlySixAttempts: nacked each time, never answered, or a mix.
func TestC43_ExactlySixAttempts(t *testing.T) {
	for name, answers := range map[string]func(attempt int32) bool{
		"nack":  func(int32) bool { return true },
		"never": func(int32) bool { return false },
		"mix":   func(a int32) bool { return a%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Settings{}, 1)
			r.attach(1, 10, 30*time.Second)
			r.handle = func(r *rig, d rigSend) {
				if answers(d.attempt) {
					r.nack(d)
				}
			}
			r.sleep(time.Hour)
			if got := r.attempts(0); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6}) {
				t.Fatalf("attempts %v", got)
			}
			if len(r.dead) != 1 || r.dead[0].Attempts != 6 {
				t.Fatalf("dead letters %+v", r.dead)
			}
			r.allDone()
		})
	}
}

// TestC44_BackoffOfNacks: the gaps between attempts lie in their bands and are
// spread over them.
func TestC44_BackoffOfNacks(t *testing.T) {
	const n = 200
	r := newRig(t, Settings{}, n)
	r.attach(1, 1000, time.Minute)
	r.handle = func(r *rig, d rigSend) { r.nack(d) }
	r.sleep(time.Minute)
	for i, wait := range []float64{1, 2, 4, 8, 16} {
		low, high := 100.0, 0.0
		for off := range int64(n) {
			s := r.sends[off]
			if len(s) != 6 {
				t.Fatalf("offset %d was sent %d times", off, len(s))
			}
			gap := s[i+1].at.Sub(s[i].at).Seconds() / wait
			low, high = min(low, gap), max(high, gap)
		}
		if low < 0.8 || high > 1.2 || low > 0.85 || high < 1.15 {
			t.Errorf("gaps after attempt %d are %.2f to %.2f of %v s", i+1, low, high, wait)
		}
	}
	if len(r.dead) != n {
		t.Fatalf("%d dead letters", len(r.dead))
	}
}

// TestC45_BudgetLowered: two attempts used, then started with a budget of one:
// a dead letter at once.
func TestC45_BudgetLowered(t *testing.T) {
	r := newRig(t, Settings{}, 2)
	r.attach(1, 10, time.Minute)
	r.handle = func(r *rig, d rigSend) {
		switch {
		case d.off == 1:
			r.ack(d)
		case d.attempt <= 2:
			r.nack(d)
		}
	}
	r.sleep(2 * time.Second)
	r.set.MaxAttempts = 1
	r.crash()
	r.pump()
	if len(r.dead) != 1 || r.dead[0].Offset != 0 || r.dead[0].Reason != ReasonSpent {
		t.Fatalf("dead letters %+v", r.dead)
	}
}

// TestC46_NoAttemptUnseen: while the stream takes nothing, for hours, no
// attempt is spent nor counted.
func TestC46_NoAttemptUnseen(t *testing.T) {
	r := newRig(t, Settings{}, 3)
	r.attach(1, 3, time.Minute)
	r.pump()
	r.detach(1, false)
	r.attach(2, 0, time.Minute)
	for range 100 {
		r.sleep(5 * time.Minute)
		r.detach(2, false)
		r.attach(2, 0, time.Minute)
	}
	r.attach(2, 10, time.Minute)
	r.streams[2].window.MaxRecords = 10
	r.handle = ackAll
	r.pump()
	for off := range int64(3) {
		if got := r.attempts(off); !slices.Equal(got, []int32{1, 2}) {
			t.Fatalf("attempts of %d are %v", off, got)
		}
	}
	r.allDone()
}

// TestC71_BoundedForOneGone: 100,000 records for a client that takes a window
// and goes: what is kept of it is the window.
func TestC71_BoundedForOneGone(t *testing.T) {
	r := newRig(t, Settings{}, 100_000)
	r.attach(1, 1000, time.Minute)
	r.pump()
	r.detach(1, true)
	r.sleep(time.Hour)
	if s := r.m.Stats(); s.Waiting != 1000 || s.PausedBy != pausedWaiting || r.m.NextNew() != 1000 {
		t.Fatalf("%+v, next %d", s, r.m.NextNew())
	}
	r.attach(2, 1000, time.Minute)
	r.handle = ackAll
	r.pump()
	r.allDone()
}

// TestC80_AttemptsRise: on every way that a record comes again its attempt
// rises by one.
func TestC80_AttemptsRise(t *testing.T) {
	r := newRig(t, Settings{MaxAttempts: 20}, 1)
	r.attach(1, 10, 30*time.Second)
	r.pump()                        // 1
	r.sleep(30 * time.Second)       // 2: timeout
	r.nack(r.sends[0][1])           //
	r.sleep(10 * time.Second)       // 3: nack
	r.detach(1, false)              //
	r.attach(1, 10, 30*time.Second) //
	r.pump()                        // 4: ended cleanly
	r.detach(1, true)               //
	r.attach(1, 10, 30*time.Second) //
	r.pump()                        // 5: broken
	r.crash()                       //
	r.attach(1, 10, 30*time.Second) //
	r.pump()                        // 6: crash
	r.detach(1, false)              //
	r.commit()                      //
	r.crash()                       //
	r.attach(1, 10, 30*time.Second) //
	r.pump()                        // 7: clean restart
	if got := r.attempts(0); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7}) {
		t.Fatalf("attempts %v", got)
	}
	if s := r.m.hist[0]; s.spent != 4 {
		t.Fatalf("%d attempts are spent, want those of the timeout, the nack and two breaks", s.spent)
	}
}

// TestC81_DeadStaysDead: the budget ends while the client disconnects at the
// same moment: no delivery after the dead letter.
func TestC81_DeadStaysDead(t *testing.T) {
	r := newRig(t, Settings{MaxAttempts: 1}, 3)
	r.attach(1, 10, time.Minute)
	r.pump()
	r.nack(r.sends[0][0])
	r.detach(1, true)
	r.pump()
	r.attach(2, 10, time.Minute)
	r.handle = ackAll
	r.sleep(time.Hour)
	if len(r.sends[0]) != 1 || len(r.dead) != 1 || r.dead[0].Offset != 0 {
		t.Fatalf("sent %d times, dead letters %+v", len(r.sends[0]), r.dead)
	}
	r.crash()
	r.attach(3, 10, time.Minute)
	r.sleep(time.Hour)
	if len(r.sends[0]) != 1 {
		t.Fatal("it came again after a restart")
	}
	r.allDone()
}

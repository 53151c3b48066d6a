package delivery

import (
	"fmt"
	"testing"
	"time"
)

// TestPoison: one record kills its client, or the server, on arrival, before
// any answer is known, with 200 neighbours in flight. It is sent six times at
// most, dies alone, and all the others are finished normally.
func TestPoison(t *testing.T) {
	for _, server := range []bool{false, true} {
		name := map[bool]string{false: "client", true: "server"}[server]
		t.Run(name, func(t *testing.T) { poison(t, server, 201) })
		t.Run(name+" with more behind", func(t *testing.T) { poison(t, server, 3000) })
	}
}

func poison(t *testing.T, server bool, records int64) {
	const bad = 100
	r := newRig(t, Settings{}, records)
	died := false
	r.handle = func(r *rig, d rigSend) {
		died = died || d.off == bad
	}
	stream := StreamID(1)
	r.attach(stream, 1000, time.Minute)
	for round := 0; r.m.Position() < r.end; round++ {
		if round > 100_000 {
			t.Fatalf("stuck at %d: %+v", r.m.Position(), r.m.Stats())
		}
		died = false
		r.pump()
		switch {
		case !died:
			r.ackOutstanding()
			continue
		case server:
			r.crash()
		default:
			r.detach(stream, true)
		}
		stream++
		r.attach(stream, 1000, time.Minute)
	}
	r.pump()
	if n := len(r.sends[bad]); n > 6 {
		t.Errorf("the poison was sent %d times", n)
	}
	if len(r.dead) != 1 || r.dead[0].Offset != bad {
		t.Errorf("dead letters %+v", r.dead)
	}
	r.allDone()
}

// TestPoisonBesideLongWork: one record kills its client on arrival, while the
// clients of a share work on others for an hour each. It is sent six times at
// most, within minutes, and the others are finished as if it had not been there.
func TestPoisonBesideLongWork(t *testing.T) {
	const bad = 300
	for back := range 3 { // how many of the clients that die come back
		t.Run(fmt.Sprint(back, " come back"), func(t *testing.T) {
			r := newRig(t, Settings{}, 1000)
			r.handle = func(r *rig, d rigSend) {
				switch {
				case d.off == bad:
					if r.detach(d.s, true); len(r.sends[bad]) <= back {
						r.attach(d.s+100, 50, time.Hour)
					}
				case d.attempt > 1 || d.off%50 != 0:
					r.ack(d)
				}
			}
			for s := range StreamID(7) {
				r.attach(s+1, 50, time.Hour)
			}
			r.sleep(5 * time.Minute)
			if n := len(r.sends[bad]); n > 6 {
				t.Errorf("the poison was sent %d times", n)
			}
			r.attach(1000, 50, time.Hour)
			r.sleep(time.Minute)
			r.ackOutstanding()
			r.pump()
			if n := len(r.sends[bad]); n != 6 {
				t.Errorf("the poison was sent %d times", n)
			}
			if len(r.dead) != 1 || r.dead[0].Offset != bad {
				t.Errorf("dead letters %+v", r.dead)
			}
			r.allDone()
		})
	}
}

// ackOutstanding acks all that is in flight.
func (r *rig) ackOutstanding() {
	for _, st := range r.m.streams {
		for b := range st.table.each {
			for bit, off := range b.each(b.out) {
				for _, d := range r.sends[off] {
					if d.first == b.first && bit == 1<<(d.id-d.first) {
						r.ack(d)
					}
				}
			}
		}
	}
}

// TestOutage: for five minutes every handler nacks at full speed, then they
// work. What waits stays within its bound, so do the records kept and the dead
// letters, and the rest is delivered.
func TestOutage(t *testing.T) {
	r := newRig(t, Settings{}, 200_000)
	r.grain = 100 * time.Millisecond
	r.attach(1, 1000, 30*time.Second)
	r.attach(2, 1000, 30*time.Second)
	r.handle = func(r *rig, d rigSend) { r.nack(d) }
	most := 0
	for range 300 {
		r.sleep(time.Second)
		most = max(most, len(r.m.hist))
	}
	if r.maxWait > 1000 || most > 2000 {
		t.Errorf("up to %d wait, %d records are kept", r.maxWait, most)
	}
	// A record dies 24.8 s after its first attempt at the earliest, and at
	// most 1,000 are on the way at a time.
	if bound := 1000 * (300/24 + 1); len(r.dead) > bound {
		t.Errorf("%d dead letters, at most %d expected", len(r.dead), bound)
	}
	dead := len(r.dead)
	r.handle = ackAll
	r.sleep(time.Minute)
	if len(r.dead) != dead {
		t.Errorf("%d more died after the outage", len(r.dead)-dead)
	}
	r.allDone()
}

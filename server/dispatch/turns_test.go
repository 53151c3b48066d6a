package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// turnPart is a part of a loop that does not run.
func turnPart(topic, partition string, sub offsetstore.Subscriber) *part {
	return &part{
		l:   &loop{wakeup: make(chan struct{}, 1)},
		key: offsetstore.Key{Topic: topic, Subscriber: sub, Partition: partition},
	}
}

// called tells whether a part was told to look since the last call.
func (p *part) called() bool {
	n := len(p.l.inbox)
	p.l.inbox = nil
	return n > 0
}

// TestTurns: turns are taken in order, handed on when they end, and taken over when
// they last too long.
func TestTurns(t *testing.T) {
	c := offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}
	parts := []*part{turnPart("t", "0", c), turnPart("t", "1", c), turnPart("u", "0", c)}
	var ts turns
	now := time.Unix(1000, 0)
	take := func(i int, more, want bool) {
		t.Helper()
		ok, again := ts.take(parts[i], more, now)
		if ok != want || ok != again.IsZero() || !ok && !again.After(now) {
			t.Fatalf("part %d is given the turn: %v, again at %v", i, ok, again)
		}
	}
	take(0, false, true)
	take(0, false, true)
	take(1, false, false)
	take(2, false, false)
	take(1, false, false) // its place stays

	take(0, true, false) // it is part 1's, then part 2's
	if !parts[1].called() || parts[2].called() {
		t.Fatal("not part 1 was told")
	}
	take(1, false, true)
	ts.leave(parts[1], now)
	if !parts[2].called() {
		t.Fatal("part 2 was not told")
	}
	take(1, false, false) // behind part 0

	now = now.Add(turnFor - 1)
	take(0, false, false)
	now = now.Add(1) // part 2 works on for long
	take(0, false, true)
	ts.leave(parts[2], now)
	take(0, false, true)
	ts.leave(parts[1], now) // while it waits
	ts.leave(parts[0], now)
	if parts[1].called() || len(ts.of) != 0 {
		t.Errorf("turns are left: %v", ts.of)
	}
}

// TestTurnsOfWhom: clients take turns over all topics, shares over a topic's
// partitions; nobody waits for anybody else.
func TestTurnsOfWhom(t *testing.T) {
	a, b := offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "a"}, offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "b"}
	s := offsetstore.Subscriber{Kind: offsetstore.KindShare, Name: "a"}
	var ts turns
	for _, c := range []struct {
		p    *part
		want bool
	}{
		{turnPart("t", "0", a), true},
		{turnPart("u", "1", a), false},
		{turnPart("t", "0", b), true},
		{turnPart("t", "0", s), true},
		{turnPart("t", "1", s), false},
		{turnPart("u", "0", s), true},
	} {
		if ok, _ := ts.take(c.p, false, time.Unix(1000, 0)); ok != c.want {
			t.Errorf("%v is given the turn: %v", c.p.key, ok)
		}
	}
}

// TestFrozenWaitsForThaw: what a part waits for while its subscriber is held still
// brings no looks that change nothing: the thaw does.
func TestFrozenWaitsForThaw(t *testing.T) {
	sub := offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}
	for name, wait := range map[string]func(p *part, until time.Time){
		"a turn":         func(p *part, until time.Time) { p.turn = partTurn{known: true, again: until} },
		"another commit": func(p *part, until time.Time) { p.retryAt = until; p.left = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{})
				r.open("c", sinkFunc(discard))
				r.publish(1)
				synctest.Wait()
				l := r.loop()
				release := block(l)
				p, now := l.parts[sub], time.Now()
				l.hold(sub, &freeze{waiting: make(chan struct{})})
				wait(p, now.Add(time.Second))
				l.touch(p)
				if n := turnsUntil(l, now, now.Add(time.Minute)); n > 20 {
					t.Errorf("%d turns or more in a minute", n)
				}
				l.thaw(sub)
				l.turn(now.Add(time.Minute))
				if !p.turn.again.IsZero() || !p.retryAt.IsZero() {
					t.Errorf("after the thaw it waits until %v, %v", p.turn.again, p.retryAt)
				}
				release()
			})
		})
	}
}

// TestSuspectOutNeedsNoTurn: a part whose suspect is in flight, again after an ack
// that could not be stored, does not ask for the turn that it waited for then.
func TestSuspectOutNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		for i := range 3 {
			s := r.open("c", sinkFunc(discard))
			if i == 0 {
				r.publish(1)
			}
			<-time.After(10 * time.Second)
			if l := r.loop(); suspectOut(t, l) {
				release := block(l)
				p, now := l.parts[offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}], time.Now()
				p.turn = partTurn{known: true, again: now.Add(time.Second)}
				l.touch(p)
				if n := turnsUntil(l, now, now.Add(10*time.Second)); n > 20 {
					t.Errorf("%d turns or more in ten seconds", n)
				}
				release()
				return
			}
			r.d.End(s, true, 0, nil)
			<-s.Done()
		}
		t.Fatal("it has become no suspect")
	})
}

// suspectOut tells whether the one part of a loop has a suspect in flight.
func suspectOut(t *testing.T, l *loop) (out bool) {
	t.Helper()
	err := l.call(t.Context(), func() {
		for _, p := range l.parts {
			out = p.m.HasSuspectOut()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// turnsUntil counts the turns that a loop, which the caller has for himself, takes
// for its deadlines, up to 100.
func turnsUntil(l *loop, now, end time.Time) (n int) {
	for n < 100 {
		l.turn(now)
		n++
		if l.next.IsZero() || l.next.After(end) {
			return n
		}
		if l.next.After(now) {
			now = l.next
		}
	}
	return n
}

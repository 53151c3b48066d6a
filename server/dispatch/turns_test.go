package dispatch

import (
	"testing"
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

package progress

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offset"
)

func one(t *testing.T, tab *Table) Position {
	t.Helper()
	ps := tab.Positions()
	if len(ps) != 1 {
		t.Fatalf("%d positions, want 1", len(ps))
	}
	return ps[0]
}

func TestUnknownIsNotTold(t *testing.T) {
	var tab Table
	p := tab.Partition("t", "client/c", "0")
	p.Finished(0, 3, 4)
	if got := tab.Positions(); len(got) != 0 {
		t.Errorf("a position that no server told is %v, want none", got)
	}
}

func TestFinishedMovesFloor(t *testing.T) {
	var tab Table
	tab.Replace(&Position{Topic: "t", Subscriber: "share/s", Partition: "0", Next: 5, Epoch: 1})
	p := tab.Partition("t", "share/s", "0")
	p.Finished(1, 7, 9)
	if got := one(t, &tab); got.Next != 5 || len(got.Ahead) != 1 || got.Ahead[0] != (offset.Range{First: 7, Last: 9}) {
		t.Errorf("acked 7 to 9 above 5: %+v", got)
	}
	p.Finished(1, 5, 6)
	if got := one(t, &tab); got.Next != 10 || len(got.Ahead) != 0 {
		t.Errorf("acked 5 and 6 too: %+v", got)
	}
	p.Finished(0, 10, 20)
	if got := one(t, &tab); got.Next != 10 {
		t.Errorf("an ack of an older epoch moved the position: %+v", got)
	}
}

func TestAdvanceOnlyUp(t *testing.T) {
	var tab Table
	pos := Position{Topic: "t", Subscriber: "share/s", Partition: "0", Next: 20, Epoch: 2}
	tab.Advance(&pos)
	for _, older := range []Position{{Next: 11, Epoch: 2}, {Next: 90, Epoch: 1}} {
		older.Topic, older.Subscriber, older.Partition = "t", "share/s", "0"
		tab.Advance(&older)
		if got := one(t, &tab); got.Next != 20 || got.Epoch != 2 {
			t.Errorf("after %+v: %+v", older, got)
		}
	}
	p := tab.Partition("t", "share/s", "0")
	if p.Stale(2) || !p.Stale(1) {
		t.Error("epoch 1 is stale, epoch 2 is not")
	}
	pos.Next, pos.Epoch = 3, 3
	tab.Advance(&pos)
	if got := one(t, &tab); got.Next != 3 || !p.Stale(2) {
		t.Errorf("a reset goes down: %+v", got)
	}
}

// TestNeverSkips: whatever comes, the position never claims an offset that was
// neither told by the server nor acked.
func TestNeverSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab Table
		pos := Position{Topic: "t", Subscriber: "share/s", Partition: "0"}
		tab.Replace(&pos)
		p := tab.Partition("t", "share/s", "0")
		done := map[int64]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			first := rapid.Int64Range(0, 60).Draw(t, "first")
			last := first + rapid.Int64Range(0, 5).Draw(t, "more")
			if rapid.Bool().Draw(t, "told") {
				for o := int64(0); o < first; o++ {
					done[o] = true
				}
				tab.Advance(&Position{Topic: "t", Subscriber: "share/s", Partition: "0", Next: first})
			} else {
				p.Finished(0, first, last)
				for o := first; o <= last; o++ {
					done[o] = true
				}
			}
			checkClaims(t, tab.Positions()[0], done)
		}
	})
}

func checkClaims(t *rapid.T, got Position, done map[int64]bool) {
	claimed := map[int64]bool{}
	for o := range got.Next {
		claimed[o] = true
	}
	for _, r := range got.Ahead {
		for o := r.First; o <= r.Last; o++ {
			claimed[o] = true
		}
	}
	for o := range int64(80) {
		if claimed[o] != done[o] {
			t.Fatalf("offset %d: claimed %v, finished %v, in %+v", o, claimed[o], done[o], got)
		}
	}
}

func TestForget(t *testing.T) {
	var tab Table
	for _, p := range []Position{{Topic: "t", Subscriber: "share/s"}, {Topic: "t", Subscriber: "share/r"}, {Topic: "u", Subscriber: "share/s"}} {
		tab.Replace(&p)
	}
	tab.Forget("t", "share/s")
	got := tab.Positions()
	if len(got) != 2 || got[0].Subscriber != "share/r" || got[1].Topic != "u" {
		t.Errorf("left: %+v", got)
	}
}

// TestTellsWhose: a partition knows the names it was made with.
func TestTellsWhose(t *testing.T) {
	var tab Table
	p := tab.Partition("t#1", "client/a/b", "broker-a:3")
	if p.Topic() != "t#1" || p.Subscriber() != "client/a/b" || p.Name() != "broker-a:3" {
		t.Errorf("%q %q %q", p.Topic(), p.Subscriber(), p.Name())
	}
	if tab.Partition("t", "1#client/a/b", "broker-a:3") == p {
		t.Error("names that join to the same text are the same partition")
	}
}

func TestBounded(t *testing.T) {
	var tab Table
	tab.Replace(&Position{Topic: "t", Subscriber: "share/s", Partition: "0"})
	p := tab.Partition("t", "share/s", "0")
	for i := int64(1); i < 3*maxKept; i++ {
		p.Finished(0, 2*i, 2*i)
	}
	if n := len(p.ahead.Ranges()); n > maxKept {
		t.Errorf("%d ranges kept, want at most %d", n, maxKept)
	}
	if n := len(one(t, &tab).Ahead); n != MaxAhead {
		t.Errorf("%d ranges told, want %d", n, MaxAhead)
	}
}

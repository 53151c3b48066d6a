package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func entry(t require, ids []uint64) *Entry {
	var tab progress.Table
	e := New(tab.Partition("t", "share/s", "0"), 1, t0, len(ids), ids[0], 0)
	for i, id := range ids[1:] {
		if !e.Append(id, int64(i+1)) {
			t.Fatalf("ids %v refused", ids)
		}
	}
	return e
}

type require interface{ Fatalf(string, ...any) }

func seq(first uint64, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = first + uint64(i)
	}
	return ids
}

func add(t require, l *Ledger, ids []uint64) *Entry {
	e := entry(t, ids)
	if err := l.Add(e); err != nil {
		t.Fatalf("%v", err)
	}
	return e
}

func ignore(*Entry, int, int, bool) {}

func TestRangesOfAcks(t *testing.T) {
	var l Ledger
	e := add(t, &l, seq(100, 130))
	for _, i := range []int{0, 1, 2, 62, 63, 64, 65, 129, 5} {
		if !e.Ack(i) {
			t.Errorf("first ack of %d is none", i)
		}
		if e.Ack(i) {
			t.Errorf("second ack of %d counts", i)
		}
	}
	got := l.Collect(e, nil)
	want := []wire.Range{{First: 100, Last: 102}, {First: 105, Last: 105}, {First: 162, Last: 165}, {First: 229, Last: 229}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again := l.Collect(e, nil); len(again) != 0 {
		t.Errorf("collected twice: %v", again)
	}
	if l.Open() != 9 {
		t.Errorf("%d open, want 9", l.Open())
	}
}

func TestRangesJoinOverEntries(t *testing.T) {
	var l Ledger
	a, b := add(t, &l, seq(1, 64)), add(t, &l, seq(65, 10))
	if n := a.AckAll() + b.AckAll(); n != 74 {
		t.Errorf("%d acked, want 74", n)
	}
	got := l.Collect(b, l.Collect(a, nil))
	if !slices.Equal(got, []wire.Range{{First: 1, Last: 74}}) {
		t.Errorf("got %v, want one range", got)
	}
	l.Apply(Durable, wire.Range{First: 1, Last: 74}, ignore)
	l.Prune()
	if l.Len() != 0 || l.Open() != 0 {
		t.Errorf("%d entries and %d open after all was confirmed", l.Len(), l.Open())
	}
}

func TestRetry(t *testing.T) {
	var l Ledger
	e := add(t, &l, seq(10, 5))
	e.AckAll()
	l.Collect(e, nil)
	l.Apply(Retry, wire.Range{First: 11, Last: 12}, ignore)
	if l.Open() != 5 || l.Retries() != 2 {
		t.Errorf("open %d, retries %d, want 5 and 2", l.Open(), l.Retries())
	}
	held := l.Extend(nil, t0.Add(time.Second), t0.Add(time.Second), t0)
	if !slices.Equal(held, []wire.Range{{First: 11, Last: 12}}) {
		t.Errorf("what waits for a repeated ack is extended too, got %v", held)
	}
	if got := l.CollectRetries(nil); !slices.Equal(got, []wire.Range{{First: 11, Last: 12}}) {
		t.Errorf("got %v", got)
	}
	if l.Retries() != 0 {
		t.Errorf("retries left: %d", l.Retries())
	}
	l.Apply(Durable, wire.Range{First: 0, Last: 100}, ignore)
	if l.Prune(); l.Open() != 0 || l.Len() != 0 {
		t.Errorf("open %d, entries %d", l.Open(), l.Len())
	}
}

func TestNack(t *testing.T) {
	var l Ledger
	e := add(t, &l, seq(10, 2))
	if !l.Nack(e, 0) || l.Nack(e, 0) || e.Ack(0) {
		t.Fatal("a nack settles once")
	}
	var told []bool
	see := func(_ *Entry, from, to int, nack bool) { told = append(told, nack) }
	l.Apply(Retry, wire.Range{First: 10, Last: 10}, see)
	l.Apply(Durable, wire.Range{First: 10, Last: 10}, see)
	if !slices.Equal(told, []bool{true, true}) {
		t.Errorf("told %v, want two answers to a nack", told)
	}
	if l.Prune(); l.Len() != 1 {
		t.Error("the other delivery is still held")
	}
	if l.Drop(e, 0, 2) != 1 {
		t.Error("only the held one can be dropped")
	}
	if l.Prune(); l.Len() != 0 {
		t.Error("nothing is held")
	}
}

func TestUnknownIdsChangeNothing(t *testing.T) {
	var l Ledger
	e := add(t, &l, seq(10, 3))
	e.Ack(1)
	for _, r := range []wire.Range{{First: 1, Last: 5}, {First: 13, Last: 99}, {First: 0, Last: ^uint64(0)}} {
		l.Apply(Durable, r, func(*Entry, int, int, bool) { t.Errorf("%v changed something", r) })
	}
}

func TestStretchesInAnyOrder(t *testing.T) {
	var l Ledger
	a, b, c := add(t, &l, seq(10, 3)), add(t, &l, seq(20, 3)), add(t, &l, seq(13, 7))
	if err := l.Add(entry(t, seq(12, 1))); !errors.Is(err, ErrRepeated) {
		t.Errorf("got %v, want ErrRepeated", err)
	}
	if err := l.Add(entry(t, seq(5, 100))); !errors.Is(err, ErrRepeated) {
		t.Errorf("got %v, want ErrRepeated", err)
	}
	for id, want := range map[uint64]*Entry{10: a, 12: a, 13: c, 19: c, 20: b, 22: b, 9: nil, 23: nil} {
		e, i, ok := l.Find(id)
		if e != want && ok || ok != (want != nil) || ok && e.ID(i) != id {
			t.Errorf("Find(%d) = %v %d %v", id, e, i, ok)
		}
	}
}

func TestAppend(t *testing.T) {
	e := New(nil, 1, t0, 100, 5, 50)
	if e.Append(5, 51) || e.Append(7, 51) {
		t.Error("an id that does not follow was taken")
	}
	for i := 1; i < 128; i++ {
		e.Append(uint64(5+i), int64(50+2*i))
	}
	if e.Append(5+128, 0) {
		t.Error("taken beyond the room")
	}
	if e.Len() != 128 || e.Offset(0) != 50 || e.Offset(1) != 52 || e.Offset(127) != 304 {
		t.Errorf("%d deliveries, offsets %d %d", e.Len(), e.Offset(1), e.Offset(127))
	}
}

func TestExtend(t *testing.T) {
	var l Ledger
	e := add(t, &l, seq(10, 3))
	e.Ack(1)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	if got := l.Extend(nil, at(5), at(-1), t0); len(got) != 0 {
		t.Errorf("extended too early: %v", got)
	}
	want := []wire.Range{{First: 10, Last: 10}, {First: 12, Last: 12}}
	if got := l.Extend(nil, at(10), at(2), t0); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := l.Extend(nil, at(11), at(3), t0); len(got) != 0 {
		t.Errorf("extended again too early: %v", got)
	}
	if got := l.Extend(nil, at(100), at(90), at(6)); len(got) != 0 {
		t.Errorf("extended though nothing came of it: %v", got)
	}
}

// TestExtendWhatWaits: what was taken is extended for so long and no longer; what waits
// for its turn, as long as something moves.
func TestExtendWhatWaits(t *testing.T) {
	var l Ledger
	a, b, c := add(t, &l, seq(100, 70)), add(t, &l, seq(200, 2)), add(t, &l, seq(300, 1))
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	check := func(now int, want ...wire.Range) {
		t.Helper()
		if got := l.Extend(nil, at(now), at(now-1), at(now-10)); !slices.Equal(got, want) {
			t.Errorf("at %d: got %v, want %v", now, got, want)
		}
	}
	rest := []wire.Range{{First: 200, Last: 201}, {First: 300, Last: 300}}
	a.Begin(3)
	check(5, append([]wire.Range{{First: 100, Last: 169}}, rest...)...)
	a.Ack(1)
	a.Begin(65)
	check(13, append([]wire.Range{{First: 100, Last: 100}, {First: 102, Last: 169}}, rest...)...)
	check(16, append([]wire.Range{{First: 103, Last: 169}}, rest...)...) // the first three are overdue
	check(23, append([]wire.Range{{First: 103, Last: 169}}, rest...)...)
	check(24) // nothing has moved since 13
	b.Begin(1)
	check(26, append([]wire.Range{{First: 168, Last: 169}}, rest...)...)
	l.Drop(b, 0, 2)
	l.Prune()
	check(30, wire.Range{First: 168, Last: 169}, wire.Range{First: 300, Last: 300})
	c.Begin(1)
	a.Begin(2)
	check(40, wire.Range{First: 168, Last: 169}, wire.Range{First: 300, Last: 300})
	check(51)
}

func TestStuckDeliveryDoesNotKeepAll(t *testing.T) {
	for _, atOnce := range []int{1, 3, 10, 100} { // entries between two answers
		var l Ledger
		add(t, &l, seq(1, 1))
		next := uint64(2)
		for next < 10_000 {
			first := next
			for range atOnce {
				e := add(t, &l, []uint64{next})
				e.Ack(0)
				l.Collect(e, nil)
				next++
			}
			l.Apply(Durable, wire.Range{First: first, Last: next - 1}, ignore)
			l.Prune()
		}
		if most := 130 + atOnce; l.Len() > most {
			t.Errorf("%d at once: %d entries kept for one that is held, want %d at most", atOnce, l.Len(), most)
		}
	}
}

// model is a slow and obvious ledger: a map of ids to states.
type model struct {
	state map[uint64]string
}

func (m *model) count(states ...string) int {
	n := 0
	for _, s := range m.state {
		if slices.Contains(states, s) {
			n++
		}
	}
	return n
}

func (m *model) ids(states ...string) []uint64 {
	var ids []uint64
	for id, s := range m.state {
		if slices.Contains(states, s) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *model) move(from, to string, r wire.Range) {
	for id, s := range m.state {
		if s == from && r.First <= id && id <= r.Last {
			m.state[id] = to
		}
	}
}

func expand(ranges []wire.Range) []uint64 {
	var ids []uint64
	for _, r := range ranges {
		for id := r.First; id <= r.Last; id++ {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

type machine struct {
	l       Ledger
	m       model
	entries []*Entry
	next    uint64
}

func (c *machine) add(t *rapid.T) {
	n := rapid.IntRange(1, 150).Draw(t, "n")
	c.next += rapid.Uint64Range(1, 3).Draw(t, "gap")
	ids := seq(c.next, n)
	c.next += uint64(n) - 1
	for _, id := range ids {
		c.m.state[id] = "held"
	}
	half := rapid.IntRange(0, n-1).Draw(t, "half")
	if half > 0 { // the second half first
		c.entries = append(c.entries, add(t, &c.l, ids[half:]))
		ids = ids[:half]
	}
	c.entries = append(c.entries, add(t, &c.l, ids))
}

func (c *machine) pick(t *rapid.T) (*Entry, int) {
	e := rapid.SampledFrom(c.entries).Draw(t, "entry")
	return e, rapid.IntRange(0, e.Len()-1).Draw(t, "index")
}

func (c *machine) settle(t *rapid.T) {
	e, i := c.pick(t)
	id, how := e.ID(i), rapid.SampledFrom([]string{"ack", "ackall", "nack", "drop"}).Draw(t, "how")
	held := c.m.state[id] == "held"
	all := wire.Range{First: e.first, Last: e.last()}
	switch how {
	case "ack":
		c.expect(t, e.Ack(i), held, id, "acked")
	case "nack":
		c.expect(t, c.l.Nack(e, i), held, id, "nackopen")
	case "drop":
		c.expect(t, c.l.Drop(e, i, i+1) == 1, held, id, "done")
	case "ackall":
		e.AckAll()
		c.m.move("held", "acked", all)
	}
}

func (c *machine) expect(t *rapid.T, got, held bool, id uint64, state string) {
	if got != held {
		t.Fatalf("settling %d as %s: %v, it was held: %v", id, state, got, held)
	}
	if held {
		c.m.state[id] = state
	}
}

func (c *machine) collect(t *rapid.T) {
	var got []wire.Range
	for _, e := range c.entries {
		got = c.l.Collect(e, got)
	}
	if want := c.m.ids("acked"); !slices.Equal(expand(got), want) {
		t.Fatalf("collected %v, want %v", got, want)
	}
	c.m.move("acked", "open", wire.Range{Last: ^uint64(0)})
}

func (c *machine) collectRetries(t *rapid.T) {
	if got, want := expand(c.l.CollectRetries(nil)), c.m.ids("retry"); !slices.Equal(got, want) {
		t.Fatalf("collected for retry %v, want %v", got, want)
	}
	c.m.move("retry", "open", wire.Range{Last: ^uint64(0)})
}

func (c *machine) apply(t *rapid.T) {
	first := rapid.Uint64Range(0, c.next+2).Draw(t, "first")
	r := wire.Range{First: first, Last: first + rapid.Uint64Range(0, 200).Draw(t, "more")}
	out := rapid.SampledFrom([]Outcome{Durable, Retry, Unknown, Stale, Fenced}).Draw(t, "outcome")
	var acks, nacks []uint64
	c.l.Apply(out, r, func(e *Entry, from, to int, nack bool) {
		for i := from; i < to; i++ {
			if nack {
				nacks = append(nacks, e.ID(i))
			} else {
				acks = append(acks, e.ID(i))
			}
		}
	})
	c.check(t, "acks", acks, "open", r)
	c.check(t, "nacks", nacks, "nackopen", r)
	if out == Retry {
		c.m.move("open", "retry", r)
		return
	}
	c.m.move("open", "done", r)
	c.m.move("nackopen", "done", r)
}

func (c *machine) check(t *rapid.T, what string, got []uint64, state string, r wire.Range) {
	var want []uint64
	for _, id := range c.m.ids(state) {
		if r.First <= id && id <= r.Last {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%s answered: %v, want %v", what, got, want)
	}
}

func (c *machine) audit(t *rapid.T) {
	if got, want := c.l.Open(), c.m.count("open", "retry"); got != want {
		t.Fatalf("Open = %d, want %d", got, want)
	}
	if got, want := c.l.Retries(), c.m.count("retry"); got != want {
		t.Fatalf("Retries = %d, want %d", got, want)
	}
	var ids []uint64
	c.l.Unconfirmed(func(e *Entry, from, to int) {
		for i := from; i < to; i++ {
			ids = append(ids, e.ID(i))
		}
	})
	if want := c.m.ids("acked", "open", "retry"); !slices.Equal(ids, want) {
		t.Fatalf("unconfirmed %v, want %v", ids, want)
	}
	if got, want := expand(c.l.Extend(nil, t0, t0, t0)), c.m.ids("held", "retry"); !slices.Equal(got, want) {
		t.Fatalf("extended %v, want %v", got, want)
	}
}

// TestAgainstModel holds the ledger against a map.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &machine{m: model{state: map[uint64]string{}}}
		c.add(t)
		t.Repeat(map[string]func(*rapid.T){
			"add": c.add, "settle": c.settle, "collect": c.collect,
			"retries": c.collectRetries, "apply": c.apply,
			"prune": func(*rapid.T) { c.l.Prune() },
			"":      c.audit,
		})
	})
}

func BenchmarkAckCollectConfirm(b *testing.B) {
	var l Ledger
	var tab progress.Table
	part := tab.Partition("t", "share/s", "0")
	var dst []wire.Range
	id := uint64(1)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e := New(part, 1, t0, 24, id, int64(id))
		for i := range uint64(23) {
			e.Append(id+i+1, int64(id+i+1))
		}
		id += 24
		if err := l.Add(e); err != nil {
			b.Fatal(err)
		}
		for i := range 24 {
			e.Ack(i)
		}
		dst = l.Collect(e, dst[:0])
		l.Apply(Durable, dst[0], ignore)
		l.Prune()
		n += 24
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

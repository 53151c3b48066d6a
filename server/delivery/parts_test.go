package delivery

import (
	"cmp"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
	"pgregory.net/rapid"
)

func TestPick(t *testing.T) {
	for _, c := range []struct {
		free   []int
		cursor int
		want   int
	}{
		{nil, 0, -1},
		{[]int{0, 0}, 1, -1},
		{[]int{1, 5, 3}, 0, 1},
		{[]int{4, 4, 4}, 1, 1},
		{[]int{4, 4, 4}, 3, 0},
		{[]int{4, 0, 4}, 1, 2},
		{[]int{4, 4}, -1, 1},
		{[]int{-1, 2}, math.MinInt, 1},
	} {
		if got := Pick(c.free, c.cursor); got != c.want {
			t.Errorf("Pick(%v, %d) = %d, want %d", c.free, c.cursor, got, c.want)
		}
	}
}

// TestPickGoesRound: equals take turns.
func TestPickGoesRound(t *testing.T) {
	free, got, cursor := []int{9, 9, 9}, []int{}, 0
	for range 6 {
		i := Pick(free, cursor)
		cursor = i + 1
		got = append(got, i)
	}
	if !slices.Equal(got, []int{0, 1, 2, 0, 1, 2}) {
		t.Fatalf("turns %v", got)
	}
}

func TestWindow(t *testing.T) {
	w := Window{MaxRecords: 3, MaxBytes: 100}
	steps := []struct {
		n    int
		size int64
		want bool
		free int
	}{
		{1, 60, true, 2},
		{1, 41, false, 2},
		{2, 40, true, 0},
		{1, 0, false, 0},
	}
	for i, s := range steps {
		if got := w.Reserve(s.n, s.size); got != s.want || w.Free() != s.free {
			t.Fatalf("step %d: Reserve = %v, Free = %d", i, got, w.Free())
		}
	}
	w.Release(9, 900)
	if n, size := w.Held(); n != 0 || size != 0 || !w.Reserve(1, 5000) {
		t.Fatal("a frame larger than the window does not go alone")
	}
	if w.Free() != 0 || w.Reserve(1, 1) {
		t.Fatal("something goes beside a frame larger than the window")
	}
	w.Release(1, 5000)
	if w.Reserve(2, 101) {
		t.Fatal("two that are larger than the window together go")
	}
}

func TestWindowLimits(t *testing.T) {
	for _, c := range []struct {
		w    Window
		ok   bool
		free int
	}{
		{Window{}, false, 0},
		{Window{MaxRecords: 0, MaxBytes: 10}, false, 0},
		{Window{MaxRecords: 10, MaxBytes: 0}, false, 0},
		{Window{MaxRecords: 10, MaxBytes: -1}, true, 9},
		{Window{MaxRecords: -1, MaxBytes: 10}, true, math.MaxInt},
		{Window{MaxRecords: -1, MaxBytes: -1}, true, math.MaxInt},
	} {
		w := c.w
		if ok := w.Reserve(1, 9); ok != c.ok || w.Free() != c.free {
			t.Errorf("%+v: Reserve = %v, Free = %d, want %v, %d", c.w, ok, w.Free(), c.ok, c.free)
		}
	}
	w := Window{MaxRecords: 5, MaxBytes: -1}
	w.Reserve(5, 1)
	w.MaxRecords = 2
	if w.Free() != 0 || w.Reserve(1, 1) {
		t.Error("a lowered window takes more")
	}
}

// TestTable holds the table of batches against a map.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb table
		want := map[uint64]*batch{}
		id := uint64(1)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "op") > 0 || len(want) == 0 {
				b := &batch{first: id}
				tb.add(b)
				want[id] = b
				id += rapid.Uint64Range(1, 64).Draw(t, "n")
			} else {
				first := rapid.SampledFrom(slices.Sorted(maps.Keys(want))).Draw(t, "drop")
				tb.drop(want[first])
				delete(want, first)
			}
			probe := rapid.Uint64Range(0, id).Draw(t, "probe")
			if got := tb.find(probe); got != want[probe] {
				t.Fatalf("find(%d) = %v, want %v", probe, got, want[probe])
			}
		}
		var got []uint64
		for b := range tb.each {
			got = append(got, b.first)
		}
		if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("each yields %v", got)
		}
		if live := len(want); len(tb.slots) > 2*live+66 {
			t.Fatalf("%d slots for %d batches", len(tb.slots), live)
		}
	})
}

// TestAlarms holds the heap against a sorted list.
func TestAlarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h alarms
		var in []*alarm
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op > 1 || len(in) == 0:
				a := &alarm{}
				h.set(a, rapid.Int64Range(0, 50).Draw(t, "at"))
				in = append(in, a)
			case op == 1:
				h.set(rapid.SampledFrom(in).Draw(t, "moved"), rapid.Int64Range(0, 50).Draw(t, "at"))
			default:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "dropped")
				h.drop(in[i])
				h.drop(in[i])
				in = slices.Delete(in, i, i+1)
			}
			if len(in) == 0 {
				continue
			}
			first := slices.MinFunc(in, func(a, b *alarm) int { return cmp.Compare(a.at, b.at) })
			if got := h.first(); got == nil || got.at != first.at {
				t.Fatalf("first is %v, want one at %d", got, first.at)
			}
		}
		for _, a := range in {
			if h.heap[a.pos-1].a != a {
				t.Fatal("an alarm does not know its place")
			}
		}
	})
}

// TestBacklog holds runs against a map of offsets.
func TestBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b backlog
		want := map[int64]int32{}
		at := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "runs") {
			at += rapid.Int64Range(0, 2).Draw(t, "gap")
			r := run{Range: offset.Range{First: at, Last: at + rapid.Int64Range(0, 9).Draw(t, "len")}, sent: rapid.Int32Range(1, 2).Draw(t, "sent")}
			b.push(r)
			for ; at <= r.Last; at++ {
				want[at] = r.sent
			}
		}
		for range rapid.IntRange(0, 10).Draw(t, "cuts") {
			first := rapid.Int64Range(0, at).Draw(t, "first")
			c := offset.Range{First: first, Last: first + rapid.Int64Range(-1, 15).Draw(t, "len")}
			b.cut(c)
			maps.DeleteFunc(want, func(off int64, _ int32) bool { return c.Contains(off) })
			for off := int64(-1); off <= at; off++ {
				sent, ok := want[off]
				if r := b.find(off); (r != nil) != ok || (ok && r.sent != sent) {
					t.Fatalf("find(%d) = %v, want %v", off, r, ok)
				}
			}
			if b.n != int64(len(want)) {
				t.Fatalf("n = %d, want %d", b.n, len(want))
			}
		}
		for len(want) > 0 {
			least := slices.Min(slices.Collect(maps.Keys(want)))
			if r := b.pop(); r.off != least || r.sent != want[least] {
				t.Fatalf("pop = %d", r.off)
			}
			delete(want, least)
		}
	})
}

// TestHugeGap: a crash left a billion offsets between the saved position and
// the high mark, which the log does not have. It costs no memory to start, and
// one call to pass over.
func TestHugeGap(t *testing.T) {
	const far = 1_000_000_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := New(Settings{}, offsetstore.Value{Position: 5, High: far + 1}, scriptStart, nil)
	m.Attach(1, time.Minute)
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	items := m.Next(10)
	if len(items) != 10 || items[0].Offset != 5 || items[0].Attempt != 2 {
		t.Fatalf("Next = %v", items)
	}
	m.Absent(offset.Range{First: 5, Last: far - 1})
	v := m.Snapshot()
	m.EndCommit(scriptStart, true)
	items = m.Next(10)
	if len(items) != 1 || items[0].Offset != far {
		t.Fatalf("Next = %v after %+v", items, v)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Fatalf("%d bytes were allocated", used)
	}
}

// TestManyRestored: what was in flight comes again complete and in order,
// however much it is, armed in portions.
func TestManyRestored(t *testing.T) {
	const n = 10_000
	m := New(Settings{}, offsetstore.Value{High: n}, scriptStart, nil)
	m.Attach(1, time.Minute)
	id, want := uint64(1), int64(0)
	for want < n {
		v := m.Snapshot()
		m.EndCommit(scriptStart, true)
		if armed := v.Attempts[0]; armed.Due != 0 || armed.Len() > 2*armAhead {
			t.Fatalf("%v armed at once", armed.Range)
		}
		for items := m.Next(MaxBatch); len(items) > 0; items = m.Next(MaxBatch) {
			var offs []int64
			for _, it := range items {
				if it.Offset != want || it.Attempt != 2 {
					t.Fatalf("%+v comes, want %d", it, want)
				}
				want++
				offs = append(offs, it.Offset)
			}
			m.Sent(1, id, offs)
			m.Ack(scriptStart, 1, id, ^uint64(0))
			id += MaxBatch
		}
	}
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	if m.Position() != n || len(m.hist) != 0 {
		t.Fatalf("position %d, %d records", m.Position(), len(m.hist))
	}
}

// TestSentMisuse: more than a batch is split, a stream that is gone gets
// nothing, and nothing is lost.
func TestSentMisuse(t *testing.T) {
	m := New(Settings{}, offsetstore.Value{}, scriptStart, nil)
	m.Attach(1, time.Minute)
	var offs []int64
	for off := range int64(150) {
		m.Offer(off, 0)
		offs = append(offs, off)
	}
	m.Sent(1, 1, offs[:140])
	m.Sent(2, 1, offs[140:])
	m.Sent(1, 500, nil)
	if s := m.Stats(); s.InFlight != 140 || s.Waiting != 10 {
		t.Fatalf("%+v", s)
	}
	for _, first := range []uint64{1, 65, 129} {
		if o := m.Ack(scriptStart, 1, first, ^uint64(0)); o.Waiting == 0 {
			t.Fatalf("batch %d: %+v", first, o)
		}
	}
	if m.Position() != 140 {
		t.Fatalf("position %d", m.Position())
	}
}

// TestSentAfterFinish: one of a batch was finished after it was listed.
func TestSentAfterFinish(t *testing.T) {
	m := New(Settings{}, offsetstore.Value{High: 3}, scriptStart, nil)
	m.Attach(1, time.Minute)
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	m.Finish(0)
	m.Sent(1, 1, []int64{0, 1, 2})
	if s := m.Stats(); s.InFlight != 3 || s.Waiting != 0 || len(m.Next(9)) != 0 {
		t.Fatalf("%+v, next %v", s, m.Next(9))
	}
	for off := int64(3); off < 6; off++ {
		m.Offer(off, 0)
	}
	m.Finish(3)
	m.Sent(1, 4, []int64{3, 4, 5})
	m.Ack(scriptStart, 1, 1, 7)
	m.Ack(scriptStart, 1, 4, 7)
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	if m.Position() != 6 || len(m.hist)+len(m.offered)+m.inFlight != 0 {
		t.Fatalf("position %d, %+v", m.Position(), m.Stats())
	}
}

// TestUnknown: what is not outstanding is unknown, everywhere.
func TestUnknown(t *testing.T) {
	m := New(Settings{}, offsetstore.Value{}, scriptStart, nil)
	m.Attach(1, time.Minute)
	m.Attach(1, time.Hour)
	m.Offer(0, 0)
	m.Sent(1, 10, []int64{0})
	m.Handed(scriptStart, 1, 99)
	m.Handed(scriptStart, 7, 10)
	all := Outcome{Unknown: 3}
	for _, at := range []struct {
		s     StreamID
		first uint64
	}{{1, 9}, {1, 11}, {7, 10}} {
		ack := m.Ack(scriptStart, at.s, at.first, 3)
		nack := m.Nack(scriptStart, at.s, at.first, 3, 0, true, "")
		extend := m.Extend(scriptStart, at.s, at.first, 3, time.Hour)
		if ack != all || nack != all || extend != all {
			t.Errorf("%+v: %+v %+v %+v", at, ack, nack, extend)
		}
	}
	m.Detach(scriptStart, 7, true)
	m.Undead(0)
	m.Kill(0, ReasonTooLarge, "") // in flight: not killed
	if m.EndCommit(scriptStart, true) != nil || m.Dead() != nil || m.Stats().InFlight != 1 {
		t.Errorf("%+v", m.Stats())
	}
}

// TestEndlessTimes: times beyond the end of time are the end of time.
func TestEndlessTimes(t *testing.T) {
	m := New(Settings{}, offsetstore.Value{}, scriptStart, nil)
	m.Attach(1, time.Minute)
	for off := range int64(2) {
		m.Offer(off, 0)
	}
	m.Sent(1, 1, []int64{0, 1})
	later := scriptStart.Add(time.Hour)
	m.Extend(later, 1, 1, 1, math.MaxInt64)
	m.Nack(later, 1, 1, 2, math.MaxInt64, false, "")
	if at, ok := m.Deadline(); !ok || at.Before(later.AddDate(200, 0, 0)) {
		t.Fatalf("deadline %v %v", at, ok)
	}
	if v := m.Snapshot(); len(v.Attempts) != 1 || v.Attempts[0].Due < later.AddDate(200, 0, 0).UnixMilli() {
		t.Fatalf("%+v", v.Attempts)
	}
}

// FuzzNew: any stored value makes a machine that can be drained.
func FuzzNew(f *testing.F) {
	f.Add(int64(0), int64(10), int64(3), int64(4), int64(5), int64(7), int32(2), int32(1), int32(1), int64(0), false)
	f.Add(int64(5), int64(2), int64(-3), int64(40), int64(9), int64(1), int32(-2), int32(-1), int32(9), int64(-5), true)
	f.Add(int64(100), int64(160), int64(90), int64(105), int64(0), int64(1000), int32(0), int32(99), int32(2), int64(math.MaxInt64), false)
	f.Fuzz(func(t *testing.T, position, high, finFirst, finLast, attFirst, attLast int64, sent, spent, breaks int32, due int64, ordered bool) {
		const most = 1 << 40
		if position < 0 || position > most || high > position+500 || finLast > position+1000 || attLast > most {
			return
		}
		v := offsetstore.Value{
			Position: position, High: high,
			Finished: []offset.Range{{First: finFirst, Last: finLast}},
			Attempts: []offsetstore.Attempt{{Range: offset.Range{First: attFirst, Last: attLast}, Sent: sent, Spent: spent, Breaks: breaks, Due: due}},
		}
		m := New(Settings{Ordered: ordered, MaxWaiting: 10}, v, scriptStart, nil)
		drainFuzzed(t, m)
		if m.Position() < v.Position || m.Position() < m.NextNew() {
			t.Fatalf("position %d, next %d after %+v", m.Position(), m.NextNew(), v)
		}
	})
}

func drainFuzzed(t *testing.T, m *Machine) {
	now, id := scriptStart, uint64(1)
	m.Attach(1, time.Minute)
	for range 5000 {
		if m.Dirty() {
			m.Snapshot()
			m.EndCommit(now, true)
		}
		for _, d := range m.Dead() {
			m.Finish(d.Offset)
		}
		for _, it := range slices.Clone(m.Next(10)) {
			if m.Confirm(it.Offset, uint64(it.Offset%3)) == Send {
				m.Sent(1, id, []int64{it.Offset})
				m.Ack(now, 1, id, 1)
				id++
			}
		}
		if m.Position() >= m.NextNew() && !m.Dirty() {
			return
		}
		now = now.Add(time.Second)
		m.Tick(now)
	}
	t.Fatalf("not drained: %+v", m.Stats())
}

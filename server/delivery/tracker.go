package delivery

import (
	"sort"

	"github.com/ackmesh/ackmesh/offset"
)

// tracker turns finished offsets in any order into a floor and ranges above
// it. Invariant: floor is not finished, and no range touches it.
type tracker struct {
	floor int64
	ahead offset.Set
}

// add finishes r and returns how many of its offsets were not finished.
func (t *tracker) add(r offset.Range) int64 {
	r.First = max(r.First, t.floor)
	if r.Len() == 0 {
		return 0
	}
	if r.First > t.floor {
		return t.ahead.Add(r)
	}
	if t.ahead.Empty() { // acked in order: no list to touch
		t.floor = r.Last + 1
		return r.Len()
	}
	n := t.ahead.Add(r)
	t.floor = t.ahead.Ranges()[0].Last + 1
	t.ahead.TrimBelow(t.floor)
	return n
}

// remove makes r, all of which is finished, unfinished: a commit failed. The
// floor goes back with it.
func (t *tracker) remove(r offset.Range) {
	if r.First >= t.floor {
		t.ahead.Remove(r)
		return
	}
	t.ahead.Add(offset.Range{First: r.Last + 1, Last: t.floor - 1})
	t.floor = r.First
}

// has tells whether o is finished.
func (t *tracker) has(o int64) bool {
	return o < t.floor || (!t.ahead.Empty() && t.ahead.Contains(o))
}

// none tells whether nothing of r is finished.
func (t *tracker) none(r offset.Range) bool {
	if r.First < t.floor {
		return false
	}
	ranges := t.ahead.Ranges()
	n := len(ranges)
	if n == 0 || ranges[n-1].Last < r.First {
		return true
	}
	i := sort.Search(n, func(i int) bool { return ranges[i].Last >= r.First })
	return ranges[i].First > r.Last
}

// gaps calls fn with each unfinished range of [floor, end), in order.
func (t *tracker) gaps(end int64, fn func(offset.Range)) {
	at := t.floor
	for _, r := range t.ahead.Ranges() {
		if r.First >= end {
			break
		}
		fn(offset.Range{First: at, Last: r.First - 1})
		at = r.Last + 1
	}
	if at < end {
		fn(offset.Range{First: at, Last: end - 1})
	}
}

// mark is a copy of a tracker's state that is only read.
type mark struct {
	floor  int64
	ranges []offset.Range
}

// set copies t over m, in m's memory.
func (m *mark) set(t *tracker) {
	m.floor = t.floor
	m.ranges = append(m.ranges[:0], t.ahead.Ranges()...)
}

// has tells whether o was finished.
func (m *mark) has(o int64) bool {
	if o < m.floor {
		return true
	}
	i := sort.Search(len(m.ranges), func(i int) bool { return m.ranges[i].Last >= o })
	return i < len(m.ranges) && m.ranges[i].First <= o
}

func oneOffset(o int64) offset.Range { return offset.Range{First: o, Last: o} }

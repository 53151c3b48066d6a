package delivery

import (
	"cmp"
	"slices"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// recList lists the records of a state by offset. Joining costs an append,
// leaving nothing: a record whose state is another one is dropped later.
type recList struct {
	want  state // gone: all but gone
	recs  []*rec
	added []*rec
}

func (l *recList) has(r *rec) bool {
	if l.want == gone {
		return r.state != gone
	}
	return r.state == l.want
}

// add puts a record of the wanted state in.
func (l *recList) add(r *rec) { l.added = append(l.added, r) }

// list returns the records by offset. It may hold ones that have left: ask
// has. live is how many have not. The slice is the list's own.
func (l *recList) list(live int) []*rec {
	for len(l.recs) > 0 && !l.has(l.recs[0]) {
		l.recs[0] = nil // the array must not keep it
		l.recs = l.recs[1:]
	}
	if len(l.added) > 0 || len(l.recs) > 2*live+32 {
		l.merge()
	}
	return l.recs
}

// first is the lowest record; nil: none.
func (l *recList) first(live int) *rec {
	if recs := l.list(live); len(recs) > 0 {
		return recs[0]
	}
	return nil
}

// merge sorts in what was added and drops what has left.
func (l *recList) merge() {
	byOffset := func(a, b *rec) int { return cmp.Compare(a.off, b.off) }
	slices.SortFunc(l.added, byOffset)
	out := make([]*rec, 0, len(l.recs)+len(l.added))
	keep := func(r *rec) { // the same one may be there twice
		if l.has(r) && (len(out) == 0 || out[len(out)-1] != r) {
			out = append(out, r)
		}
	}
	i := 0
	for _, r := range l.recs {
		for ; i < len(l.added) && l.added[i].off <= r.off; i++ {
			keep(l.added[i])
		}
		keep(r)
	}
	for ; i < len(l.added); i++ {
		keep(l.added[i])
	}
	clear(l.added)
	l.recs, l.added = out, l.added[:0]
}

// run is a run of restored offsets with equal attempts.
type run struct {
	offset.Range
	sent, spent, breaks int32
	cause               Cause
	due                 int64
}

func (r *run) rec(off int64) *rec {
	return &rec{off: off, sent: r.sent, spent: r.spent, breaks: r.breaks, cause: r.cause, due: r.due}
}

func (r *run) attempt(m *Machine) offsetstore.Attempt {
	return offsetstore.Attempt{Range: r.Range, Sent: r.sent, Spent: r.spent, Breaks: r.breaks, Due: wallTime(m.clock.UnixMilli(), r.due-m.now)}
}

// backlog holds restored offsets that have no record yet, so that a start
// costs memory by runs, not by offsets. The runs are sorted and disjoint.
type backlog struct {
	runs []run
	n    int64
}

// push adds a run above all others.
func (b *backlog) push(r run) {
	b.n += r.Len()
	if k := len(b.runs) - 1; k >= 0 && b.runs[k].Last+1 == r.First {
		joined := b.runs[k]
		joined.Range = r.Range
		if joined == r {
			b.runs[k].Last = r.Last
			return
		}
	}
	b.runs = append(b.runs, r)
}

// pop takes the lowest offset out; there must be one.
func (b *backlog) pop() *rec {
	r := b.runs[0].rec(b.runs[0].First)
	b.cut(offset.Range{First: r.off, Last: r.off})
	return r
}

// find returns the run that holds off; nil: none.
func (b *backlog) find(off int64) *run {
	i, ok := b.search(off)
	if !ok || !b.runs[i].Contains(off) {
		return nil
	}
	return &b.runs[i]
}

// search is the place of the first run that ends at or above off.
func (b *backlog) search(off int64) (int, bool) {
	i, _ := slices.BinarySearchFunc(b.runs, off, func(r run, off int64) int { return cmp.Compare(r.Last, off) })
	return i, i < len(b.runs)
}

// cut removes the offsets of c.
func (b *backlog) cut(c offset.Range) {
	i, ok := b.search(c.First)
	if !ok || c.Len() == 0 {
		return
	}
	j := i
	var rest []run
	for ; j < len(b.runs) && b.runs[j].First <= c.Last; j++ {
		r := b.runs[j]
		b.n -= offset.Range{First: max(r.First, c.First), Last: min(r.Last, c.Last)}.Len()
		rest = appendRun(rest, r, r.First, min(r.Last, c.First-1))
		rest = appendRun(rest, r, max(r.First, c.Last+1), r.Last)
	}
	switch {
	case len(rest) == 1 && j == i+1:
		b.runs[i] = rest[0]
	case len(rest) == 0 && i == 0:
		b.runs = b.runs[j:]
	default:
		b.runs = slices.Replace(b.runs, i, j, rest...)
	}
}

func appendRun(to []run, r run, first, last int64) []run {
	if r.Range = (offset.Range{First: first, Last: last}); r.Len() == 0 {
		return to
	}
	return append(to, r)
}

// pool is what is to be armed: records, and restored ones below or between.
type pool struct {
	list recList
	back backlog
}

// take takes the lowest offset out of a pool; nil: it is empty.
func (m *Machine) take(p *pool) *rec {
	r := p.list.first(m.counts[p.list.want])
	if p.back.n > 0 && (r == nil || p.back.runs[0].First < r.off) {
		return m.adopt(p.back.pop())
	}
	return r
}

// peek is since when the lowest offset of a pool that is not empty waits, and what
// it has spent.
func (m *Machine) peek(p *pool) (due int64, spent int32) {
	r := p.list.first(m.counts[p.list.want])
	if p.back.n > 0 && (r == nil || p.back.runs[0].First < r.off) {
		return p.back.runs[0].due, p.back.runs[0].spent
	}
	return r.due, r.spent
}

// size is how many offsets are in a pool.
func (m *Machine) size(p *pool) int64 { return int64(m.counts[p.list.want]) + p.back.n }

package offsetstore

import (
	"slices"
	"sort"

	"github.com/ackmesh/ackmesh/offset"
)

// mergeFinished unites two sets of finished offsets at or above position, in
// time linear in both. The result shares nothing with them.
func mergeFinished(a, b []offset.Range, position int64) []offset.Range {
	a, b = rangesFrom(a, position), rangesFrom(b, position)
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make([]offset.Range, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if len(b) == 0 || (len(a) > 0 && a[0].First <= b[0].First) {
			out, a = appendRange(out, a[0], position), a[1:]
		} else {
			out, b = appendRange(out, b[0], position), b[1:]
		}
	}
	return out
}

// rangesFrom leaves out the ranges that end below position.
func rangesFrom(r []offset.Range, position int64) []offset.Range {
	return r[sort.Search(len(r), func(i int) bool { return r[i].Last >= position }):]
}

// appendRange adds the part of r at or above position to sorted ranges of
// which none begins after r.
func appendRange(out []offset.Range, r offset.Range, position int64) []offset.Range {
	r.First = max(r.First, position)
	if n := len(out); n > 0 && (r.First <= out[n-1].Last || r.First-1 == out[n-1].Last) {
		out[n-1].Last = max(out[n-1].Last, r.Last)
		return out
	}
	return append(out, r)
}

// Normal gives v the form that a Value is to have: no high mark below the
// position, finished offsets and attempts sorted, disjoint and not below it.
// A value in that form is returned as it is, sharing its slices; Merge of two
// such values is one too. Of attempts that overlap, the first counts.
func Normal(v Value) Value {
	v.High = max(v.High, v.Position)
	if !normalFinished(v.Finished, v.Position) {
		s := offset.NewSet(v.Finished)
		s.TrimBelow(v.Position)
		v.Finished = s.Ranges()
	}
	if !normalAttempts(v.Attempts, v.Position) {
		v.Attempts = sortAttempts(v.Attempts, v.Position)
	}
	return v
}

func normalFinished(r []offset.Range, position int64) bool {
	for i := range r {
		if r[i].Last < r[i].First || r[i].First < position {
			return false
		}
		if i > 0 && (r[i].First <= r[i-1].Last || r[i].First-1 == r[i-1].Last) {
			return false
		}
	}
	return true
}

func normalAttempts(a []Attempt, position int64) bool {
	for i := range a {
		if a[i].Last < a[i].First || a[i].First < position || (i > 0 && a[i].First <= a[i-1].Last) {
			return false
		}
	}
	return true
}

// sortAttempts is the long way to normal attempts.
func sortAttempts(a []Attempt, position int64) []Attempt {
	a = slices.Clone(a)
	sort.SliceStable(a, func(i, j int) bool { return a[i].First < a[j].First })
	out := a[:0]
	for _, t := range a {
		t.First = max(t.First, position)
		if n := len(out); n > 0 && t.First <= out[n-1].Last {
			if t.Last <= out[n-1].Last {
				continue
			}
			t.First = out[n-1].Last + 1
		}
		if t.First <= t.Last {
			out = append(out, t)
		}
	}
	return out
}

// Clone returns a copy of v that shares nothing with it.
func (v Value) Clone() Value {
	v.Finished = slices.Clone(v.Finished)
	v.Attempts = slices.Clone(v.Attempts)
	return v
}

// Marked is v with its high mark raised to high when epoch is its own: what
// was marked in another epoch says nothing of it.
func (v Value) Marked(epoch uint64, high int64) Value {
	if epoch == v.Epoch {
		v.High = max(v.High, high)
	}
	return v
}

// attemptsFrom drops what lies below position.
func attemptsFrom(a []Attempt, position int64) []Attempt {
	for len(a) > 0 && a[0].Last < position {
		a = a[1:]
	}
	if len(a) > 0 && a[0].First < position {
		a = append([]Attempt(nil), a...)
		a[0].First = position
	}
	return a
}

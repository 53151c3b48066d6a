package offset

import "sort"

// Set is a set of offsets kept as sorted, disjoint ranges that never touch.
// The zero value is empty. It costs one Range for each run of offsets, so
// acks in rough order cost next to nothing. Not safe for concurrent use.
type Set struct{ r []Range }

// NewSet makes a set out of ranges in any order, overlapping or not. The
// slice is not kept.
func NewSet(ranges []Range) *Set {
	s := &Set{}
	for _, r := range ranges {
		s.Add(r)
	}
	return s
}

// Ranges returns the set's ranges in order. The slice is the set's own: valid
// until the next change, not to be written to.
func (s *Set) Ranges() []Range { return s.r }

// Empty tells whether the set holds nothing.
func (s *Set) Empty() bool { return len(s.r) == 0 }

// Len is the number of offsets in the set.
func (s *Set) Len() int64 {
	var n int64
	for _, r := range s.r {
		n += r.Len()
	}
	return n
}

// find is the index of the first range that ends at or after o.
func (s *Set) find(o int64) int {
	n := len(s.r)
	if n > 0 && s.r[n-1].Last < o {
		return n
	}
	if n > 0 && s.r[0].Last >= o {
		return 0
	}
	return sort.Search(n, func(i int) bool { return s.r[i].Last >= o })
}

// Contains tells whether o is in the set.
func (s *Set) Contains(o int64) bool {
	i := s.find(o)
	return i < len(s.r) && s.r[i].First <= o
}

// Add puts all offsets of r into the set and returns how many were new.
func (s *Set) Add(r Range) int64 {
	if r.Len() == 0 {
		return 0
	}
	i := s.find(r.First)
	if i > 0 && s.r[i-1].Last == r.First-1 {
		i--
	}
	j, covered := i, int64(0)
	merged := r
	for j < len(s.r) && (s.r[j].First <= r.Last || s.r[j].First == r.Last+1) {
		covered += overlap(s.r[j], r)
		merged.First = min(merged.First, s.r[j].First)
		merged.Last = max(merged.Last, s.r[j].Last)
		j++
	}
	s.replace(i, j, merged)
	return r.Len() - covered
}

// Remove takes all offsets of r out of the set and returns how many were in it.
func (s *Set) Remove(r Range) int64 {
	if r.Len() == 0 {
		return 0
	}
	i := s.find(r.First)
	j, gone := i, int64(0)
	var rest []Range
	for j < len(s.r) && s.r[j].First <= r.Last {
		gone += overlap(s.r[j], r)
		if left := (Range{s.r[j].First, r.First - 1}); left.Len() > 0 {
			rest = append(rest, left)
		}
		if right := (Range{r.Last + 1, s.r[j].Last}); right.Len() > 0 {
			rest = append(rest, right)
		}
		j++
	}
	s.replace(i, j, rest...)
	return gone
}

// TrimBelow removes everything below o.
func (s *Set) TrimBelow(o int64) {
	i := s.find(o)
	if i > 0 {
		s.r = append(s.r[:0], s.r[i:]...)
	}
	if len(s.r) > 0 && s.r[0].First < o {
		s.r[0].First = o
	}
}

// EndOf returns the first offset at or after o that is not in the set.
func (s *Set) EndOf(o int64) int64 {
	i := s.find(o)
	if i < len(s.r) && s.r[i].First <= o {
		return s.r[i].Last + 1
	}
	return o
}

// Clone returns a copy that shares nothing.
func (s *Set) Clone() *Set { return &Set{r: append([]Range(nil), s.r...)} }

// Clear empties the set and keeps its memory.
func (s *Set) Clear() { s.r = s.r[:0] }

func overlap(a, b Range) int64 {
	return Range{max(a.First, b.First), min(a.Last, b.Last)}.Len()
}

// replace puts with in the place of ranges i to j-1.
func (s *Set) replace(i, j int, with ...Range) {
	if len(with) == 1 && j-i == 1 {
		s.r[i] = with[0]
		return
	}
	tail := len(s.r) - j
	grow := len(with) - (j - i)
	if grow > 0 {
		s.r = append(s.r, make([]Range, grow)...)
	}
	copy(s.r[i+len(with):], s.r[j:j+tail])
	copy(s.r[i:], with)
	s.r = s.r[:i+len(with)+tail]
}

package offset

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSetAgainstMap holds the set against a map of offsets.
func TestSetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		model := map[int64]bool{}
		ops := rapid.IntRange(1, 60).Draw(t, "ops")
		for range ops {
			first := rapid.Int64Range(0, 80).Draw(t, "first")
			r := Range{first, first + rapid.Int64Range(-1, 12).Draw(t, "len")}
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1, 2:
				if got, want := s.Add(r), change(model, r, true); got != want {
					t.Fatalf("Add(%v) = %d, want %d", r, got, want)
				}
			case 3:
				if got, want := s.Remove(r), change(model, r, false); got != want {
					t.Fatalf("Remove(%v) = %d, want %d", r, got, want)
				}
			case 4:
				s.TrimBelow(r.First)
				change(model, Range{-1, r.First - 1}, false)
			}
			check(t, &s, model)
		}
	})
}

func change(model map[int64]bool, r Range, to bool) int64 {
	var n int64
	for o := r.First; o <= r.Last; o++ {
		if model[o] != to {
			n++
		}
		model[o] = to
	}
	return n
}

func check(t *rapid.T, s *Set, model map[int64]bool) {
	prev := int64(-10)
	for _, r := range s.Ranges() {
		if r.Len() < 1 || r.First <= prev+1 {
			t.Fatalf("ranges overlap, touch or are empty: %v", s.Ranges())
		}
		prev = r.Last
	}
	var n int64
	for o := int64(-1); o < 100; o++ {
		if s.Contains(o) != model[o] {
			t.Fatalf("Contains(%d) = %v, want %v in %v", o, s.Contains(o), model[o], s.Ranges())
		}
		end := o
		for model[end] {
			end++
		}
		if got := s.EndOf(o); got != end {
			t.Fatalf("EndOf(%d) = %d, want %d", o, got, end)
		}
		if model[o] {
			n++
		}
	}
	if s.Len() != n || s.Empty() != (n == 0) {
		t.Fatalf("Len = %d, want %d", s.Len(), n)
	}
}

func BenchmarkAddInOrder(b *testing.B) {
	var s Set
	for i := range b.N {
		s.Add(Range{int64(i), int64(i)})
	}
}

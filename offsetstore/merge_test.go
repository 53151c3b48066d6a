package offsetstore

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offset"
)

// finishedAt tells whether v has offset o as finished.
func finishedAt(v Value, o int64) bool {
	return o < v.Position || offset.NewSet(v.Finished).Contains(o)
}

// isNormal holds the form of a value.
func isNormal(v Value) bool {
	return v.High >= v.Position && normalFinished(v.Finished, v.Position) && normalAttempts(v.Attempts, v.Position)
}

// facts are the parts of a value that are facts whoever recorded them.
func facts(v Value) Value {
	return emptied(Value{Epoch: v.Epoch, Position: v.Position, High: v.High, Finished: v.Finished})
}

func TestMergeIsCommutativeInFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		b.Epoch = a.Epoch
		ab, ba := facts(Merge(a, b)), facts(Merge(b, a))
		if !reflect.DeepEqual(ab, ba) {
			t.Fatalf("a over b %+v\nb over a %+v", ba, ab)
		}
	})
}

func TestMergeIsAssociativeInFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := gen(t, "a"), gen(t, "b"), gen(t, "c")
		left, right := facts(Merge(Merge(a, b), c)), facts(Merge(a, Merge(b, c)))
		if !reflect.DeepEqual(left, right) {
			t.Fatalf("(ab)c %+v\na(bc) %+v", left, right)
		}
	})
}

func TestMergeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		once := Merge(a, b)
		if twice := Merge(once, b); !reflect.DeepEqual(emptied(once), emptied(twice)) &&
			b.Position >= a.Position {
			t.Fatalf("once %+v\ntwice %+v", once, twice)
		}
		if same := Merge(a, a); !reflect.DeepEqual(emptied(a), emptied(same)) {
			t.Fatalf("a %+v\na over a %+v", a, same)
		}
	})
}

// TestMergeOnlyGoesUp: (epoch, position) never goes down, in an epoch the high
// mark does not, and what was finished stays finished.
func TestMergeOnlyGoesUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		m := Merge(a, b)
		if cmp.Or(cmp.Compare(m.Epoch, a.Epoch), cmp.Compare(m.Position, a.Position)) < 0 ||
			(m.Epoch == a.Epoch && m.High < a.High) {
			t.Fatalf("went down from %+v to %+v", a, m)
		}
		for o := range int64(80) {
			if m.Epoch == a.Epoch && finishedAt(a, o) && !finishedAt(m, o) {
				t.Fatalf("%d is no longer finished: %+v to %+v", o, a, m)
			}
		}
	})
}

// TestMergeAddsNothing: within an epoch the result's facts are those of one of
// both values, and no more.
func TestMergeAddsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		b.Epoch = a.Epoch
		m := Merge(a, b)
		for o := range int64(80) {
			if finishedAt(m, o) != (finishedAt(a, o) || finishedAt(b, o)) {
				t.Fatalf("offset %d: %+v over %+v is %+v", o, b, a, m)
			}
		}
		if m.Position != max(a.Position, b.Position) || m.High != max(a.High, b.High) {
			t.Fatalf("%+v over %+v is %+v", b, a, m)
		}
	})
}

func TestMergeOfEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		b.Epoch = a.Epoch + 1
		if m := Merge(a, b); !reflect.DeepEqual(m, b) {
			t.Fatalf("higher epoch %+v over %+v is %+v", b, a, m)
		}
		if m := Merge(b, a); !reflect.DeepEqual(m, b) {
			t.Fatalf("lower epoch %+v over %+v is %+v", a, b, m)
		}
	})
}

// TestMergeKeepsTheHigher: what is no fact comes from the higher position, of
// equal ones from the later value.
func TestMergeKeepsTheHigher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		b.Epoch = a.Epoch
		want := b
		if b.Position < a.Position {
			want = a
		}
		m := Merge(a, b)
		if m.Log != want.Log || m.Absent != want.Absent ||
			!slices.Equal(m.Attempts, attemptsFrom(want.Attempts, m.Position)) {
			t.Fatalf("%+v over %+v is %+v", b, a, m)
		}
	})
}

// TestMergeIsNormalAndPure: the result has the form, the arguments stay.
func TestMergeIsNormalAndPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen(t, "a"), gen(t, "b")
		a0, b0 := a.Clone(), b.Clone()
		if m := Merge(a, b); !isNormal(m) {
			t.Fatalf("%+v over %+v is %+v", b, a, m)
		}
		if !reflect.DeepEqual(emptied(a), emptied(a0)) || !reflect.DeepEqual(emptied(b), emptied(b0)) {
			t.Fatalf("an argument changed: %+v %+v, was %+v %+v", a, b, a0, b0)
		}
	})
}

func TestNormal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := genRaw(t, "value")
		before := raw.Clone()
		v := Normal(raw)
		if !isNormal(v) {
			t.Fatalf("Normal(%+v) = %+v", raw, v)
		}
		if !reflect.DeepEqual(raw, before) {
			t.Fatalf("Normal changed its argument %+v to %+v", before, raw)
		}
		if again := Normal(v); !reflect.DeepEqual(again, v) {
			t.Fatalf("Normal(%+v) = %+v", v, again)
		}
		for o := v.Position; o < 80; o++ {
			if finishedAt(v, o) != offset.NewSet(raw.Finished).Contains(o) {
				t.Fatalf("offset %d: Normal(%+v) = %+v", o, raw, v)
			}
		}
	})
}

func TestMarked(t *testing.T) {
	v := Value{Epoch: 2, High: 10}
	for _, c := range []struct {
		epoch uint64
		high  int64
		want  int64
	}{{2, 12, 12}, {2, 8, 10}, {1, 12, 10}, {3, 12, 10}} {
		if got := v.Marked(c.epoch, c.high).High; got != c.want {
			t.Errorf("Marked(%d, %d) has high mark %d, want %d", c.epoch, c.high, got, c.want)
		}
	}
}

func BenchmarkMergeFinished(b *testing.B) {
	x, y := randomFinished(50_000, 0), randomFinished(49_999, 0)
	for b.Loop() {
		mergeFinished(x, y, 0)
	}
}

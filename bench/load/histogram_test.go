package load

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile is at most 3 % from the value that sorting gives.
func TestHistogram_QuantilesAreNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 300).Draw(t, "values")
		var a, b Histogram
		for i, v := range values {
			if i%2 == 0 {
				a.Add(time.Duration(v))
			} else {
				b.Add(time.Duration(v))
			}
		}
		a.Merge(&b)
		slices.Sort(values)
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			rank := max(int(q*float64(len(values))), 1)
			want, got := float64(values[rank-1]), float64(a.Quantile(q))
			if got < want*0.97-1 || got > want*1.03+1 {
				t.Fatalf("quantile %g is %g, sorting gives %g", q, got, want)
			}
		}
		if got := a.Latency(); got.Count != int64(len(values)) || got.Max != float64(values[len(values)-1])/1e6 {
			t.Fatalf("%d values up to %d: %+v", len(values), values[len(values)-1], got)
		}
	})
}

func TestHistogram_Empty(t *testing.T) {
	var h Histogram
	if got := h.Latency(); got != (Latency{}) {
		t.Errorf("got %+v", got)
	}
}

package recommend

import (
	"errors"
	"math"
	"testing"
)

func at(l Load) Instance { return Instance{ID: "a", Load: l, Sampled: true} }

// TestC59_Scores holds the score against the table of its definition.
func TestC59_Scores(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Instance
		want float64
	}{
		{"idle", at(Load{}), 0},
		{"all parts", at(Load{Sessions: 7, Inflow: 2000, Outflow: 3000, CPU: 0.25}), 7 + 2 + 3 + 250},
		{"cpu at the edge", at(Load{CPU: 0.8}), 800},
		{"cpu over the edge", at(Load{CPU: 0.8000001}), 800.0001 + OverloadScore},
		{"inflow at the edge", at(Load{Inflow: 5_000_000}), 5000},
		{"inflow over the edge", at(Load{Inflow: 5_000_001}), 5000.001 + OverloadScore},
		{"negative cpu", at(Load{CPU: -1}), UnknownScore},
		{"NaN", at(Load{CPU: math.NaN()}), UnknownScore},
		{"infinite", at(Load{Outflow: math.Inf(1)}), UnknownScore},
		{"negative sessions", at(Load{Sessions: -1}), UnknownScore},
		{"no sample", Instance{ID: "a"}, UnknownScore},
		{"promised", Instance{ID: "a", Sampled: true, Promised: 3}, 3},
	} {
		if got := Score(tc.in); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestChoose(t *testing.T) {
	a, b := Instance{ID: "a", Sampled: true, Load: Load{Sessions: 5}}, Instance{ID: "b", Sampled: true, Load: Load{Sessions: 4}}
	c := Instance{ID: "c", Sampled: true, Load: Load{CPU: 1}}
	for _, tc := range []struct {
		name   string
		list   []Instance
		failed []string
		want   string
	}{
		{"lowest", []Instance{a, b, c}, nil, "b"},
		{"failed is left out", []Instance{a, b, c}, []string{"b"}, "a"},
		{"all failed: an answer all the same", []Instance{a, b}, []string{"a", "b"}, "b"},
		{"overloaded: an answer all the same", []Instance{c}, nil, "c"},
		{"tie to the lowest id", []Instance{{ID: "z"}, {ID: "y"}}, nil, "y"},
	} {
		got, _, err := Choose(tc.list, tc.failed)
		if err != nil || got.ID != tc.want {
			t.Errorf("%s: %q %v, want %q", tc.name, got.ID, err, tc.want)
		}
	}
	if _, _, err := Choose(nil, nil); !errors.Is(err, ErrNone) {
		t.Errorf("nobody: %v, want ErrNone", err)
	}
}

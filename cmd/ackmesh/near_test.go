package main

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"listen", "http-listen", "data", "topics.partitions", "log.level"}
	for word, want := range map[string][]string{
		"lisetn":            {"listen"},
		"LISTEN":            {"listen"},
		"http_listen":       {"http-listen"},
		"topic.partition":   {"topics.partitions"},
		"loglevel":          {"log.level"},
		"something else":    nil,
		"topics-partitions": {"topics.partitions"},
	} {
		if got := nearest(word, known); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", word, got, want)
		}
	}
}

// TestDistance checks what every distance obeys.
func TestDistance(t *testing.T) {
	word := rapid.StringMatching(`[a-c]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) {
			t.Fatal("not symmetric")
		}
		if (d == 0) != (a == b) {
			t.Fatalf("%d between %q and %q", d, a, b)
		}
		if low, high := max(len(a), len(b))-min(len(a), len(b)), max(len(a), len(b)); d < low || d > high {
			t.Fatalf("%d is not within %d and %d", d, low, high)
		}
	})
}

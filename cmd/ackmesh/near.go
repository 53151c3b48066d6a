package main

import (
	"cmp"
	"slices"
	"strings"
)

// maxNear is how many near matches a message names.
const maxNear = 3

// nearest returns the known names that word may have been meant to be, the
// nearest first.
func nearest(word string, known []string) []string {
	type match struct {
		name string
		cost int
	}
	var matches []match
	for _, name := range known {
		if cost := distance(strings.ToLower(word), strings.ToLower(name)); cost <= max(2, len(name)/3) {
			matches = append(matches, match{name, cost})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(a.cost, b.cost) })
	var names []string
	for _, m := range matches[:min(len(matches), maxNear)] {
		names = append(names, m.name)
	}
	return names
}

// didYouMean puts near matches at the end of a message; none: nothing.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// distance is how many bytes must be put in, taken out, replaced, or swapped
// with the next one to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

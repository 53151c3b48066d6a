package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTally(t *testing.T) {
	var tally tally
	tally.answered(1, nil)
	tally.bad(2, errors.New("no JSON"))
	tally.answered(3, fmt.Errorf("event: %w", status.Error(codes.InvalidArgument, "too large")))
	if tally.stopped() != nil {
		t.Errorf("a bad event stopped the run: %v", tally.stopped())
	}
	want := []string{"line 2: no JSON", "line 3: too large"}
	if got := tally.takeReports(); !slices.Equal(got, want) || tally.hasReports() {
		t.Errorf("told %q, want %q", got, want)
	}
	tally.answered(4, status.Error(codes.Unavailable, "gone"))
	tally.answered(5, errors.New("closed"))
	if err := tally.stopped(); status.Code(err) != codes.Unavailable {
		t.Errorf("stopped by %v", err)
	}
	tally.answered(6, status.Error(codes.NotFound, "no such topic"))
	tally.answered(7, status.Error(codes.ResourceExhausted, "too fast"))
	text := "published 1 events to t in 0.50 s (2 events/s), 1 bad lines, 3 refused by the server, 2 without an answer"
	if got := tally.summary("t", time.Second/2); got != text || !tally.failed() {
		t.Errorf("summary: %s", got)
	}
}

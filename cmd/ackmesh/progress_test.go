package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var out strings.Builder
	start := time.Unix(1000, 0)
	p := newProgress(&out, true, 1000, start)
	p.update(start.Add(time.Second), 12345, 500)
	p.update(start.Add(time.Second+time.Millisecond), 12346, 501) // too soon
	p.update(start.Add(2*time.Second), 20000, 5000)               // more than the size
	p.clear()
	want := "\r[###############...............]  50%  12,345 events, 12,345 events/s\x1b[K" +
		"\r[##############################] 100%  20,000 events, 10,000 events/s\x1b[K" +
		"\r\x1b[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestProgressWithoutSize(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, true, 0, time.Unix(1000, 0))
	p.update(time.Unix(1001, 0), 5, 10)
	if want := "\r5 events, 5 events/s\x1b[K"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestNoProgressOffTerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, false, 1000, time.Unix(1000, 0))
	p.update(time.Unix(1001, 0), 5, 10)
	p.clear()
	if out.Len() > 0 {
		t.Errorf("drew %q", out.String())
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -123456: "-123,456"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

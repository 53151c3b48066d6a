package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	progressEvery = 100 * time.Millisecond
	barWidth      = 30
)

// progress draws how far a publish is, on one line that it writes again and
// again. It is for one goroutine.
type progress struct {
	to io.Writer
	// total is the size of the input in bytes; 0: unknown, so no bar.
	total int64
	start time.Time
	last  time.Time
}

// newProgress draws nothing where to is no terminal.
func newProgress(to io.Writer, terminal bool, total int64, now time.Time) *progress {
	if !terminal {
		to = nil
	}
	return &progress{to: to, total: total, start: now}
}

// update draws, unless it did so a moment ago.
func (p *progress) update(now time.Time, events, bytes int64) {
	if p.to == nil || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	// A drawing that fails is no reason to stop publishing.
	_, _ = fmt.Fprintf(p.to, "\r%s%s events, %s\x1b[K", p.bar(bytes), grouped(events), rate(events, now.Sub(p.start)))
}

// clear takes the drawing away.
func (p *progress) clear() {
	if p.to != nil && !p.last.IsZero() {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
	}
}

func (p *progress) bar(bytes int64) string {
	if p.total <= 0 {
		return ""
	}
	bytes = min(bytes, p.total)
	full := int(bytes * barWidth / p.total)
	return fmt.Sprintf("[%s%s] %3d%%  ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), bytes*100/p.total)
}

// rate writes events a second.
func rate(events int64, d time.Duration) string {
	if d <= 0 {
		return "0 events/s"
	}
	return grouped(int64(float64(events)/d.Seconds())) + " events/s"
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return text[:len(text)-len(strings.TrimPrefix(text, "-"))] + digits
}

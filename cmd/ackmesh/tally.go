package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// tally counts what became of the lines. It may be used by several goroutines.
type tally struct {
	mu sync.Mutex
	ok int64
	// badLines were no events, refused ones were not taken by the server, open
	// ones got no answer.
	badLines, refused, open int64
	reports                 []string
	stop                    error
}

// bad notes a line that is no event.
func (t *tally) bad(number int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.badLines++
	t.report(number, err)
}

// report keeps a failure until it is told. The caller holds mu.
func (t *tally) report(number int64, err error) {
	t.reports = append(t.reports, fmt.Sprintf("line %d: %s", number, reason(err)))
}

// reason is an error in words; of a status its message alone.
func reason(err error) string {
	st := statusOf(err)
	switch st.Code() {
	case codes.Unknown:
		return words(err)
	case codes.InvalidArgument:
		return st.Message()
	default:
		return codeName(st.Code()) + ": " + st.Message()
	}
}

// answered notes the answer to a line's event. A failure that is not the event's
// own stops the run: the lines that follow would meet it too.
func (t *tally) answered(number int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch code := statusOf(err).Code(); {
	case err == nil:
		t.ok++
	case code == codes.InvalidArgument:
		t.refused++
		t.report(number, err)
	default:
		if fateOpen(code) {
			t.open++
		} else {
			t.refused++
		}
		if t.stop == nil {
			t.stop = fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// fateOpen says whether an event that failed with a code may be stored all the same.
func fateOpen(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

// stopped returns why no more lines are to be published, or nil.
func (t *tally) stopped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop
}

// published counts the events that are stored.
func (t *tally) published() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ok
}

func (t *tally) hasReports() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.reports) > 0
}

// takeReports returns the failures not told yet.
func (t *tally) takeReports() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := t.reports
	t.reports = nil
	return reports
}

// failed says whether any line was not published.
func (t *tally) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.badLines+t.refused+t.open > 0
}

// summary is the last line that is told.
func (t *tally) summary(topic string, took time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "published %s events to %s in %.2f s (%s)", grouped(t.ok), topic, took.Seconds(), rate(t.ok, took))
	for _, c := range []struct {
		n    int64
		what string
	}{{t.badLines, "bad lines"}, {t.refused, "refused by the server"}, {t.open, "without an answer"}} {
		if c.n > 0 {
			fmt.Fprintf(&s, ", %s %s", grouped(c.n), c.what)
		}
	}
	return s.String()
}

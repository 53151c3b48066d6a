package ackmesh

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrHold, returned by a handler, leaves the delivery open: the handler has passed
// a Clone of it to someone who will Ack or Nack that.
var ErrHold = errors.New("ackmesh: held")

// RetryAfter returns an error that gives a delivery back to be retried after a
// delay, 0 to 7 days, instead of the server's own backoff. err is the reason and
// may be nil.
func RetryAfter(delay time.Duration, err error) error {
	return &nackError{err: err, delay: min(max(delay, 0), maxDelay), hasDelay: true}
}

// maxDelay is the longest that a server delays.
const maxDelay = 7 * 24 * time.Hour

// DeadLetter returns an error that gives a delivery up at once, as a dead letter.
// err is the reason and may be nil.
func DeadLetter(err error) error { return &nackError{err: err, deadLetter: true} }

// nackError is an error that says how to nack.
type nackError struct {
	err        error
	delay      time.Duration
	hasDelay   bool
	deadLetter bool
}

// Error is the reason's.
func (e *nackError) Error() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.deadLetter:
		return "given up"
	}
	return "to be retried"
}

// Unwrap returns the reason.
func (e *nackError) Unwrap() error { return e.err }

// nackInfo is what a Nack says of its deliveries. Equal ones travel together.
type nackInfo struct {
	delay      time.Duration
	hasDelay   bool
	deadLetter bool
	reason     string
}

// maxReason is the most bytes of a reason that the wire contract takes.
const maxReason = 1024

// nackOf reads how to nack out of an error, which may be wrapped.
func nackOf(err error) nackInfo {
	var info nackInfo
	if err == nil {
		return info
	}
	var n *nackError
	if errors.As(err, &n) {
		info = nackInfo{delay: n.delay, hasDelay: n.hasDelay, deadLetter: n.deadLetter}
	}
	info.reason = clip(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	return info
}

// clip cuts a reason to what the wire contract takes, between runes.
func clip(s string) string {
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

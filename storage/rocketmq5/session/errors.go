package session

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is what a proxy answered instead of OK, or why there was no answer.
type Error struct {
	// Op is what was asked for: "send".
	Op string
	// Code is the answer's; 0: there was none, and GRPC says why.
	Code v2.Code
	GRPC codes.Code
	// Message is the server's or the transport's text.
	Message string
}

// Error names the call, the code and what the server says.
func (e *Error) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("%s: no answer: %v: %s", e.Op, e.GRPC, e.Message)
	}
	return fmt.Sprintf("%s: the proxy answers %d %v: %s", e.Op, int(e.Code), e.Code, e.Message)
}

// Transient tells whether the same call may succeed a little later.
func (e *Error) Transient() bool {
	if e.Code == 0 {
		switch e.GRPC {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Aborted, codes.Canceled, codes.ResourceExhausted:
			return true
		}
		return false
	}
	switch e.Code {
	case v2.Code_INTERNAL_ERROR, v2.Code_INTERNAL_SERVER_ERROR, v2.Code_HA_NOT_AVAILABLE, v2.Code_PROXY_TIMEOUT,
		v2.Code_MASTER_PERSISTENCE_TIMEOUT, v2.Code_SLAVE_PERSISTENCE_TIMEOUT, v2.Code_TOO_MANY_REQUESTS,
		v2.Code_REQUEST_TIMEOUT, v2.Code_UNRECOGNIZED_CLIENT_TYPE:
		return true
	}
	return false
}

// Doubtful tells whether the answer is one that proxies also give while a
// broker is down or their caches are behind: no such topic, a message that does
// not fit the topic's type.
func (e *Error) Doubtful() bool {
	return e.Code == v2.Code_TOPIC_NOT_FOUND || e.Code == v2.Code_NOT_FOUND || e.Code == v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
}

// CodeOf is the code that a proxy answered; 0: none.
func CodeOf(err error) v2.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// IsTransient tells whether err is an Error that may pass.
func IsTransient(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Transient()
}

// IsDoubtful tells whether err is an Error that may be a proxy's mistake.
func IsDoubtful(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Doubtful()
}

// refused is nil where a status says OK.
func refused(op string, st *v2.Status) error {
	if st.GetCode() == v2.Code_OK {
		return nil
	}
	if st == nil {
		return &Error{Op: op, GRPC: codes.Unknown, Message: "the answer has no status"}
	}
	return &Error{Op: op, Code: st.GetCode(), Message: st.GetMessage()}
}

func transportError(op string, err error) error {
	st := status.Convert(err)
	return &Error{Op: op, GRPC: st.Code(), Message: st.Message()}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// Pause is how long to wait after the n-th failure in a row, from 1: up to a
// second, half of it by chance.
func Pause(n int) time.Duration {
	d := min(firstPause<<min(max(n, 1)-1, 10), longestPause)
	return d/2 + mrand.N(d/2+1)
}

// Retry calls f until it succeeds, fails with an error that again says is final,
// or ctx ends; then it returns the last error of f. f is called once at least.
func Retry(ctx context.Context, again func(err error, since time.Duration) bool, f func(ctx context.Context) error) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || !again(err, time.Since(began)) {
			return err
		}
		if !sleep(ctx, Pause(n)) {
			return err
		}
	}
}

// sleep waits; false: ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

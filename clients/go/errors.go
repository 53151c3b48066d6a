package ackmesh

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var (
	// ErrClosed: the Client or Stream was closed.
	ErrClosed = errors.New("ackmesh: closed")
	// ErrSuperseded: another stream with the same client id took the
	// subscription. Two processes run under one ClientID, or this one opened the
	// same subscription twice. Not retried: the two would take it from each other
	// for ever.
	ErrSuperseded = errors.New("ackmesh: superseded by another stream of the same client id")
	// ErrEvicted: the server or an operator ended the stream on purpose. Not
	// retried.
	ErrEvicted = errors.New("ackmesh: evicted by the server")
	// ErrUnconfirmed: the stream ended before the server confirmed an ack. The
	// record may come again.
	ErrUnconfirmed = errors.New("ackmesh: ack not confirmed before the stream ended")
	// ErrNotOutstanding: the server, or the client itself, knows no such delivery
	// on the stream; it was answered before, given back, or belongs to a stream
	// that has ended. The record may come again.
	ErrNotOutstanding = errors.New("ackmesh: delivery is not outstanding on this stream")
	// ErrStale: the delivery was of an epoch before a reset. Nothing was changed.
	ErrStale = errors.New("ackmesh: delivery is of before a reset")
	// ErrFenced: the instance no longer owned the partition. The record comes
	// again from the new owner.
	ErrFenced = errors.New("ackmesh: the instance no longer owns the partition")
)

// endings are the reasons of google.rpc.ErrorInfo with which a server ends a stream
// for good.
var endings = map[string]error{"EVICTED": ErrEvicted, "SUPERSEDED": ErrSuperseded}

// ending is why a stream ended for good, going by its status; nil if it did not.
func ending(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "ackmesh" {
			if why := endings[info.GetReason()]; why != nil {
				return fmt.Errorf("%w: %s", why, st.Message())
			}
		}
	}
	return nil
}

// SubscriptionError says that the server refused one subscription. It unwraps to
// the gRPC status, so that status.Code tells the reason.
type SubscriptionError struct {
	// Topic of the subscription.
	Topic string
	// Err is the server's status.
	Err error
}

// Error names the topic and the server's reason.
func (e *SubscriptionError) Error() string {
	return fmt.Sprintf("ackmesh: subscription to %q: %v", e.Topic, e.Err)
}

// Unwrap returns the server's status.
func (e *SubscriptionError) Unwrap() error { return e.Err }

// CloseError says what a subscription left behind when it ended. What it names
// comes again.
type CloseError struct {
	// Unconfirmed is how many acks the server had not confirmed.
	Unconfirmed int
	// Unfinished is how many deliveries a handler was still working on when the
	// grace ended.
	Unfinished int
}

// Error names both counts.
func (e *CloseError) Error() string {
	return fmt.Sprintf("ackmesh: ended with %d acks unconfirmed and %d deliveries unfinished: they come again", e.Unconfirmed, e.Unfinished)
}

// IsPermanent reports whether err says that the same request would fail again:
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
// UNAUTHENTICATED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED. The client
// retries everything else by itself.
func IsPermanent(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// statusError reads an encoded google.rpc.Status; nil and OK give nil.
func statusError(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s := &spb.Status{}
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("ackmesh: status in the answer: %w", err)
	}
	return status.ErrorProto(s)
}

package rpc

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/storage"
)

// codeOf is the one table of what errors mean to a client. The first match
// counts.
var codeOf = []struct {
	err  error
	code codes.Code
}{
	{storage.ErrInvalid, codes.InvalidArgument},
	{storage.ErrTopicNotFound, codes.NotFound},
	{storage.ErrPartitionNotFound, codes.NotFound},
	{storage.ErrTopicExists, codes.AlreadyExists},
	{storage.ErrTopicChanged, codes.Aborted},
	{storage.ErrTooLarge, codes.ResourceExhausted},
	{storage.ErrReadOnly, codes.Unavailable},
	{storage.ErrUnknown, codes.Unavailable},
	{storage.ErrUnavailable, codes.Unavailable},
	{storage.ErrClosed, codes.Unavailable},
	{storage.ErrUnsupported, codes.Unimplemented},
	{storage.ErrTopicType, codes.FailedPrecondition},
	{storage.ErrGroupKind, codes.FailedPrecondition},
	{storage.ErrGroupNotFound, codes.FailedPrecondition},
	{storage.ErrCorrupt, codes.DataLoss},
	{offsetstore.ErrReadOnly, codes.Unavailable},
	{offsetstore.ErrClosed, codes.Unavailable},
	{offsetstore.ErrTooBig, codes.ResourceExhausted},
	{offsetstore.ErrCorrupt, codes.DataLoss},
	{offsetstore.ErrNotFound, codes.NotFound},
	{dispatch.ErrDraining, codes.Unavailable},
	{dispatch.ErrStopping, codes.Unavailable},
	{dispatch.ErrSuperseded, codes.Aborted},
	{dispatch.ErrEvicted, codes.ResourceExhausted},
	{dispatch.ErrUnread, codes.ResourceExhausted},
	{errTooMany, codes.ResourceExhausted},
	{ratelimit.ErrTooMany, codes.ResourceExhausted},
	{dispatch.ErrBusy, codes.FailedPrecondition},
	{dispatch.ErrNoReplay, codes.FailedPrecondition},
	{dispatch.ErrKindFixed, codes.FailedPrecondition},
	{dispatch.ErrSubscriptionExists, codes.AlreadyExists},
	{dispatch.ErrNoSubscription, codes.NotFound},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// statusOf turns an error into the status that a client gets.
func statusOf(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	var fieldErr *fieldError
	if errors.As(err, &fieldErr) {
		return badRequest(err.Error(), fieldErr.field)
	}
	var settings *dispatch.SettingsError
	if errors.As(err, &settings) {
		st, derr := status.New(codes.FailedPrecondition, err.Error()).WithDetails(&errdetails.PreconditionFailure{
			Violations: []*errdetails.PreconditionFailure_Violation{{Type: "SUBSCRIBER_SETTINGS", Subject: settings.Field, Description: err.Error()}},
		})
		return orPlain(st, derr, codes.FailedPrecondition, err)
	}
	var rate *ratelimit.Error
	if errors.As(err, &rate) {
		return tooFast(rate)
	}
	var frameErr *frame.Error
	if errors.As(err, &frameErr) {
		return badRequest(err.Error(), frameErr.Field)
	}
	for _, row := range codeOf {
		if errors.Is(err, row.err) {
			return withReason(status.New(row.code, err.Error()), err)
		}
	}
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.New(codes.Internal, err.Error())
}

// Reasons of the end of a stream, as google.rpc.ErrorInfo has them. The Notice about
// it may not have been read, nor even written; the status always is.
const (
	reasonEvicted    = "EVICTED"
	reasonSuperseded = "SUPERSEDED"
)

// withReason adds why a client should not come back by itself, if it should not.
func withReason(st *status.Status, err error) *status.Status {
	reason := ""
	switch {
	case errors.Is(err, dispatch.ErrSentAway):
		reason = reasonEvicted
	case errors.Is(err, dispatch.ErrSuperseded):
		reason = reasonSuperseded
	default:
		return st
	}
	full, derr := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "ackmesh"})
	return orPlain(full, derr, st.Code(), err)
}

// tooFast says when to try again, and what the limit is of.
func tooFast(e *ratelimit.Error) *status.Status {
	st, err := status.New(codes.ResourceExhausted, e.Error()).WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: e.Rule.String(), Description: e.Error()}}},
	)
	return orPlain(st, err, codes.ResourceExhausted, e)
}

func badRequest(msg, field string) *status.Status {
	st, err := status.New(codes.InvalidArgument, msg).WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: msg}},
	})
	return orPlain(st, err, codes.InvalidArgument, errors.New(msg))
}

func orPlain(st *status.Status, derr error, code codes.Code, err error) *status.Status {
	if derr != nil {
		return status.New(code, err.Error())
	}
	return st
}

// fieldError says that a field of a request is not as it must be.
type fieldError struct{ field, problem string }

func (e *fieldError) Error() string { return e.field + ": " + e.problem }

func invalid(field, problem string) error { return &fieldError{field, problem} }

// Status turns an error into the status that a client gets: the one table of
// the edge, for other services.
func Status(err error) *status.Status { return statusOf(err) }

package auth

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons of an Error, as google.rpc.ErrorInfo has them.
const (
	// ReasonNoToken: the call has no bearer token.
	ReasonNoToken = "TOKEN_MISSING"
	// ReasonUnknown: the token is none that is in force.
	ReasonUnknown = "TOKEN_UNKNOWN"
	// ReasonRole: the token lacks a role.
	ReasonRole = "ROLE_MISSING"
	// ReasonPattern: none of the token's patterns matches a name.
	ReasonPattern = "PATTERN_MISSING"
)

// Error says why a caller may not do something. gRPC takes its status from it.
type Error struct {
	// Code is UNAUTHENTICATED or PERMISSION_DENIED.
	Code codes.Code
	// Reason is one of the Reason constants.
	Reason string
	// Token names the caller's token; empty where it is not known.
	Token string

	msg  string
	meta map[string]string
}

// Error is for people.
func (e *Error) Error() string { return e.msg }

// GRPCStatus is the error with its reason as google.rpc.ErrorInfo.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.msg)
	full, err := st.WithDetails(&errdetails.ErrorInfo{Reason: e.Reason, Domain: "ackmesh", Metadata: e.meta})
	if err != nil { // only for text that is not UTF-8, which no name can be
		return st
	}
	return full
}

// Unauthenticated is the error of a call without a token.
func Unauthenticated() error { return noToken() }

func noToken() *Error {
	return &Error{
		Code: codes.Unauthenticated, Reason: ReasonNoToken,
		msg: "a token is needed: send the metadata authorization: Bearer TOKEN",
	}
}

func unknownToken() *Error {
	return &Error{
		Code: codes.Unauthenticated, Reason: ReasonUnknown,
		msg: "the token is not known to this server, or not any more",
	}
}

func lacksRole(g *Grant, need Role) *Error {
	return &Error{
		Code: codes.PermissionDenied, Reason: ReasonRole, Token: g.Name,
		msg:  fmt.Sprintf("token %q lacks the role %s", g.Name, need),
		meta: map[string]string{"token": g.Name, "role": need.String()},
	}
}

// Lists of patterns, by the name that they have in a tokens file.
const (
	inTopics  = "topics"
	inClients = "clients"
	inShares  = "shares"
)

// what a name of each list is called.
var kinds = map[string]string{inTopics: "topic", inClients: "client id", inShares: "share"}

func lacksPattern(g *Grant, list, name string) *Error {
	what := fmt.Sprintf("the %s %q", kinds[list], name)
	if list == inShares && name == "" {
		what = "the default share of a topic"
	}
	return &Error{
		Code: codes.PermissionDenied, Reason: ReasonPattern, Token: g.Name,
		msg:  fmt.Sprintf("token %q has no pattern for %s in its %s", g.Name, what, list),
		meta: map[string]string{"token": g.Name, "list": list, "name": name},
	}
}

func lacksAll(g *Grant, list, name string) *Error {
	return &Error{
		Code: codes.PermissionDenied, Reason: ReasonPattern, Token: g.Name,
		msg:  fmt.Sprintf(`token %q has no "*" in its %s, which a call that %s needs`, g.Name, list, name),
		meta: map[string]string{"token": g.Name, "list": list, "name": "*"},
	}
}

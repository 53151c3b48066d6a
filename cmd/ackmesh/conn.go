package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// target is the server that a command works with.
type target struct {
	addr string
	// timeout bounds the command; 0: it may take for ever.
	timeout time.Duration
	access
}

// serverFlags adds --server to a command.
func (a *app) serverFlags(cmd *cobra.Command, t *target) {
	cmd.Flags().StringVar(&t.addr, "server", a.envOr(envServer, "127.0.0.1:7460"), "host:port of the server (environment: "+envServer+")")
	a.accessFlags(cmd.Flags(), &t.access, false)
}

// adminFlags adds --admin and --timeout to a command and those below it.
func (a *app) adminFlags(cmd *cobra.Command, t *target) {
	cmd.PersistentFlags().StringVar(&t.addr, "admin", a.envOr(envAdmin, "127.0.0.1:7462"), "host:port of the server's admin listener (environment: "+envAdmin+")")
	cmd.PersistentFlags().DurationVar(&t.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
	a.accessFlags(cmd.PersistentFlags(), &t.access, true)
}

// envOr returns the value of an environment variable, or what holds without it.
func (a *app) envOr(name, otherwise string) string {
	if value := a.getenv(name); value != "" {
		return value
	}
	return otherwise
}

// call runs f with a connection to the target. What f returns is told with the
// target's address.
func (t *target) call(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	opts, err := t.dialOptions(t.addr)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(t.addr, opts...)
	if err != nil {
		return usageError{fmt.Errorf("%q is no address of a server: %w", t.addr, err)}
	}
	defer func() { _ = conn.Close() }() // all answers are in
	if t.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.timeout)
		defer cancel()
	}
	return atServer(t.addr, f(ctx, conn))
}

// serverError is an error that a server answered, or that kept it from
// answering.
type serverError struct {
	addr string
	err  error
}

// atServer marks errors that are gRPC statuses with the server's address.
func atServer(addr string, err error) error {
	if _, ok := status.FromError(err); !ok || err == nil {
		return err
	}
	return serverError{addr, err}
}

func (e serverError) Unwrap() error { return e.err }

// Error says where, the code as the wire contract writes it, and the message.
func (e serverError) Error() string {
	st := statusOf(e.err)
	text := fmt.Sprintf("%s: %s: %s", e.addr, codeName(st.Code()), st.Message())
	switch st.Code() {
	case codes.Unavailable:
		text += " (is a server running there? 'ackmesh serve' starts one)"
	case codes.Unauthenticated:
		text += " (--token, --token-file, or for operators --data with the server's data directory)"
	}
	return text
}

// statusOf returns the status within err, without what is wrapped around it.
func statusOf(err error) *status.Status {
	var holder interface{ GRPCStatus() *status.Status }
	if errors.As(err, &holder) {
		return holder.GRPCStatus()
	}
	return status.Convert(err)
}

// codeName writes a code as NOT_FOUND.
func codeName(c codes.Code) string {
	for name, code := range codeNames {
		if code == c {
			return name
		}
	}
	return c.String()
}

var codeNames = map[string]codes.Code{
	"CANCELLED": codes.Canceled, "UNKNOWN": codes.Unknown, "INVALID_ARGUMENT": codes.InvalidArgument,
	"DEADLINE_EXCEEDED": codes.DeadlineExceeded, "NOT_FOUND": codes.NotFound, "ALREADY_EXISTS": codes.AlreadyExists,
	"PERMISSION_DENIED": codes.PermissionDenied, "RESOURCE_EXHAUSTED": codes.ResourceExhausted,
	"FAILED_PRECONDITION": codes.FailedPrecondition, "ABORTED": codes.Aborted, "OUT_OF_RANGE": codes.OutOfRange,
	"UNIMPLEMENTED": codes.Unimplemented, "INTERNAL": codes.Internal, "UNAVAILABLE": codes.Unavailable,
	"DATA_LOSS": codes.DataLoss, "UNAUTHENTICATED": codes.Unauthenticated,
}

// needTopic is what commands say that cannot do without --topic.
func needTopic(topic string) error {
	if topic == "" {
		return usageError{errors.New("--topic is missing: name the topic")}
	}
	return nil
}

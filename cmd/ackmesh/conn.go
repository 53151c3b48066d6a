package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// target is the server that a command works with.
type target struct {
	addr string
	// timeout bounds the command, or a part of it; 0: it may take for ever.
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
	t.timeoutFlag(cmd.PersistentFlags(), "how long to wait for the answer")
	a.accessFlags(cmd.PersistentFlags(), &t.access, true)
}

// timeoutFlag adds --timeout, which means what usage says.
func (t *target) timeoutFlag(flags *pflag.FlagSet, usage string) {
	t.timeout = 10 * time.Second
	flags.Var((*waitValue)(&t.timeout), "timeout", usage+"; 0: for ever")
}

// waitValue is the value of a flag that says how long is waited for something.
type waitValue time.Duration

func (p *waitValue) String() string { return time.Duration(*p).String() }
func (*waitValue) Type() string     { return "duration" }

// Set reads a duration, which is not negative.
func (p *waitValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("it is negative")
	}
	*p = waitValue(d)
	return err
}

// bounded is ctx with the end that --timeout sets.
func (t *target) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, t.timeout)
}

// overdue gets a time when --timeout has passed from now.
func (t *target) overdue() (late <-chan time.Time, stop func()) {
	if t.timeout == 0 {
		return nil, func() {}
	}
	timer := time.NewTimer(t.timeout)
	return timer.C, func() { timer.Stop() }
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
	ctx, cancel := t.bounded(ctx)
	defer cancel()
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

package main

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// liteSubscribeFlags are those of "ackmesh lite subscribe".
type liteSubscribeFlags struct {
	target
	parent, client string
	lites          []string
	ordered        bool
	maxInFlight    int32
	count          int64
	idleExit       time.Duration
	noAck          bool
}

func (a *app) liteSubscribe() *cobra.Command {
	f := new(liteSubscribeFlags)
	cmd := &cobra.Command{
		Use:   "subscribe --parent PARENT --client CLIENT --lite LITE [--lite LITE…]",
		Short: "Print and ack what arrives in lite topics",
		Long: `Subscribe to lite topics and print each delivery as a line of JSON, as
'ackmesh subscribe' does; partition is the lite topic.

A client that is new in a lite topic gets all that the log holds of it, and goes on
where it was later. What was printed is acked. Before the command ends, its acks are
confirmed: on the server's disk. What was not printed is given back.`,
		Example: `  ackmesh lite subscribe --parent chat --client me --lite session-1 --lite session-2
  ackmesh lite subscribe --parent chat --client me --lite session-1 --idle-exit 2s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.subscribeLite(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.parent, "parent", "", "parent topic, of type LITE")
	flags.StringVar(&f.client, "client", "", "name of this client; the same after a restart")
	flags.StringArrayVar(&f.lites, "lite", nil, "lite topic to subscribe to; may be repeated")
	flags.BoolVar(&f.ordered, "ordered", false, "keep one event of each lite topic unfinished at a time, retries included")
	flags.Int64Var(&f.count, "count", 0, "end after so many deliveries; 0: never")
	flags.DurationVar(&f.idleExit, "idle-exit", 0, "end when nothing has come for so long; 0: never")
	flags.BoolVar(&f.noAck, "no-ack", false, "print only; all is given back at the end")
	flags.Int32Var(&f.maxInFlight, "max-in-flight", 0, "events of each lite topic that may be unacked at a time; 0: the server's default")
	a.serverFlags(cmd, &f.target)
	f.timeoutFlag(flags, "how long to wait for the server at first, and for acks to be confirmed at last")
	return cmd
}

func (f *liteSubscribeFlags) check() error {
	switch {
	case f.parent == "":
		return errNoParent
	case f.client == "":
		return usageError{errors.New("--client is missing: name this client; its progress is kept under that name")}
	case len(f.lites) == 0:
		return usageError{errors.New("--lite is missing: name one lite topic or more")}
	case f.count < 0 || f.idleExit < 0 || f.maxInFlight < 0:
		return usageError{errors.New("--count, --idle-exit and --max-in-flight must not be negative")}
	}
	return nil
}

func (a *app) subscribeLite(ctx context.Context, f *liteSubscribeFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	r := &liteReceiving{liteSubscribeFlags: f, out: bufio.NewWriterSize(a.out, 64<<10), last: time.Now()}
	unbounded := f.target
	unbounded.timeout = 0
	err := unbounded.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		return r.run(ctx, ackmeshv1.NewLiteClient(conn), a.tell)
	})
	a.tell("received %s, acked %s\n", grouped(r.printed), grouped(r.confirmed))
	return err
}

// open is the first message of a stream.
func (f *liteSubscribeFlags) open() *ackmeshv1.OpenLite {
	open := &ackmeshv1.OpenLite{ClientId: f.client, Parent: f.parent, Lites: f.lites, Ordered: f.ordered}
	window := f.maxInFlight
	if window == 0 && f.count > 0 && f.count < usualWindow {
		window = int32(f.count) // no more at a time than is wanted in all
	}
	if window > 0 {
		open.MaxInFlight = &window
	}
	return open
}

// refused is why a lite topic was refused.
func refused(results []*ackmeshv1.SubscriptionResult) error {
	for _, res := range results {
		if st := res.GetStatus(); st.GetCode() != 0 {
			return status.FromProto(st).Err()
		}
	}
	return nil
}

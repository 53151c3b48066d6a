package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

// subscribeFlags are those of "ackmesh subscribe".
type subscribeFlags struct {
	clientFlags
	topic, client       string
	mode, share, filter string
	from                string
	ordered             bool
	maxInFlight         int
	receiveFlags
}

// receiveFlags say what becomes of what arrives, and when to end.
type receiveFlags struct {
	count    int64
	idleExit time.Duration
	noAck    bool
	ackAfter time.Duration
}

// subscribeCommand is "ackmesh subscribe".
func (a *app) subscribeCommand() *cobra.Command {
	f := new(subscribeFlags)
	cmd := &cobra.Command{
		Use:   "subscribe --topic TOPIC --client CLIENT",
		Short: "Print and ack what arrives",
		Long: `Subscribe to a topic and print each delivery as a line of JSON:

  {"topic":…,"partition":…,"offset":…,"attempt":…,"deliveryId":"…","attributes":{…},"data":…}

JSON data is printed as it is, text as a string, anything else as data_base64.
deliveryId is a string: it has more digits than many readers of JSON keep.

What was printed is acked. Before the command ends, its acks are confirmed: on the
server's disk. What was not printed is given back.

Progress belongs to the client (broadcast, multicast) or to the share
(load-balance). --from counts only for one that was never there before.`,
		Example: `  ackmesh subscribe --topic flights --client me --from earliest
  ackmesh subscribe --topic flights --client w1 --share workers
  ackmesh subscribe --topic flights --client me --count 10 --idle-exit 5s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.subscribe(cmd.Context(), f) },
	}
	a.subscribeFlags(cmd, f)
	a.clientFlags(cmd, &f.clientFlags)
	return cmd
}

func (a *app) subscribeFlags(cmd *cobra.Command, f *subscribeFlags) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.topic, "topic", "", "topic to subscribe to")
	flags.StringVar(&f.client, "client", "", "name of this client; the same after a restart")
	flags.StringVar(&f.mode, "mode", "", "broadcast, load-balance or multicast (default: load-balance with --share, multicast with --filter, else broadcast)")
	flags.StringVar(&f.share, "share", "", "load-balance: who divides the records (default: the topic's default share)")
	flags.StringVar(&f.filter, "filter", "", "multicast: a CloudEvents SQL expression")
	flags.BoolVar(&f.ordered, "ordered", false, "keep one record of each partition key unfinished at a time")
	flags.StringVar(&f.from, "from", "latest", "where to begin: earliest, latest, an offset, or a time (RFC 3339)")
	flags.Int64Var(&f.count, "count", 0, "end after so many deliveries; 0: never")
	flags.DurationVar(&f.idleExit, "idle-exit", 0, "end when nothing has come for so long; 0: never")
	flags.BoolVar(&f.noAck, "no-ack", false, "print only; all is given back at the end")
	flags.DurationVar(&f.ackAfter, "ack-after", 0, "ack so long after printing, without holding up what follows")
	flags.IntVar(&f.maxInFlight, "max-in-flight", 0, "records that may be unacked at a time; 0: the server's default")
}

// config checks the flags and makes the client's settings of them.
func (f *subscribeFlags) config() (ackmesh.SubscribeConfig, error) {
	if err := needTopic(f.topic); err != nil {
		return ackmesh.SubscribeConfig{}, err
	}
	if f.client == "" {
		return ackmesh.SubscribeConfig{}, usageError{errors.New("--client is missing: name this client; its progress is kept under that name")}
	}
	if f.count < 0 || f.idleExit < 0 || f.ackAfter < 0 || f.noAck && f.ackAfter > 0 {
		return ackmesh.SubscribeConfig{}, usageError{errors.New("--count, --idle-exit and --ack-after must not be negative, and --no-ack goes without --ack-after")}
	}
	mode, modeErr := parseMode(f.mode, f.share, f.filter)
	start, startErr := parseStart(f.from)
	cfg := ackmesh.SubscribeConfig{
		Topics: []string{f.topic}, Mode: mode, Share: f.share, Filter: f.filter, Ordered: f.ordered, Start: start,
		MaxInFlight: f.window(),
	}
	return cfg, errors.Join(modeErr, startErr)
}

// usualWindow is what the server gives a subscription that asks for nothing.
const usualWindow = 1000

// window asks for no more at a time than is wanted in all.
func (f *subscribeFlags) window() int {
	if f.maxInFlight == 0 && f.count > 0 && f.count < usualWindow {
		return int(f.count)
	}
	return f.maxInFlight
}

func (a *app) subscribe(ctx context.Context, f *subscribeFlags) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	client, err := a.dial(ctx, &f.clientFlags, ackmesh.Config{ClientID: f.client})
	if err != nil {
		return err
	}
	stream, err := client.OpenStream(ctx, cfg)
	if err != nil {
		return errors.Join(atServer(f.addr, err), client.Close())
	}
	r := newReceiving(stream, a.out, f.receiveFlags)
	err = r.run(ctx)
	closing := closeError(stream.Close(now()))
	if err != nil && errors.Is(closing, err) {
		closing = nil // it says why the stream had ended already
	}
	err = errors.Join(atServer(f.addr, err), closing, client.Close())
	a.tell("received %s, acked %s\n", grouped(r.printed), grouped(stream.Stats().Confirmed))
	return err
}

// closeError drops from the end of a stream what was meant: that not all was
// finished, since what is left is given back.
func closeError(err error) error {
	var left *ackmesh.CloseError
	if !errors.As(err, &left) {
		return err
	}
	if left.Unconfirmed == 0 {
		return nil
	}
	return unconfirmed(left.Unconfirmed)
}

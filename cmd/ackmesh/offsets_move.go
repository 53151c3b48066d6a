package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func (a *app) offsetsReset(t *target) *cobra.Command {
	req := new(ackmeshv1.ResetOffsetRequest)
	var to, match string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Move a subscriber's position, also while it has streams",
		Long: `Move a subscriber's position to the earliest or latest offset, to an offset, or to
a time. Deliveries go on from there at once; acks of what was delivered before
are told STALE. --dry-run says what would happen and changes nothing.`,
		Example: `  ackmesh offsets reset --topic orders --subscriber share/billing --to earliest --dry-run
  ackmesh offsets reset --topic orders --subscriber client/app1 --to 2026-01-31T12:00:00Z --match at-or-after`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if req.To, err = parsePlace("--to", to, match); err != nil {
				return err
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ResetOffset(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printReset(answer, req.GetDryRun()) })
			})
		},
	}
	cmd.Flags().StringVar(&req.Topic, "topic", "", "the topic")
	cmd.Flags().StringVar(&req.Subscriber, "subscriber", "", "client/NAME or share/NAME")
	cmd.Flags().StringVar(&req.Partition, "partition", "", "only this partition; not given: all")
	cmd.Flags().StringVar(&to, "to", "", "earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z")
	cmd.Flags().StringVar(&match, "match", "nearest", "which record a time means: nearest or at-or-after")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "say what would happen and change nothing")
	for _, name := range []string{"topic", "subscriber", "to"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was added above
		}
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// parsePlace reads --to and --match: a place that is named, always.
func parsePlace(flag, text, match string) (*ackmeshv1.Start, error) {
	start := new(ackmeshv1.Start)
	switch match {
	case "nearest":
		start.Match = ackmeshv1.Start_TIME_MATCH_NEAREST
	case "at-or-after":
		start.Match = ackmeshv1.Start_TIME_MATCH_AT_OR_AFTER
	default:
		return nil, usageError{fmt.Errorf("--match %q: give nearest or at-or-after", match)}
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		start.Place = &ackmeshv1.Start_Offset{Offset: offset}
		return start, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		start.Place = &ackmeshv1.Start_Time{Time: timestamppb.New(t)}
		return start, nil
	}
	switch text {
	case "latest":
		start.Place = &ackmeshv1.Start_At_{At: ackmeshv1.Start_AT_LATEST}
	case "earliest":
		start.Place = &ackmeshv1.Start_At_{At: ackmeshv1.Start_AT_EARLIEST}
	default:
		return nil, usageError{fmt.Errorf("%s %q: give latest, earliest, an offset, or a time such as 2026-01-31T12:00:00Z", flag, text)}
	}
	return start, nil
}

func (a *app) printReset(answer *ackmeshv1.ResetOffsetResponse, dry bool) error {
	out := newTable(a.out, "PARTITION", "FROM", "TO", "EPOCH", "RECORDS", "NOTE")
	for _, p := range answer.GetPartitions() {
		note := p.GetWarning()
		if dry {
			note = "dry run: nothing was changed; " + note
		}
		out.row(p.GetPartition(), p.GetFrom(), p.GetTo(), p.GetEpoch(), p.GetRecords(), note)
	}
	return out.flush()
}

func (a *app) offsetsExport(t *target) *cobra.Command {
	req := new(ackmeshv1.GetOffsetsRequest)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print positions as JSON lines that import reads",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.GetOffsets(ctx, req)
				if err != nil {
					return err
				}
				enc := json.NewEncoder(a.out)
				for _, o := range answer.GetOffsets() {
					if err := enc.Encode(savedOffset{place{o.GetTopic(), o.GetSubscriber(), o.GetPartition()}, &o.Position}); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&req.Topic, "topic", "", "only of this topic")
	cmd.Flags().StringVar(&req.Subscriber, "subscriber", "", "only of this subscriber: client/NAME or share/NAME")
	return cmd
}

// subscribersCommand is "ackmesh subscribers" with its commands.
func (a *app) subscribersCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "subscribers",
		Short: "List and delete subscribers",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.subscribersList(t), a.subscribersDelete(t))
	return cmd
}

func (a *app) subscribersList(t *target) *cobra.Command {
	req := new(ackmeshv1.ListSubscribersRequest)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who has progress on topics",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ListSubscribers(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printSubscribers(answer.GetSubscribers()) })
			})
		},
	}
	cmd.Flags().StringVar(&req.Topic, "topic", "", "only of this topic")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printSubscribers(list []*ackmeshv1.Subscriber) error {
	out := newTable(a.out, "TOPIC", "SUBSCRIBER", "MODE", "ORDERED", "STREAMS", "ABSENT SINCE", "FILTER")
	for _, s := range list {
		absent := ""
		if s.GetAbsentSince() != nil {
			absent = s.GetAbsentSince().AsTime().Format(time.RFC3339)
		}
		out.row(s.GetTopic(), s.GetSubscriber(), modeName(s.GetMode()), s.GetOrdered(), s.GetStreams(), absent, s.GetFilter())
	}
	return out.flush()
}

// modeName writes a mode as --mode reads it.
func modeName(m ackmeshv1.Mode) string {
	switch m {
	case ackmeshv1.Mode_MODE_LOAD_BALANCE:
		return "load-balance"
	case ackmeshv1.Mode_MODE_BROADCAST:
		return "broadcast"
	case ackmeshv1.Mode_MODE_MULTICAST:
		return "multicast"
	}
	return m.String()
}

func (a *app) subscribersDelete(t *target) *cobra.Command {
	req := new(ackmeshv1.DeleteSubscriberRequest)
	cmd := &cobra.Command{
		Use:   "delete SUBSCRIBER",
		Short: "Forget a subscriber (client/NAME or share/NAME) of a topic; it must have no stream",
		Args:  oneArg("subscriber"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Subscriber = args[0]
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				if _, err := admin.DeleteSubscriber(ctx, req); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.out, "subscriber %s of topic %s is deleted\n", req.GetSubscriber(), req.GetTopic())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&req.Topic, "topic", "", "the topic")
	if err := cmd.MarkFlagRequired("topic"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// clientsCommand is "ackmesh clients" with its commands.
func (a *app) clientsCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "clients",
		Short: "List live streams and end those of a client",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.clientsList(t), a.clientsEvict(t))
	return cmd
}

func (a *app) clientsList(t *target) *cobra.Command {
	req := new(ackmeshv1.ListClientsRequest)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List live streams",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ListClients(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error {
					out := newTable(a.out, "CLIENT", "ADDRESS", "SINCE", "SUBSCRIPTIONS", "IN FLIGHT", "BYTES")
					for _, c := range answer.GetClients() {
						out.row(c.GetClientId(), c.GetAddress(), c.GetSince().AsTime().Format(time.RFC3339), len(c.GetSubscriptions()), c.GetInFlight(), c.GetInFlightBytes())
					}
					return out.flush()
				})
			})
		},
	}
	cmd.Flags().StringVar(&req.ClientId, "client", "", "only of this client")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) clientsEvict(t *target) *cobra.Command {
	req := new(ackmeshv1.EvictClientRequest)
	cmd := &cobra.Command{
		Use:   "evict CLIENT",
		Short: "End the streams of a client; it may come back",
		Args:  oneArg("client"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.ClientId = args[0]
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.EvictClient(ctx, req)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%d streams were ended\n", answer.GetStreams())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "told to the client")
	return cmd
}

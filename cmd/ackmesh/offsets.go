package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// offsetsCommand is "ackmesh offsets" with its commands.
func (a *app) offsetsCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "offsets",
		Short: "Show how far subscribers are, and move them",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.offsetsGet(t), a.offsetsReset(t), a.offsetsExport(t), a.offsetsImport(t))
	return cmd
}

func (a *app) offsetsGet(t *target) *cobra.Command {
	req := new(ackmeshv1.GetOffsetsRequest)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show positions, lag and what is in flight",
		Long: `Show for each subscriber and partition: the position (next to deliver: everything
below it is finished), how many offsets are finished above it, what is in flight
or waits for a retry, and the lag.

` + boundsHelp,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.GetOffsets(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printOffsets(answer.GetOffsets()) })
			})
		},
	}
	cmd.Flags().StringVar(&req.Topic, "topic", "", "only of this topic")
	cmd.Flags().StringVar(&req.Subscriber, "subscriber", "", "only of this subscriber: client/NAME or share/NAME")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printOffsets(offsets []*ackmeshv1.PartitionOffsets) error {
	out := newTable(a.out, "TOPIC", "SUBSCRIBER", "PARTITION", "FIRST", "POSITION", "NEXT", "LAG", "AHEAD", "IN FLIGHT", "WAITING", "EPOCH")
	var missing unknowns
	for _, o := range offsets {
		missing.note(o.GetTopic(), o.GetPartition(), o)
		out.row(o.GetTopic(), o.GetSubscriber(), o.GetPartition(), known(o, o.GetMinOffset()), o.GetPosition(), known(o, o.GetMaxOffset()),
			known(o, o.GetLag()), o.GetFinishedAhead(), o.GetInFlight(), o.GetWaiting(), o.GetEpoch())
	}
	return cmp.Or(out.flush(), missing.tell(a))
}

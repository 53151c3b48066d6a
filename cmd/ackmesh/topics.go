package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// topicsCommand is "ackmesh topics" with its commands.
func (a *app) topicsCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "List, create, describe and delete topics",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.topicsList(t), a.topicsCreate(t), a.topicsDescribe(t), a.topicsDelete(t))
	return cmd
}

// needsCommand is what commands do that only have commands below them.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return cmd.Help()
}

// admin runs f with the target's Admin service.
func (t *target) admin(ctx context.Context, f func(context.Context, ackmeshv1.AdminClient) error) error {
	return t.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, ackmeshv1.NewAdminClient(conn))
	})
}

func (a *app) topicsList(t *target) *cobra.Command {
	var prefix string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics with the number of their partitions and records",
		Long: `List topics with the number of their partitions, and of the offsets that these
hold.

` + boundsHelp + `
12+ are the offsets of partitions that could be read, of others there are more.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ListTopics(ctx, &ackmeshv1.ListTopicsRequest{Prefix: prefix})
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printTopics(answer.GetTopics()) })
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only topics whose name begins so")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print the whole answer as JSON")
}

// show prints an answer as JSON, or as text does it.
func (a *app) show(asJSON bool, answer proto.Message, text func() error) error {
	if asJSON {
		return printJSON(a.out, answer)
	}
	return text()
}

func (a *app) printTopics(topics []*ackmeshv1.Topic) error {
	out := newTable(a.out, "TOPIC", "PARTITIONS", "OFFSETS")
	var missing unknowns
	for _, topic := range topics {
		out.row(topic.GetTopic(), len(topic.GetPartitions()), held(topic, &missing))
	}
	return cmp.Or(out.flush(), missing.tell(a))
}

// held is how many offsets a topic holds, as far as that is known.
func held(topic *ackmeshv1.Topic, missing *unknowns) string {
	var n int64
	told, all := false, true
	for _, p := range topic.GetPartitions() {
		missing.note(topic.GetTopic(), p.GetPartition(), p)
		unknown := p.GetBounds() == ackmeshv1.BoundsState_BOUNDS_STATE_UNKNOWN
		told, all = told || !unknown, all && !unknown
		n += p.GetMaxOffset() - p.GetMinOffset()
	}
	switch {
	case all:
		return fmt.Sprint(n)
	case told:
		return fmt.Sprintf("%d+", n)
	}
	return "?"
}

func (a *app) topicsCreate(t *target) *cobra.Command {
	var partitions int32
	var retention time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create TOPIC",
		Short: "Create a topic",
		Args:  oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &ackmeshv1.CreateTopicRequest{Topic: args[0], Partitions: partitions}
			if cmd.Flags().Changed("retention") {
				req.Retention = durationpb.New(retention)
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.CreateTopic(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printTopic(answer.GetTopic()) })
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "number of partitions, 1 to 1,024; 0: the server's topics.partitions")
	cmd.Flags().DurationVar(&retention, "retention", 0, "how long records are kept; not given: the server's retention.age")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printTopic shows the partitions of one topic.
func (a *app) printTopic(topic *ackmeshv1.Topic) error {
	heading := "topic " + topic.GetTopic()
	if id := topic.GetId(); id != "" {
		heading += " (id " + id + ")"
	}
	if _, err := fmt.Fprintln(a.out, heading); err != nil {
		return err
	}
	out := newTable(a.out, "PARTITION", "FIRST", "NEXT")
	var missing unknowns
	for _, p := range topic.GetPartitions() {
		missing.note(topic.GetTopic(), p.GetPartition(), p)
		out.row(p.GetPartition(), known(p, p.GetMinOffset()), known(p, p.GetMaxOffset()))
	}
	return cmp.Or(out.flush(), missing.tell(a))
}

func (a *app) topicsDescribe(t *target) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "describe TOPIC",
		Short: "Show the partitions of a topic: the first offset held and the next one to be given",
		Long: `Show the partitions of a topic: the first offset held and the next one to be given.

` + boundsHelp,
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				topic, err := findTopic(ctx, admin, args[0])
				if err != nil {
					return err
				}
				return a.show(asJSON, topic, func() error { return a.printTopic(topic) })
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// findTopic looks a topic up by its whole name.
func findTopic(ctx context.Context, admin ackmeshv1.AdminClient, name string) (*ackmeshv1.Topic, error) {
	answer, err := admin.ListTopics(ctx, &ackmeshv1.ListTopicsRequest{Prefix: name})
	if err != nil {
		return nil, err
	}
	for _, topic := range answer.GetTopics() {
		if topic.GetTopic() == name {
			return topic, nil
		}
	}
	return nil, fmt.Errorf("there is no topic %q: 'ackmesh topics list' shows all", name)
}

func (a *app) topicsDelete(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "delete TOPIC",
		Short: "Delete a topic with its records and everyone's progress on it",
		Args:  oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				if _, err := admin.DeleteTopic(ctx, &ackmeshv1.DeleteTopicRequest{Topic: args[0]}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.out, "topic %s is deleted\n", args[0])
				return err
			})
		},
	}
}

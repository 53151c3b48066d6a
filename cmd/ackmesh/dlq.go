package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// dlqCommand is "ackmesh dlq" with its commands.
func (a *app) dlqCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List, show, replay, purge and rebuild dead letters",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.dlqList(t), a.dlqShow(t), a.dlqReplay(t), a.dlqPurge(t), a.dlqRebuild(t))
	return cmd
}

// letterFlags adds what selects dead letters.
func letterFlags(cmd *cobra.Command, topic, subscriber *string) {
	cmd.Flags().StringVar(topic, "topic", "", "the topic whose records died")
	cmd.Flags().StringVar(subscriber, "subscriber", "", "only of this subscriber: client/NAME or share/NAME")
	if err := cmd.MarkFlagRequired("topic"); err != nil {
		panic(err) // the flag was added above
	}
}

// eachLetter calls fn with every dead letter that matches, page by page.
func eachLetter(ctx context.Context, admin ackmeshv1.AdminClient, topic, subscriber string, fn func(*ackmeshv1.DeadLetter) (more bool, err error)) error {
	req := &ackmeshv1.ListDeadLettersRequest{Topic: topic, Subscriber: subscriber, PageSize: 500}
	for {
		page, err := admin.ListDeadLetters(ctx, req)
		if err != nil {
			return err
		}
		for _, letter := range page.GetDeadLetters() {
			if more, err := fn(letter); err != nil || !more {
				return err
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

func (a *app) dlqList(t *target) *cobra.Command {
	var topic, subscriber string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters in the order in which they died",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				out := newTable(a.out, "ID", "TIME", "SUBSCRIBER", "PARTITION", "OFFSET", "ATTEMPTS", "REASON")
				answer := &ackmeshv1.ListDeadLettersResponse{}
				err := eachLetter(ctx, admin, topic, subscriber, func(l *ackmeshv1.DeadLetter) (bool, error) {
					answer.DeadLetters = append(answer.DeadLetters, l)
					out.row(l.GetId(), l.GetTime().AsTime().Format(time.RFC3339), l.GetSubscriber(), l.GetPartition(), l.GetOffset(), l.GetAttempts(), l.GetReason())
					return limit == 0 || len(answer.DeadLetters) < limit, nil
				})
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, out.flush)
			})
		},
	}
	letterFlags(cmd, &topic, &subscriber)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0: all")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) dlqShow(t *target) *cobra.Command {
	var topic, subscriber string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter with its event, as JSON",
		Args:  oneArg("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				var found *ackmeshv1.DeadLetter
				err := eachLetter(ctx, admin, topic, subscriber, func(l *ackmeshv1.DeadLetter) (bool, error) {
					if l.GetId() == args[0] {
						found = l
					}
					return found == nil, nil
				})
				switch {
				case err != nil:
					return err
				case found == nil:
					return fmt.Errorf("topic %q has no dead letter %q: 'ackmesh dlq list' shows all", topic, args[0])
				}
				return printJSON(a.out, found)
			})
		},
	}
	letterFlags(cmd, &topic, &subscriber)
	return cmd
}

func (a *app) dlqReplay(t *target) *cobra.Command {
	var topic, subscriber string
	var all bool
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Publish dead letters again, each for the subscriber that failed",
		Long: `Publish dead letters to their topic again. Each reaches only the subscriber that
failed, with a fresh budget of attempts, and is taken off the list. Give ids, or
--all.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := idsOrAll(args, all); err != nil {
				return err
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ReplayDeadLetters(ctx, &ackmeshv1.ReplayDeadLettersRequest{Topic: topic, Subscriber: subscriber, Ids: args})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%d dead letters were published again\n", answer.GetReplayed())
				return err
			})
		},
	}
	letterFlags(cmd, &topic, &subscriber)
	cmd.Flags().BoolVar(&all, "all", false, "all that match")
	return cmd
}

func (a *app) dlqPurge(t *target) *cobra.Command {
	var topic, subscriber string
	var all bool
	cmd := &cobra.Command{
		Use:   "purge [ID...]",
		Short: "Forget dead letters",
		Long: `Take dead letters off the list. What is in the topic of dead letters stays there
until retention drops it. Give ids, or --all.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := idsOrAll(args, all); err != nil {
				return err
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.PurgeDeadLetters(ctx, &ackmeshv1.PurgeDeadLettersRequest{Topic: topic, Subscriber: subscriber, Ids: args})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%d dead letters were purged\n", answer.GetPurged())
				return err
			})
		},
	}
	letterFlags(cmd, &topic, &subscriber)
	cmd.Flags().BoolVar(&all, "all", false, "all that match")
	return cmd
}

func (a *app) dlqRebuild(t *target) *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Add to the list what the topic of dead letters holds and the list lacks",
		Long: `Read the topic of dead letters and add to the list what it lacks: after the data
directory was lost, or on an instance that did not see them die. What was
replayed or purged here does not come back.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.RebuildDeadLetters(ctx, &ackmeshv1.RebuildDeadLettersRequest{Topic: topic})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%d dead letters were found, %d of them were added\n", answer.GetFound(), answer.GetAdded())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "the topic whose records died")
	if err := cmd.MarkFlagRequired("topic"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

func idsOrAll(ids []string, all bool) error {
	if (len(ids) > 0) == all {
		return usageError{fmt.Errorf("give ids, or --all, not both")}
	}
	return nil
}

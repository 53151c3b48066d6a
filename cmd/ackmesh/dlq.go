package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

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

// eachPage calls fn with every page of dead letters that match. While it does, req
// is the request that brought the page.
func eachPage(ctx context.Context, admin ackmeshv1.AdminClient, topic, subscriber string, fn func(req *ackmeshv1.ListDeadLettersRequest, page []*ackmeshv1.DeadLetter) (more bool, err error)) error {
	req := &ackmeshv1.ListDeadLettersRequest{Topic: topic, Subscriber: subscriber, PageSize: 500}
	for {
		page, err := admin.ListDeadLetters(ctx, req)
		if err != nil {
			return err
		}
		if more, err := fn(req, page.GetDeadLetters()); err != nil || !more {
			return err
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// eachLetter calls fn with every dead letter that matches, page by page.
func eachLetter(ctx context.Context, admin ackmeshv1.AdminClient, topic, subscriber string, fn func(*ackmeshv1.DeadLetter) (more bool, err error)) error {
	return eachPage(ctx, admin, topic, subscriber, func(_ *ackmeshv1.ListDeadLettersRequest, page []*ackmeshv1.DeadLetter) (bool, error) {
		for _, letter := range page {
			if more, err := fn(letter); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	})
}

// findLetter returns a dead letter with its event; nil: there is none of that id.
func findLetter(ctx context.Context, admin ackmeshv1.AdminClient, topic, subscriber, id string) (found *ackmeshv1.DeadLetter, err error) {
	err = eachPage(ctx, admin, topic, subscriber, func(req *ackmeshv1.ListDeadLettersRequest, page []*ackmeshv1.DeadLetter) (more bool, err error) {
		i := slices.IndexFunc(page, func(l *ackmeshv1.DeadLetter) bool { return l.GetId() == id })
		if i < 0 {
			return true, nil
		}
		found, err = withEvent(ctx, admin, req, page[i])
		return false, err
	})
	return found, err
}

// withEvent returns a letter of the page that req brought with its event: a page
// has room for some events only, one of a single letter for that of the letter,
// whatever its size. Where the letter is in the page is found by halves, since a
// page may hold letters that are not shown.
func withEvent(ctx context.Context, admin ackmeshv1.AdminClient, req *ackmeshv1.ListDeadLettersRequest, letter *ackmeshv1.DeadLetter) (*ackmeshv1.DeadLetter, error) {
	size := req.GetPageSize()
	for letter.GetFrame() == nil {
		req.PageSize = (size + 1) / 2
		page, err := admin.ListDeadLetters(ctx, req)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(page.GetDeadLetters(), func(l *ackmeshv1.DeadLetter) bool { return l.GetId() == letter.GetId() })
		switch {
		case i >= 0 && req.GetPageSize() == 1:
			return page.GetDeadLetters()[i], nil
		case i >= 0:
			letter, size = page.GetDeadLetters()[i], req.GetPageSize()
		case size == 1 || page.GetNextPageToken() == "":
			return letter, nil // the list has changed meanwhile
		default:
			req.PageToken, size = page.GetNextPageToken(), size-req.GetPageSize()
		}
	}
	return letter, nil
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
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d: give 0 (all) or more", limit)}
			}
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
				found, err := findLetter(ctx, admin, topic, subscriber, args[0])
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
--all. Many may take longer than --timeout: then the command says how many are
left, fails, and goes on with them when it is given again.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := idsOrAll(args, all); err != nil {
				return err
			}
			return unknownReplay(t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ReplayDeadLetters(ctx, &ackmeshv1.ReplayDeadLettersRequest{Topic: topic, Subscriber: subscriber, Ids: args})
				if err != nil {
					return err
				}
				if _, err = fmt.Fprintf(a.out, "%d dead letters were published again\n", answer.GetReplayed()); err != nil {
					return err
				}
				if left := answer.GetLeft(); left > 0 {
					return fmt.Errorf("%d dead letters are left, since --timeout %v was over: the same command goes on with them", left, t.timeout)
				}
				return allFound(args, answer.GetReplayed(), topic)
			}))
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
				if _, err = fmt.Fprintf(a.out, "%d dead letters were purged\n", answer.GetPurged()); err != nil {
					return err
				}
				return allFound(args, answer.GetPurged(), topic)
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

// unknownReplay adds to the error of a replay without an answer how to go on.
func unknownReplay(err error) error {
	if c := statusOf(err).Code(); c != codes.DeadlineExceeded && c != codes.Canceled {
		return err
	}
	return fmt.Errorf("%w: how many were published again is not known, these are off the list: the same command goes on with what 'ackmesh dlq list' shows", err)
}

func idsOrAll(ids []string, all bool) error {
	if (len(ids) > 0) == all {
		return usageError{fmt.Errorf("give ids, or --all, not both")}
	}
	return nil
}

// allFound tells that some of the ids that were given are none of dead letters.
func allFound(ids []string, found int64, topic string) error {
	slices.Sort(ids)
	if ids = slices.Compact(ids); int64(len(ids)) <= found {
		return nil
	}
	return fmt.Errorf("%d of the %d ids are not those of dead letters of topic %q: 'ackmesh dlq list' shows all", int64(len(ids))-found, len(ids), topic)
}

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// rateLimitCommand is "ackmesh rate-limit" with its commands.
func (a *app) rateLimitCommand() *cobra.Command {
	t := new(target)
	cmd := &cobra.Command{
		Use:   "rate-limit",
		Short: "List, set and remove bounds of publishing and delivering",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	a.adminFlags(cmd, t)
	cmd.AddCommand(a.rateLimitList(t), a.rateLimitSet(t), a.rateLimitRemove(t))
	return cmd
}

// directions are the words for what is bounded.
var directions = map[string]ackmeshv1.SetRateLimitRequest_Direction{
	"publish": ackmeshv1.SetRateLimitRequest_DIRECTION_PUBLISH,
	"deliver": ackmeshv1.SetRateLimitRequest_DIRECTION_DELIVER,
}

func directionOf(word string) (ackmeshv1.SetRateLimitRequest_Direction, error) {
	d, ok := directions[word]
	if !ok {
		return d, usageError{fmt.Errorf("%q is neither publish nor deliver", word)}
	}
	return d, nil
}

func directionWord(d ackmeshv1.SetRateLimitRequest_Direction) string {
	for word, known := range directions {
		if known == d {
			return word
		}
	}
	return d.String()
}

// scopeFlags adds what a bound holds for.
func scopeFlags(cmd *cobra.Command, req *ackmeshv1.SetRateLimitRequest) {
	cmd.Flags().StringVar(&req.Topic, "topic", "", "the topic; not given: all topics together")
	cmd.Flags().StringVar(&req.ClientId, "client", "", "the client, or of publish the name of its token; not given: all together")
}

func (a *app) rateLimitList(t *target) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the bounds that are set",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.ListRateLimits(ctx, &ackmeshv1.ListRateLimitsRequest{})
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error { return a.printRateLimits(answer.GetRateLimits()) })
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printRateLimits(limits []*ackmeshv1.RateLimit) error {
	out := newTable(a.out, "DIRECTION", "TOPIC", "CLIENT", "EVENTS/S", "BYTES/S")
	for _, l := range limits {
		out.row(directionWord(l.GetDirection()), orAll(l.GetTopic()), orAll(l.GetClientId()), rateText(l.GetEventsPerSecond()), rateText(l.GetBytesPerSecond()))
	}
	return out.flush()
}

func orAll(name string) string {
	if name == "" {
		return "(all)"
	}
	return name
}

func rateText(perSecond float64) string {
	if perSecond == 0 {
		return "-"
	}
	return strconv.FormatFloat(perSecond, 'f', -1, 64)
}

func (a *app) rateLimitSet(t *target) *cobra.Command {
	req := &ackmeshv1.SetRateLimitRequest{}
	cmd := &cobra.Command{
		Use:   "set publish|deliver",
		Short: "Bound how many events or bytes a second are published or delivered",
		Long: `Bound how many events or bytes a second are published or delivered on the
instance that is asked. A publish beyond the bound is refused with
RESOURCE_EXHAUSTED and the time to wait; deliveries beyond it wait. All bounds
that hold for a topic and a client hold together. A bound is kept over restarts;
setting it again replaces it.

  ackmesh rate-limit set publish --topic orders --events 1000
  ackmesh rate-limit set deliver --client reports --bytes 1000000`,
		Args: oneArg("publish or deliver"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Direction, err = directionOf(args[0]); err != nil {
				return err
			}
			if req.GetEventsPerSecond() == 0 && req.GetBytesPerSecond() == 0 {
				return usageError{fmt.Errorf("give --events or --bytes above 0; 'ackmesh rate-limit remove' ends a bound")}
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				return a.setRateLimit(ctx, admin, req, "set")
			})
		},
	}
	scopeFlags(cmd, req)
	cmd.Flags().Float64Var(&req.EventsPerSecond, "events", 0, "events a second; 0: any")
	cmd.Flags().Float64Var(&req.BytesPerSecond, "bytes", 0, "bytes of events a second; 0: any")
	return cmd
}

func (a *app) rateLimitRemove(t *target) *cobra.Command {
	req := &ackmeshv1.SetRateLimitRequest{}
	cmd := &cobra.Command{
		Use:   "remove publish|deliver",
		Short: "Remove the bound that was set for exactly this topic and client",
		Args:  oneArg("publish or deliver"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Direction, err = directionOf(args[0]); err != nil {
				return err
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				if err := hasRateLimit(ctx, admin, req); err != nil {
					return err
				}
				return a.setRateLimit(ctx, admin, req, "removed")
			})
		},
	}
	scopeFlags(cmd, req)
	return cmd
}

// hasRateLimit returns nil where there is a bound of exactly what req names.
func hasRateLimit(ctx context.Context, admin ackmeshv1.AdminClient, req *ackmeshv1.SetRateLimitRequest) error {
	answer, err := admin.ListRateLimits(ctx, &ackmeshv1.ListRateLimitsRequest{})
	if err != nil {
		return err
	}
	for _, l := range answer.GetRateLimits() {
		if l.GetDirection() == req.GetDirection() && l.GetTopic() == req.GetTopic() && l.GetClientId() == req.GetClientId() {
			return nil
		}
	}
	return fmt.Errorf("there is no %s: 'ackmesh rate-limit list' shows all", limitText(req))
}

func (a *app) setRateLimit(ctx context.Context, admin ackmeshv1.AdminClient, req *ackmeshv1.SetRateLimitRequest, done string) error {
	if _, err := admin.SetRateLimit(ctx, req); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "the %s was %s\n", limitText(req), done)
	return err
}

func limitText(req *ackmeshv1.SetRateLimitRequest) string {
	return fmt.Sprintf("%s limit of topic %s and client %s", directionWord(req.GetDirection()), orAll(req.GetTopic()), orAll(req.GetClientId()))
}

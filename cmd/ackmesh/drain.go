package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// drainCommand is "ackmesh drain".
func (a *app) drainCommand() *cobra.Command {
	t := new(target)
	var grace time.Duration
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have an instance send its clients on and take no new streams",
		Long: `Have the instance that is asked send its clients on: its health turns to
NOT_SERVING, new streams are refused, and each live one is told to go, gets
nothing new, and ends once it has answered what it holds, or when the grace is
over. Publishing goes on. The command does not wait for the streams to end. A
restart ends the drain, and so does --undo.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &ackmeshv1.DrainRequest{Undo: undo}
			if cmd.Flags().Changed("grace") {
				req.Grace = durationpb.New(grace)
			}
			return t.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				answer, err := admin.Drain(ctx, req)
				if err != nil {
					return err
				}
				if undo {
					_, err = fmt.Fprintln(a.out, "streams are taken again")
					return err
				}
				_, err = fmt.Fprintf(a.out, "%d streams were told to go\n", answer.GetStreams())
				return err
			})
		},
	}
	a.adminFlags(cmd, t)
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long clients have to finish what they hold; not given: the server's drain.grace")
	cmd.Flags().BoolVar(&undo, "undo", false, "take streams again")
	return cmd
}

package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// recommendCommand is "ackmesh recommend".
func (a *app) recommendCommand() *cobra.Command {
	t := new(target)
	req := new(ackmeshv1.RecommendRequest)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Ask which instance a client should connect to",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				answer, err := ackmeshv1.NewSessionClient(conn).Recommend(ctx, req)
				if err != nil {
					return err
				}
				return a.show(asJSON, answer, func() error {
					out := newTable(a.out, "INSTANCE", "ADDRESS", "SCORE")
					out.row(answer.GetInstanceId(), answer.GetInstanceUrl(), answer.GetScore())
					return out.flush()
				})
			})
		},
	}
	a.serverFlags(cmd, t)
	t.timeoutFlag(cmd.Flags(), "how long to wait for the answer")
	cmd.Flags().StringVar(&req.ClientId, "client", "", "the client that asks")
	cmd.Flags().StringSliceVar(&req.FailedInstances, "failed", nil, "ids of instances that could not be reached")
	jsonFlag(cmd, &asJSON)
	return cmd
}

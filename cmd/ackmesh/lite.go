package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// liteCommand is "ackmesh lite" with its commands.
func (a *app) liteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lite",
		Short: "Create, publish to and subscribe to lite topics",
		Long: `Lite topics are many small topics below one parent topic: one for each session,
device or conversation. They need a log that has them: RocketMQ 5, with a parent of
type LITE.`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(a.liteCreate(), a.litePublish(), a.liteSubscribe())
	return cmd
}

// liteTarget is a server and a lite topic there.
type liteTarget struct {
	target
	parent, lite string
}

// liteFlags adds the flags that name a lite topic, and those of the server.
func (a *app) liteFlags(cmd *cobra.Command, t *liteTarget) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&t.parent, "parent", "", "parent topic, of type LITE")
	flags.StringVar(&t.lite, "lite", "", "lite topic: 1 to 64 of A-Z, a-z, 0-9, _ and -")
	a.serverFlags(cmd, &t.target)
	t.timeoutFlag(flags, "how long to wait for an answer")
}

// check wants both names.
func (t *liteTarget) check() error {
	if t.parent == "" {
		return errNoParent
	}
	if t.lite == "" {
		return usageError{errors.New("--lite is missing: name the lite topic")}
	}
	return nil
}

var errNoParent = usageError{errors.New("--parent is missing: name the parent topic")}

func (a *app) liteCreate() *cobra.Command {
	t := new(liteTarget)
	cmd := &cobra.Command{
		Use:   "create --parent PARENT --lite LITE",
		Short: "Create a lite topic",
		Long: `Create a lite topic below a parent. One that is there already is left as it is.
Publishing and subscribing create it too, so this is to see whether it can be done.`,
		Example: `  ackmesh lite create --parent chat --lite session-1`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return t.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				_, err := ackmeshv1.NewLiteClient(conn).CreateLiteTopic(ctx, &ackmeshv1.CreateLiteTopicRequest{Parent: t.parent, Lite: t.lite})
				if err == nil {
					a.tell("lite topic %s of %s is there\n", t.lite, t.parent)
				}
				return err
			})
		},
	}
	a.liteFlags(cmd, t)
	return cmd
}

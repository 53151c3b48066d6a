package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

// clientFlags are what publish and subscribe share.
type clientFlags struct {
	target
	// direct uses the server as it is, without asking where to go.
	direct bool
}

func (a *app) clientFlags(cmd *cobra.Command, f *clientFlags) {
	a.serverFlags(cmd, &f.target)
	cmd.Flags().BoolVar(&f.direct, "direct", false, "stay at --server; do not go where it recommends")
	f.timeoutFlag(cmd.Flags(), "how long to wait for the server at first")
}

// dial makes a client and sees whether a server answers.
func (a *app) dial(ctx context.Context, f *clientFlags, cfg ackmesh.Config) (*ackmesh.Client, error) {
	cfg.Addresses, cfg.Direct, cfg.AllowPlaintextToken = []string{f.addr}, f.direct, f.plaintextTokens
	var err error
	if cfg.TLS, err = f.tlsConfig(); err != nil {
		return nil, err
	}
	if cfg.Token, err = f.shown(f.addr); err != nil {
		return nil, err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(a.errOut, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	ctx, cancel := f.bounded(ctx)
	defer cancel()
	client, err := ackmesh.Dial(ctx, cfg)
	return client, atServer(f.addr, err)
}

// withoutTime leaves the time out of a line for a person who sees it come.
func withoutTime(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

// now is a context that has ended: what is given it may take no time.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// isEnd says whether err only says that a context ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

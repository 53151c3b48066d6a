package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/ackmesh/ackmesh/server"
)

// serveProfiled is `ackmesh serve` with a CPU profile: the first argument names
// its file, the others are what startMesh gives.
func serveProfiled(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("no file for the profile")
	}
	cfg := server.Defaults()
	fs := flag.NewFlagSet(cmdServe, flag.ContinueOnError)
	fs.StringVar(&cfg.Data, "data", "", "")
	fs.StringVar(&cfg.Storage, "storage", "", "")
	fs.StringVar(&cfg.Listen, "listen", "", "")
	fs.StringVar(&cfg.HTTPListen, "http-listen", "", "")
	fs.StringVar(&cfg.AdminListen, "admin-listen", "", "")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	s, err := server.New(cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

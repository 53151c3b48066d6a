package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/gcpace"
)

// serveCommand is "ackmesh serve".
func (a *app) serveCommand() *cobra.Command {
	var path string
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server",
		Long: `Start a server. It runs until SIGTERM or SIGINT, then takes acks for a while
longer (drain.grace), saves what it knows and ends; a second signal ends it at
once. SIGHUP makes it read certificates and tokens again, and open its audit log
anew; what cannot be read stays as it was.

Every setting is a flag, an environment variable (ACKMESH_ and the name in
capitals, with _ for . and -) and a key of the YAML file. Flags come before the
environment, the environment before the file.`,
		Example: `  ackmesh serve
  ackmesh serve --data /var/lib/ackmesh --retention.age 24h
  ACKMESH_TOPICS_PARTITIONS=8 ackmesh serve --config ackmesh.yaml --print-config`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				path = a.getenv(envConfig)
			}
			cfg, err := loadConfig(path, a.environ, cmd.Flags())
			if err != nil {
				return err
			}
			if printOnly {
				return a.printConfig(cfg)
			}
			return a.serve(cmd, cfg)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "YAML file of settings (environment: "+envConfig+")")
	cmd.Flags().BoolVar(&printOnly, "print-config", false, "print the settings in force, secrets masked, and end")
	addSettingFlags(cmd.Flags())
	return cmd
}

func (a *app) printConfig(cfg server.Config) error {
	text, err := configYAML(cfg)
	if err != nil {
		return err
	}
	_, err = a.out.Write(text)
	return err
}

func (a *app) serve(cmd *cobra.Command, cfg server.Config) error {
	srv, err := a.newServer(cfg, newLogger(cfg.Log, a.errOut))
	if err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	defer a.reloadOnHangup(srv)()
	if a.getenv("GOGC") == "" {
		defer gcpace.Start(gcpace.ForServer(cfg.Storage))()
	}
	return srv.Run(cmd.Context())
}

// reloadOnHangup has a server reload with each SIGHUP, until stop is called.
func (a *app) reloadOnHangup(srv runner) (stop func()) {
	hangup, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangup, syscall.SIGHUP)
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-hangup:
				_ = srv.Reload() // it logs what went wrong
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		close(done)
		reloading.Wait()
	}
}

// newLogger returns a logger as the settings say. The settings must be valid.
func newLogger(c server.LogConfig, to io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// addSettingFlags adds a flag for each setting, in the order of server.Config.
func addSettingFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	c := server.Defaults()
	for _, s := range settings(&c) {
		f := flags.VarPF(&settingFlag{text: s.text(), kind: s.kind()}, s.key, "", settingHelp[s.key])
		if s.kind() == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// settingFlag holds the text of a setting; loadConfig reads it. So flags,
// environment and file are read, and found wrong, in one way.
type settingFlag struct{ text, kind string }

func (f *settingFlag) Set(text string) error { f.text = strings.TrimSpace(text); return nil }
func (f *settingFlag) String() string        { return f.text }
func (f *settingFlag) Type() string          { return f.kind }

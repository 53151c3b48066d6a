package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ackmesh/ackmesh/server"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// app is what the commands have of the world around them.
type app struct {
	in          io.Reader
	out, errOut io.Writer
	// environ is as os.Environ.
	environ []string
	// terminal says whether errOut is a terminal.
	terminal bool
	// newServer builds a server.
	newServer func(server.Config, *slog.Logger) (runner, error)
}

// runner is a server that has been built.
type runner interface {
	// Run serves until ctx ends or serving fails, and then until all has been
	// closed in an orderly way.
	Run(ctx context.Context) error
	// Reload reads again what can change without a restart. It may be called
	// at any time.
	Reload() error
}

// newApp returns the app of the real world.
func newApp() *app {
	return &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		environ:   os.Environ(),
		terminal:  term.IsTerminal(int(os.Stderr.Fd())),
		newServer: buildServer,
	}
}

// getenv returns the value of an environment variable, or "".
func (a *app) getenv(name string) string {
	for _, entry := range a.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// tell writes to standard error. When that fails there is nowhere left to say so.
func (a *app) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(a.errOut, format, args...)
}

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// reported is a failure of which the command has told everything itself.
type reported struct{}

func (reported) Error() string { return "failed" }

// run carries out one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &reported{}):
		return exitFailed
	case errors.As(err, &usage):
		a.tell("ackmesh: %s\nSee '%s --help'.\n", words(err), cmd.CommandPath())
		return exitUsage
	default:
		a.tell("ackmesh: %s\n", words(err))
		return exitFailed
	}
}

// words is an error for a person. The client library begins its errors with its
// name, which is that of the command too.
func words(err error) string { return strings.TrimPrefix(err.Error(), "ackmesh: ") }

// rootCommand builds the tree of commands.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ackmesh",
		Short: "Events from a log to applications, each until it is acked",
		Long: `Ackmesh delivers events from a message log to applications over one gRPC stream
and keeps for each subscriber what it has finished.

  ackmesh serve                                     start a server
  ackmesh publish --topic orders orders.jsonl       publish a file of JSON lines
  ackmesh subscribe --topic orders --client me      print and ack what arrives`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		a.serveCommand(), a.publishCommand(), a.subscribeCommand(), a.liteCommand(),
		a.topicsCommand(), a.offsetsCommand(), a.subscribersCommand(), a.clientsCommand(), a.dlqCommand(), a.recommendCommand(),
		a.rateLimitCommand(), a.drainCommand(),
		a.tokenCommand(), a.versionCommand(),
	)
	return root
}

// unknownCommand names what was typed and what may have been meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return usageError{fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), name, didYouMean(nearest(name, known)))}
}

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, but got %q", cmd.CommandPath(), args[0])}
	}
	return nil
}

// oneArg wants exactly one argument, called what.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("%s takes one argument, the %s, but got %d", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}

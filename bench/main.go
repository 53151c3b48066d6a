// Command bench measures Ackmesh on this machine, and beside it, in
// interleaved rounds, NATS JetStream doing the same work. It starts both
// servers as processes of their own on fresh data directories and listens on
// loopback only. docs/performance.md tells what it measures and how to read it.
//
//	go run ./bench -quick
//
// With -backend the log behind Ackmesh is a real broker, and beside it stands
// what reads and writes that broker without Ackmesh: docs/performance-brokers.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// dispatch tells the processes that the benchmark starts from the benchmark.
func dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case cmdLoad:
			return load.Main(ctx, os.Stdin, out, openMesh)
		case cmdServe:
			return serveProfiled(ctx, args[1:])
		}
	}
	opt, err := parseFlags(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return run(ctx, opt, out)
}

// The first arguments of the processes that the benchmark starts of itself.
const (
	cmdLoad  = "__load"
	cmdServe = "__serve"
)

// options are what the flags say.
type options struct {
	backend   *backend
	rounds    int
	only      []string
	dir, json string
	alone     bool
	guarded   bool
	check     bool
	profile   string
	duration  time.Duration
	warmup    time.Duration
	backlog   int
	inFlight  int
	size      int
}

func parseFlags(args []string, errs io.Writer) (options, error) {
	var o options
	var quick bool
	var only, log string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.StringVar(&log, "backend", backends[0].name, backendsHelp())
	fs.BoolVar(&quick, "quick", false, "one short round: the figures are rough")
	fs.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, the systems in turn")
	fs.StringVar(&only, "only", "", "comma-separated measurements; default: all")
	fs.StringVar(&o.dir, "dir", "", "where data directories are made; must be on a real disk (default: the temporary directory)")
	fs.StringVar(&o.json, "json", "", "file for the figures as JSON; - for standard output")
	fs.BoolVar(&o.alone, "alone", false, "measure Ackmesh only")
	fs.BoolVar(&o.guarded, "guarded", false, "Ackmesh wants a token with every call, and each client that is not of a share filters what it gets")
	fs.BoolVar(&o.check, "check", false, "fail where a target is missed")
	fs.StringVar(&o.profile, "profile", "", "directory for CPU profiles of Ackmesh, of the server and of its clients, one of each measurement")
	fs.DurationVar(&o.duration, "duration", 4*time.Second, "how long a phase is measured")
	fs.IntVar(&o.backlog, "backlog", 0, "events stored for catch-up; 0: as many as fit the backend's speed")
	fs.IntVar(&o.inFlight, "in-flight", -1, "records that Ackmesh may have in flight to a subscriber; 0: its default; below 0: that or, on kafka, 10,000; live and fan-out have at most 4,096")
	fs.IntVar(&o.size, "size", 1024, "bytes of data of an event")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	if o.backend, err = backendNamed(log); err != nil {
		return o, err
	}
	o.warmup = time.Second
	if o.backlog == 0 {
		o.backlog = o.backend.backlog
	}
	if o.inFlight < 0 {
		o.inFlight = o.backend.inFlight
	}
	if quick {
		o.rounds, o.duration, o.backlog = 1, 2*time.Second, o.backend.backlog/4
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o, o.validate()
}

// maxInFlight is the largest window in records of the wire contract.
const maxInFlight = 100_000

func (o *options) validate() error {
	if o.rounds < 1 || o.duration <= 0 || o.backlog < 8 || o.size < 8 {
		return errors.New("rounds, duration, backlog and size must be at least 1, above 0, 8 and 8")
	}
	if o.inFlight > maxInFlight {
		return fmt.Errorf("-in-flight: must be at most %d, the largest that Ackmesh takes", maxInFlight)
	}
	for _, name := range o.only {
		if names := namesOf(o.backend.scenarios); !slices.Contains(names, name) {
			return fmt.Errorf("-only: unknown measurement %q: choose from %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// run makes all rounds and reports.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	w, err := newWorkshop(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	rep, err := newReport(w)
	if err != nil {
		return err
	}
	rep.head(out)
	if w.broker != nil {
		if err := w.prepare(ctx); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		if err := w.round(ctx, rep, round, out); err != nil {
			return err
		}
	}
	return rep.finish(o, out)
}

// round measures everything once.
func (w *workshop) round(ctx context.Context, rep *report, round int, out io.Writer) error {
	for _, sc := range w.opt.backend.scenarios {
		if !sc.wanted(w.opt, round) {
			continue
		}
		for _, sys := range w.turn(sc, round) {
			began := time.Now()
			res, err := w.measure(ctx, sys, sc, round)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", sc.name, sys.name, err)
			}
			rep.add(sys.name, sc, res)
			say(out, "round %d/%d  %-12s %-12s %5.1f s  %s\n",
				round+1, w.opt.rounds, sc.name, sys.name, time.Since(began).Seconds(), brief(res))
		}
	}
	return nil
}

// brief is a result in a few words.
func brief(res load.Result) string {
	var parts []string
	for _, p := range res.Phases {
		parts = append(parts, fmt.Sprintf("%s %.0f/s, p50 %.2f ms, %.0f MB", p.Name, p.Rate, p.Latency.P50, float64(p.RSS)/1e6))
	}
	return strings.Join(parts, "; ")
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// say writes a line of the report. Nobody is left to tell when that fails.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

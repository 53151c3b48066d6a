package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"

	"github.com/ackmesh/ackmesh/bench/load"
	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/gcpace"
)

// serveProfiled is `ackmesh serve` that makes CPU profiles: the first argument
// begins the names of their files, the others are what startMesh gives.
func serveProfiled(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("no file for the profile")
	}
	cfg := server.Defaults()
	fs := flag.NewFlagSet(cmdServe, flag.ContinueOnError)
	fs.StringVar(&cfg.Data, "data", "", "")
	fs.StringVar(&cfg.Storage, "storage", "", "")
	fs.StringVar(&cfg.Kafka.Brokers, "kafka.brokers", "", "")
	fs.StringVar(&cfg.RocketMQ4.NameServers, "rocketmq4.nameservers", "", "")
	fs.StringVar(&cfg.RocketMQ5.Endpoints, "rocketmq5.endpoints", "", "")
	fs.StringVar(&cfg.RocketMQ5.NameServers, "rocketmq5.nameservers", "", "")
	fs.StringVar(&cfg.Listen, "listen", "", "")
	fs.StringVar(&cfg.HTTPListen, "http-listen", "", "")
	fs.StringVar(&cfg.AdminListen, "admin-listen", "", "")
	fs.StringVar(&cfg.Auth.TokensFile, "auth.tokens-file", "", "")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	defer gcpace.Start(gcpace.ForServer(cfg.Storage))() // as `ackmesh serve` does
	p := &profiler{prefix: args[0]}
	defer func() { err = errors.Join(err, p.end()) }()
	stop := p.onSignal()
	defer stop()
	s, err := server.New(cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// profiler makes a CPU profile between each two signals.
type profiler struct {
	prefix string
	mu     sync.Mutex
	n      int
	stop   func() error // of the one under way
	err    error
}

// onSignal follows load.ProfileSignal until stop is called.
func (p *profiler) onSignal() (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, load.ProfileSignal)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range c {
			p.toggle()
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
		<-done
	}
}

func (p *profiler) toggle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.err = errors.Join(p.err, p.stop(), p.heap())
		p.stop = nil
		return
	}
	p.n++
	stop, err := load.StartProfile(fmt.Sprintf("%s-%d-server.pprof", p.prefix, p.n))
	p.stop, p.err = stop, errors.Join(p.err, err)
}

// heap writes what is in memory, by who allocated it.
func (p *profiler) heap() error {
	f, err := os.Create(fmt.Sprintf("%s-%d-server-heap.pprof", p.prefix, p.n))
	if err != nil {
		return err
	}
	runtime.GC() // what is not in use any more does not count
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// end ends a profile under way and returns what went wrong with any.
func (p *profiler) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.err = errors.Join(p.err, p.stop())
		p.stop = nil
	}
	return p.err
}

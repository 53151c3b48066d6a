// Package server puts an instance together: the log, the offset store, the
// dispatcher, the gRPC and HTTP edge. It owns their order of starting and
// stopping.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/audit"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/server/rpc"
	"github.com/ackmesh/ackmesh/server/tracing"
	"github.com/ackmesh/ackmesh/storage"
)

// Parts replaces parts of an instance, for tests and for programs that embed
// one. Zero values mean the ordinary part.
type Parts struct {
	// Listener, HTTPListener and AdminListener take the place of the addresses
	// in Config; the server closes them.
	Listener, HTTPListener, AdminListener net.Listener
	// NoHTTP and NoAdmin leave a listener out.
	NoHTTP, NoAdmin bool
	// Backend and Store, where set, are used instead of what Config names. The
	// server closes them. They are called once, when the instance starts.
	Backend func() (storage.Backend, error)
	Store   func() (offsetstore.Store, error)
	// Wrap wraps the backend, whichever it is.
	Wrap func(storage.Backend) storage.Backend
	// Spans, where set, makes the spans of events and calls, in place of what
	// the OTEL_ variables of the environment say.
	Spans trace.TracerProvider
	// ServerOptions are added to those of the gRPC servers.
	ServerOptions []grpc.ServerOption
}

// Server is one instance.
type Server struct {
	cfg   Config
	parts Parts
	log   *slog.Logger

	health *health.Server
	grpc   *grpc.Server
	admin  *grpc.Server
	edge   *edge
	ready  atomic.Bool // as state.ready, for who asks with each call
	addr   atomic.Pointer[Addresses]
	up     chan struct{} // closed once ready

	draining sync.Mutex // held by who drains or undoes it
	stateMu  sync.Mutex
	state    serviceState

	meters   *meters
	security security
	calls    *limiter
	resets   *limiter
	reloads  reloads
	tracing  *tracing.Tracing // nil: nothing is followed

	serving sync.WaitGroup
	core    core
}

// core is what is open while an instance serves.
type core struct {
	id      string
	backend storage.Backend
	store   offsetstore.Store
	guard   guard
	d       *dispatch.Dispatcher
	pub     *rpc.Publisher
	limits  *ratelimit.Limits
	tokens  *auth.Keeper
	audit   *audit.Log // nil: only logged
}

// Addresses are what an instance listens on.
type Addresses struct{ GRPC, HTTP, Admin string }

// New checks the settings and makes an instance. Nothing is opened before Run.
func New(cfg Config, logger *slog.Logger) (*Server, error) {
	return NewWithParts(cfg, logger, Parts{})
}

// NewWithParts is New with parts of the caller's own.
func NewWithParts(cfg Config, logger *slog.Logger, parts Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, parts: parts, log: logger, health: health.NewServer(), up: make(chan struct{})}
	s.edge = &edge{s: s}
	s.edge.lite = rpc.NewLite(&s.edge.mesh)
	s.meters = newMeters(s)
	s.calls = newLimiter(cfg.Limits.CallsPerSecond, "calls")
	s.resets = newLimiter(cfg.Limits.ResetsPerSecond, "resets")
	return s, nil
}

// Ready is closed once the instance serves.
func (s *Server) Ready() <-chan struct{} { return s.up }

// Metrics counts what is delivered; valid once the instance is ready.
func (s *Server) Metrics() *dispatch.Metrics { return s.core.d.Metrics }

// Gatherer reads the metrics of the instance: what /metrics shows.
func (s *Server) Gatherer() prometheus.Gatherer { return s.meters.registry }

// Addresses are valid once Run listens; nil before.
func (s *Server) Addresses() *Addresses { return s.addr.Load() }

// Run serves until ctx is done, then stops in order: not SERVING, no new
// streams, no new deliveries; acks are taken for Drain.Grace; positions and
// cursors are saved; everything is closed. It returns nil after an orderly stop.
func (s *Server) Run(ctx context.Context) error {
	s.change(func(*serviceState) {})
	if err := s.readSecurity(); err != nil {
		return err
	}
	if err := s.openTracing(ctx); err != nil {
		return err
	}
	defer s.closeTracing()
	ls, err := s.listen()
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	stopHTTP := s.serve(ls, failed)
	err = s.open(ctx)
	if err == nil {
		err = s.serveUntil(ctx, failed)
	}
	return errors.Join(err, s.shutdown(stopHTTP))
}

// serveUntil is the time between ready and the end.
func (s *Server) serveUntil(ctx context.Context, failed <-chan error) error {
	s.change(func(st *serviceState) { st.ready = true })
	s.core.guard.onChange(s.diskChanged)
	a := s.Addresses()
	s.log.Info("serving", "grpc", a.GRPC, "http", a.HTTP, "admin", a.Admin, "storage", s.core.backend.Name(), "instance", s.core.id)
	close(s.up)
	watched, end := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watchStore(watched) })
	defer watch.Wait()
	defer end()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// open opens the log and the store and makes what works on them.
func (s *Server) open(ctx context.Context) error {
	c := &s.core
	var err error
	if s.keepsData() {
		if err := makeDataDir(s.cfg.Data); err != nil {
			return err
		}
	}
	if c.guard, err = s.openGuard(); err != nil {
		return err
	}
	if c.store, err = s.openStore(); err != nil {
		return fmt.Errorf("open the offset store: %w", err)
	}
	if c.backend, err = s.openBackend(ctx); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	if s.parts.Wrap != nil {
		c.backend = s.parts.Wrap(c.backend)
	}
	if c.id, err = s.instanceID(); err != nil {
		return err
	}
	if err = s.openAccess(); err != nil {
		return err
	}
	if c.limits, err = ratelimit.Open(c.store); err != nil {
		return fmt.Errorf("read the rate limits: %w", err)
	}
	if c.d, err = dispatch.New(ctx, s.dispatchConfig(), c.backend, c.store); err != nil {
		return err
	}
	c.pub = rpc.NewPublisher(c.backend, "/ackmesh/"+c.id, seed())
	c.pub.SetLimits(c.limits)
	c.pub.SetRequestLimits(s.cfg.Limits.PublishEvents, int(s.cfg.Limits.PublishBytes))
	if s.tracing != nil {
		c.pub.SetTracer(s.tracing)
	}
	s.edge.bind(c)
	return nil
}

func seed() (b [12]byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func (s *Server) dispatchConfig() dispatch.Config {
	cfg := dispatch.Config{
		InstanceID: s.core.id, InstanceURL: s.advertise(), Refresh: s.cfg.Topics.Refresh,
		EncodeNotice: rpc.EncodeNotice, Logger: s.log, Pace: s.core.limits, GoTo: s.goTo,
		MemoryLimit: int64(s.cfg.MemoryLimit()), Expiry: s.cfg.Subscriber.Expiry, Invisible: s.cfg.RocketMQ5.Invisible,
	}
	if s.tracing != nil {
		cfg.Tracer = s.tracing
	}
	d := s.cfg.Delivery
	cfg.Delivery.MaxAttempts, cfg.Delivery.Backoff, cfg.Delivery.Jitter = d.MaxAttempts, d.Backoff, d.Jitter
	if d.Jitter == 0 {
		cfg.Delivery.Jitter = -1
	}
	cfg.Delivery.MaxWaiting, cfg.Delivery.MaxAhead, cfg.Delivery.LookAhead = d.MaxWaiting, d.MaxAhead, d.LookAhead
	return cfg
}

func (s *Server) limits() rpc.Limits {
	w := s.cfg.Window
	return rpc.Limits{
		InstanceID: s.core.id, InstanceURL: s.advertise(),
		AckTimeout: s.cfg.AckTimeout.Default, MinAckTimeout: s.cfg.AckTimeout.Min, MaxAckTimeout: s.cfg.AckTimeout.Max,
		InFlight: w.MaxInFlight.Default, MaxInFlight: w.MaxInFlight.Max,
		Bytes: int64(w.MaxInFlightBytes.Default), MaxBytes: int64(w.MaxInFlightBytes.Max),
		MaxSubscriptionsPerStream: s.cfg.Limits.SubscriptionsPerStream, MaxLitesPerStream: s.cfg.Limits.LiteTopicsPerStream,
	}
}

// advertise is the address that clients are given.
func (s *Server) advertise() string {
	if s.cfg.Advertise != "" {
		return s.cfg.Advertise
	}
	if a := s.Addresses(); a != nil {
		return a.GRPC
	}
	return s.cfg.Listen
}

// services whose health is told beside that of the whole server.
var services = []string{"", "ackmesh.v1.EventMesh", "ackmesh.v1.Session", "ackmesh.v1.Lite", "ackmesh.v1.Admin"}

func (s *Server) setHealth(st healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range services {
		s.health.SetServingStatus(name, st)
	}
}

// diskChanged follows the space on the disk: err is why writes are refused.
func (s *Server) diskChanged(err error) {
	s.change(func(st *serviceState) { st.disk = err })
	if err != nil {
		s.log.Error("writes are refused until there is room again", "error", err)
		return
	}
	s.log.Info("writes are taken again")
	s.core.d.Unblocked()
}

// shutdown stops what Run started, in order. It waits for everything, at most
// about Drain.Grace and Shutdown.Grace together.
func (s *Server) shutdown(stopHTTP func(time.Duration)) error {
	s.health.Shutdown() // NOT_SERVING before the first stream is closed
	s.change(func(st *serviceState) { st.ready = false })
	c := &s.core
	if c.guard != nil {
		c.guard.onChange(nil)
	}
	if c.d != nil {
		s.log.Info("stopping", "streams", c.d.Metrics.StreamsLive.Load(), "grace", s.cfg.Drain.Grace)
		c.d.Drain(context.Background(), s.cfg.Drain.Grace)
	}
	s.stopGRPC()
	stopHTTP(time.Second)
	s.serving.Wait()
	s.edge.wait()
	if c.d != nil {
		c.d.Close()
	}
	return s.close()
}

// close closes the log and the store.
func (s *Server) close() error {
	c := &s.core
	s.noReload()
	var errs []error
	if c.audit != nil {
		errs = append(errs, c.audit.Close())
	}
	if c.backend != nil {
		errs = append(errs, c.backend.Close())
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	if c.guard != nil {
		errs = append(errs, c.guard.close())
	}
	err := errors.Join(errs...)
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	s.log.Info("stopped")
	return nil
}

// stopGRPC ends the gRPC servers: calls get Shutdown.Grace to finish.
func (s *Server) stopGRPC() {
	var wg sync.WaitGroup
	for _, g := range []*grpc.Server{s.grpc, s.admin} {
		if g == nil {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			timer := time.AfterFunc(s.cfg.Shutdown.Grace, g.Stop)
			defer timer.Stop()
			g.GracefulStop()
		}()
	}
	wg.Wait()
}

package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/admin"
	"github.com/ackmesh/ackmesh/server/rpc"
)

// streamWindow is the static flow-control window of streams and connections.
// Adaptive windows cost more than they give on a stream that is always full.
const streamWindow = 4 << 20

func init() {
	// Tiers of powers of two, not cleared: the default pool clears what it
	// hands out and has nothing between 32 KiB and 1 MiB.
	if pool, err := mem.NewBinaryTieredBufferPool(8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24); err == nil {
		experimental.SetDefaultBufferPool(pool)
	}
}

type listeners struct{ grpc, http, admin net.Listener }

func (s *Server) listen() (ls listeners, err error) {
	open := func(given net.Listener, addr, what string) net.Listener {
		if given != nil || err != nil {
			return given
		}
		l, lerr := net.Listen("tcp", addr)
		if lerr != nil {
			err = fmt.Errorf("%s: listen on %s: %w (another server may be running there; choose another address)", what, addr, lerr)
		}
		return l
	}
	ls.grpc = open(s.parts.Listener, s.cfg.Listen, "listen")
	if !s.parts.NoHTTP {
		ls.http = open(s.parts.HTTPListener, s.cfg.HTTPListen, "http-listen")
	}
	if !s.parts.NoAdmin {
		ls.admin = open(s.parts.AdminListener, s.cfg.AdminListen, "admin-listen")
	}
	if err != nil {
		for _, l := range []net.Listener{ls.grpc, ls.http, ls.admin} {
			if l != nil {
				_ = l.Close() // nothing was accepted on it
			}
		}
		return ls, err
	}
	s.addr.Store(&Addresses{addrOf(ls.grpc), addrOf(ls.http), addrOf(ls.admin)})
	return ls, nil
}

func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// serve starts serving on all listeners. stopHTTP ends the HTTP one.
func (s *Server) serve(ls listeners, failed chan<- error) (stopHTTP func(time.Duration)) {
	s.grpc = s.newGRPC()
	s.edge.register(s.grpc)
	s.goServe(s.grpc, ls.grpc, failed)
	if ls.admin != nil {
		s.admin = s.newGRPC()
		s.edge.registerAdmin(s.admin)
		s.goServe(s.admin, ls.admin, failed)
	}
	if ls.http == nil {
		return func(time.Duration) {}
	}
	return s.serveHTTP(ls.http, failed)
}

func (s *Server) goServe(g *grpc.Server, l net.Listener, failed chan<- error) {
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := g.Serve(l); err != nil {
			failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}()
}

func (s *Server) newGRPC() *grpc.Server {
	unary := []grpc.UnaryServerInterceptor{logging.UnaryServerInterceptor(s.rpcLogger(), logOptions...), s.gateUnary, recovery.UnaryServerInterceptor(s.recovered())}
	stream := []grpc.StreamServerInterceptor{logging.StreamServerInterceptor(s.rpcLogger(), logOptions...), s.gateStream, recovery.StreamServerInterceptor(s.recovered())}
	k := s.cfg.Keepalive
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(rpc.Codec{}),
		grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...),
		grpc.MaxRecvMsgSize(int(s.cfg.Limits.PublishBytes) + 1<<16),
		grpc.MaxSendMsgSize(1 << 30),
		grpc.MaxConcurrentStreams(uint32(s.cfg.Limits.Streams)),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(4 * streamWindow),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(4 * streamWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: k.Time, Timeout: k.Timeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}, s.parts.ServerOptions...)...)
}

// logOptions: calls are logged when they end badly, not each.
var logOptions = []logging.Option{
	logging.WithLogOnEvents(logging.FinishCall),
	logging.WithLevels(func(c codes.Code) logging.Level {
		switch c {
		case codes.Internal, codes.Unknown, codes.DataLoss:
			return logging.LevelError
		}
		return logging.LevelDebug
	}),
}

func (s *Server) rpcLogger() logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, lvl logging.Level, msg string, fields ...any) {
		s.log.Log(ctx, slog.Level(lvl), msg, fields...)
	})
}

// recovered turns a panic into INTERNAL, logged with its stack.
func (s *Server) recovered() recovery.Option {
	return recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error {
		s.log.Error("panic in a call", "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error, logged by the server")
	})
}

// open without being ready: health, reflection, channelz.
func alwaysOpen(method string) bool { return strings.HasPrefix(method, "/grpc.") }

// gate refuses calls while the stores are not open.
func (s *Server) gate(method string) error {
	if s.ready.Load() || alwaysOpen(method) {
		return nil
	}
	return status.Error(codes.Unavailable, "the instance is starting or stopping: try again, maybe elsewhere")
}

func (s *Server) gateUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.gate(info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Server) gateStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.gate(info.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}

// edge is the services of an instance. They are registered before the stores
// are open, which the gate keeps calls away from.
type edge struct {
	s     *Server
	mesh  rpc.EventMesh
	admin admin.Service
}

// bind gives the services what they work on.
func (e *edge) bind(c *core) {
	e.mesh.Bind(c.pub, c.d, e.s.limits())
	e.admin.Bind(c.backend, c.store, c.d)
}

func (e *edge) wait() { e.mesh.Wait() }

func (e *edge) register(g *grpc.Server) {
	e.mesh.Register(g)
	rpc.NewSession(e.s.instances).Register(g)
	pb.RegisterLiteServer(g, rpc.Lite{Backend: e.s.cfg.Storage})
	e.common(g)
}

func (e *edge) registerAdmin(g *grpc.Server) {
	pb.RegisterAdminServer(g, &e.admin)
	service.RegisterChannelzServiceToServer(g)
	e.common(g)
}

func (e *edge) common(g *grpc.Server) {
	healthpb.RegisterHealthServer(g, e.s.health)
	reflection.Register(g)
}

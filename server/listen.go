package server

import (
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/admin"
	"github.com/ackmesh/ackmesh/server/rpc"
)

// streamWindow is the static flow-control window of streams and connections.
// Adaptive windows cost more than they give on a stream that is always full.
const streamWindow = 4 << 20

// writeBuffer is how much is written to a connection at once: several messages to
// who is behind. Connections share the buffers; one with nothing to write has none.
const writeBuffer = 128 << 10

func init() {
	experimental.SetDefaultBufferPool(rpc.NewBufferPool())
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
	s.grpc = s.newGRPC(s.security.data, s.dataChain())
	s.edge.register(s.grpc)
	s.goServe(s.grpc, ls.grpc, failed)
	if ls.admin != nil {
		s.admin = s.newGRPC(s.security.admin, s.adminChain())
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

// newGRPC makes a gRPC server; nil certificates: without TLS.
func (s *Server) newGRPC(certs *certificates, c chain) *grpc.Server {
	k := s.cfg.Keepalive
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rpc.Codec{}),
		grpc.ChainUnaryInterceptor(c.unary...), grpc.ChainStreamInterceptor(c.stream...),
		grpc.MaxRecvMsgSize(rpc.MaxMessageBytes(int(s.cfg.Limits.PublishBytes))),
		grpc.MaxSendMsgSize(1 << 30),
		grpc.MaxConcurrentStreams(uint32(s.cfg.Limits.Streams)),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(4 * streamWindow),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(4 * streamWindow),
		grpc.WriteBufferSize(writeBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: k.Time, Timeout: k.Timeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
	if certs != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(certs.config())))
	}
	if s.tracing != nil {
		opts = append(opts, grpc.StatsHandler(s.tracing.Calls(isUnary)))
	}
	return grpc.NewServer(append(opts, s.parts.ServerOptions...)...)
}

// edge is the services of an instance. They are registered before the stores
// are open, which the gate keeps calls away from.
type edge struct {
	s     *Server
	mesh  rpc.EventMesh
	lite  *rpc.Lite
	admin admin.Service
}

// bind gives the services what they work on.
func (e *edge) bind(c *core) {
	e.mesh.Bind(c.pub, c.d, e.s.limits(), e.s.authorizer())
	e.lite.Bind(c.backend)
	e.admin.Bind(admin.Parts{Backend: c.backend, Store: c.store, Dispatcher: c.d, Limits: c.limits, Instance: e.s})
}

func (e *edge) wait() { e.mesh.Wait() }

func (e *edge) register(g *grpc.Server) {
	e.mesh.Register(g)
	rpc.NewSession(e.s.instances).Register(g)
	e.lite.Register(g)
	e.common(g)
}

// registerLocal registers what the HTTP listener passes on.
func (e *edge) registerLocal(g *grpc.Server) { rpc.NewSession(e.s.instances).Register(g) }

func (e *edge) registerAdmin(g *grpc.Server) {
	pb.RegisterAdminServer(g, &e.admin)
	service.RegisterChannelzServiceToServer(g)
	e.common(g)
}

func (e *edge) common(g *grpc.Server) {
	healthpb.RegisterHealthServer(g, e.s.health)
	reflection.Register(g)
}

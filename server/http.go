package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// serveHTTP serves /session/recommend, /healthz, /readyz and /metrics.
func (s *Server) serveHTTP(l net.Listener, failed chan<- error) (stop func(time.Duration)) {
	mux := http.NewServeMux()
	closeGateway := s.gateway(mux, failed)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.guardMetrics(promhttp.HandlerFor(s.meters.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 1 << 16}
	serve := srv.Serve
	if s.security.http != nil {
		srv.TLSConfig = s.security.http.config()
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}()
	return func(grace time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // its calls had their time
		}
		closeGateway()
	}
}

// gatewayBuffer is what a connection within the process holds.
const gatewayBuffer = 64 << 10

// gateway serves Session over HTTP by calls of gRPC within the process, so that
// its interceptors apply: tokens, limits, metrics. It has a gRPC server of its
// own, since the one for applications may want TLS and certificates of clients.
func (s *Server) gateway(mux *http.ServeMux, failed chan<- error) (stop func()) {
	inner := s.newGRPC(nil, s.dataChain())
	s.edge.registerLocal(inner)
	pipe := bufconn.Listen(gatewayBuffer)
	s.goServe(inner, pipe, failed)
	conn, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		s.log.Error("no /session/recommend over HTTP", "error", err)
		return inner.Stop
	}
	gw := runtime.NewServeMux()
	ctx, cancel := context.WithCancel(context.Background())
	if err := pb.RegisterSessionHandler(ctx, gw, conn); err != nil {
		s.log.Error("no /session/recommend over HTTP", "error", err)
	}
	recommend := http.MaxBytesHandler(textOnly(gw), 1<<20)
	mux.Handle("GET /session/recommend", recommend)
	mux.Handle("POST /session/recommend", recommend)
	return func() {
		cancel()
		_ = conn.Close() // its calls have ended
		inner.Stop()
	}
}

// textOnly refuses a query that is not UTF-8, which no message can hold, and answers
// HEAD as GET: the gateway takes the one for a fault of its own and does not know the
// other.
func textOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query, err := url.QueryUnescape(r.URL.RawQuery); err != nil || !utf8.ValidString(query) {
			reply(w, http.StatusBadRequest, "the query is not UTF-8")
			return
		}
		if r.Method == http.MethodHead {
			get := *r
			get.Method = http.MethodGet
			r = &get
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	res, err := s.health.Check(r.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		reply(w, http.StatusServiceUnavailable, "not ready")
		return
	}
	reply(w, http.StatusOK, "ready")
}

func reply(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// serveHTTP serves /session/recommend, /healthz, /readyz and /metrics.
func (s *Server) serveHTTP(l net.Listener, failed chan<- error) (stop func(time.Duration)) {
	mux := http.NewServeMux()
	closeGateway := s.gateway(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, true, "alive") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 1 << 16}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
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

// gateway serves Session over HTTP by calling the gRPC listener, so that its
// interceptors apply.
func (s *Server) gateway(mux *http.ServeMux) (stop func()) {
	conn, err := grpc.NewClient("passthrough:///"+s.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.log.Error("no /session/recommend over HTTP", "error", err)
		return func() {}
	}
	gw := runtime.NewServeMux()
	ctx, cancel := context.WithCancel(context.Background())
	if err := pb.RegisterSessionHandler(ctx, gw, conn); err != nil {
		s.log.Error("no /session/recommend over HTTP", "error", err)
	}
	mux.Handle("/session/recommend", http.MaxBytesHandler(gw, 1<<20))
	return func() { cancel(); _ = conn.Close() }
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	res, err := s.health.Check(r.Context(), &healthpb.HealthCheckRequest{})
	ok := err == nil && res.GetStatus() == healthpb.HealthCheckResponse_SERVING
	reply(w, ok, map[bool]string{true: "ready", false: "not ready"}[ok])
}

func reply(w http.ResponseWriter, ok bool, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

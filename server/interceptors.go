package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	middleauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/server/auth"
)

// chain is what calls go through, the outermost first: metrics, logging, the
// gate, the rate limit, (for operators) the audit, authentication, (for
// operators) the check of the request, and recovery from panics.
type chain struct {
	unary  []grpc.UnaryServerInterceptor
	stream []grpc.StreamServerInterceptor
}

func (c *chain) add(u grpc.UnaryServerInterceptor, s grpc.StreamServerInterceptor) {
	if u != nil {
		c.unary = append(c.unary, u)
	}
	if s != nil {
		c.stream = append(c.stream, s)
	}
}

func (s *Server) dataChain() chain { return s.chain(false) }

// adminChain is for a server all of whose changes are unary calls.
func (s *Server) adminChain() chain { return s.chain(true) }

func (s *Server) chain(admin bool) (c chain) {
	c.add(s.meters.rpc.UnaryServerInterceptor(), callsOnly(s.meters.rpc.StreamServerInterceptor()))
	c.add(logging.UnaryServerInterceptor(s.rpcLogger(), logOptions...), callsOnly(logging.StreamServerInterceptor(s.rpcLogger(), logOptions...)))
	c.add(s.gateUnary, s.gateStream)
	if s.cfg.Limits.CallsPerSecond > 0 {
		limited := selector.MatchFunc(func(_ context.Context, m interceptors.CallMeta) bool {
			return auth.NeedOf(m.FullMethod()) != auth.NeedNothing
		})
		calls := s.calls
		if admin { // operators must get through, above all when clients do not
			calls = newLimiter(s.cfg.Limits.CallsPerSecond, "calls")
		}
		c.add(selector.UnaryServerInterceptor(calls.unary, limited), selector.StreamServerInterceptor(calls.stream, limited))
	}
	if admin {
		c.add(s.auditUnary, nil)
	}
	needs := selector.MatchFunc(s.needsToken)
	c.add(selector.UnaryServerInterceptor(middleauth.UnaryServerInterceptor(s.authenticate), needs),
		selector.StreamServerInterceptor(middleauth.StreamServerInterceptor(s.authenticate), needs))
	if admin {
		c.add(s.operateUnary, nil)
	}
	c.add(recovery.UnaryServerInterceptor(s.recovered()), recovery.StreamServerInterceptor(s.recovered()))
	return c
}

// callsOnly keeps an interceptor away from the messages of a stream: it sees the
// stream begin and end, and costs nothing in between.
func callsOnly(i grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return i(srv, ss, info, func(srv any, _ grpc.ServerStream) error { return next(srv, ss) })
	}
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

// gate refuses calls while the stores are not open, but for health and
// reflection.
func (s *Server) gate(method string) error {
	if s.ready.Load() || auth.NeedOf(method) == auth.NeedNothing {
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

// limiter bounds how often something is done; nil: it does not.
type limiter struct {
	*rate.Limiter
	what string
}

// newLimiter allows perSecond with a burst of twice as many; 0: no bound.
func newLimiter(perSecond float64, what string) *limiter {
	if perSecond <= 0 {
		return nil
	}
	return &limiter{rate.NewLimiter(rate.Limit(perSecond), max(1, int(min(2*perSecond, 1e9)))), what}
}

// Limit takes one turn, or says RESOURCE_EXHAUSTED and when to try again.
func (l *limiter) Limit(context.Context) error {
	if l == nil || l.Allow() {
		return nil
	}
	st := status.Newf(codes.ResourceExhausted, "more than %v %s a second: try again later", l.Limiter.Limit(), l.what)
	wait := time.Duration(float64(time.Second) / float64(l.Limiter.Limit()))
	if full, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
		st = full
	}
	return st.Err()
}

// unary and stream are interceptors. Those of the library put their own words
// around the error, and leave out when to try again.
func (l *limiter) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := l.Limit(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (l *limiter) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := l.Limit(ss.Context()); err != nil {
		return err
	}
	return next(srv, ss)
}

package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/server/tracing"
)

// openTracing makes what follows events, if anything does.
func (s *Server) openTracing(ctx context.Context) (err error) {
	if s.parts.Spans != nil {
		s.tracing = tracing.New(s.parts.Spans)
		return nil
	}
	s.tracing, err = tracing.Open(ctx, s.cfg.InstanceID, s.log)
	return err
}

// closeTracing sends the last spans. That they cannot be sent is no reason to
// call the end a bad one.
func (s *Server) closeTracing() {
	if s.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.tracing.Close(ctx); err != nil {
		s.log.Warn("the last spans could not be sent", "error", err)
	}
}

// streaming are the methods that are no unary calls.
var streaming = func() map[string]bool {
	out := map[string]bool{}
	for _, d := range []grpc.ServiceDesc{pb.EventMesh_ServiceDesc, pb.Lite_ServiceDesc} {
		for _, m := range d.Streams {
			out["/"+d.ServiceName+"/"+m.StreamName] = true
		}
	}
	return out
}()

// isUnary tells whether a method is a unary call, and none of the machinery.
func isUnary(method string) bool {
	return !streaming[method] && auth.NeedOf(method) != auth.NeedNothing && !strings.HasPrefix(method, "/grpc.")
}

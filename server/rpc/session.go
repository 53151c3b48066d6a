package rpc

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	sessionpb "github.com/ackmesh/ackmesh/gen/go/session"
	"github.com/ackmesh/ackmesh/server/recommend"
)

const (
	// maxFailed bounds RecommendRequest.failed_instances.
	maxFailed = 1000
	// maxWanted bounds RecommendRequest.subscriptions.
	maxWanted = 10_000
)

// Session serves Recommend, and the same on the literal path
// /session/recommend.
type Session struct {
	instances func() []recommend.Instance
}

// NewSession answers out of what instances returns at each call.
func NewSession(instances func() []recommend.Instance) *Session {
	return &Session{instances: instances}
}

// Register serves both paths, on a gRPC server that must use Codec.
func (s *Session) Register(r grpc.ServiceRegistrar) {
	for _, desc := range []grpc.ServiceDesc{pb.Session_ServiceDesc, sessionpb.Session_ServiceDesc} {
		name := desc.Methods[0].MethodName
		desc.HandlerType = (*any)(nil)
		desc.Methods = []grpc.MethodDesc{{MethodName: name, Handler: recommendHandler("/" + desc.ServiceName + "/" + name)}}
		r.RegisterService(&desc, s)
	}
}

func recommendHandler(path string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(rawIn)
		if err := dec(in); err != nil {
			return nil, err
		}
		call := func(_ context.Context, req any) (any, error) { return srv.(*Session).recommend(req.(*rawIn)) }
		if interceptor == nil {
			return call(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: path}, call)
	}
}

// recommend names the instance to connect to.
func (s *Session) recommend(in *rawIn) (any, error) {
	defer in.free()
	req, err := parseRecommend(in.bytes())
	if err != nil {
		return nil, statusOf(err).Err()
	}
	to, score, err := recommend.Choose(s.instances(), req.GetFailedInstances())
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &pb.RecommendResponse{InstanceId: to.ID, InstanceUrl: to.URL, Score: score}, nil
}

// parseRecommend checks the size of a request, then unpacks it.
func parseRecommend(b []byte) (*pb.RecommendRequest, error) {
	if len(b) > maxControlBytes {
		return nil, invalid("request", fmt.Sprintf("has %d bytes, at most %d are allowed", len(b), maxControlBytes))
	}
	err := cmp.Or(
		atMost("failed_instances", fieldsOf(b, 2), maxFailed),
		atMost("subscriptions", fieldsOf(b, 3), maxWanted),
		atMost("subscriptions.retry.backoff", nested(b, 3, 9, 2), maxWaits),
	)
	if err != nil {
		return nil, err
	}
	req := &pb.RecommendRequest{}
	if err := proto.Unmarshal(b, req); err != nil {
		return nil, invalid("request", err.Error())
	}
	return req, nil
}

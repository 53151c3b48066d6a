package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	sessionpb "github.com/ackmesh/ackmesh/gen/go/session"
	"github.com/ackmesh/ackmesh/server/recommend"
)

// maxFailed bounds RecommendRequest.failed_instances.
const maxFailed = 1000

// Session serves Recommend, and the same on the literal path
// /session/recommend.
type Session struct {
	pb.UnimplementedSessionServer
	instances func() []recommend.Instance
}

// NewSession answers out of what instances returns at each call.
func NewSession(instances func() []recommend.Instance) *Session {
	return &Session{instances: instances}
}

// Register serves both paths.
func (s *Session) Register(r grpc.ServiceRegistrar) {
	pb.RegisterSessionServer(r, s)
	sessionpb.RegisterSessionServer(r, literal{s: s})
}

// Recommend names the instance to connect to.
func (s *Session) Recommend(_ context.Context, req *pb.RecommendRequest) (*pb.RecommendResponse, error) {
	if n := len(req.GetFailedInstances()); n > maxFailed {
		return nil, statusOf(invalid("failed_instances", fmt.Sprintf("has %d, at most %d are allowed", n, maxFailed))).Err()
	}
	in, score, err := recommend.Choose(s.instances(), req.GetFailedInstances())
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &pb.RecommendResponse{InstanceId: in.ID, InstanceUrl: in.URL, Score: score}, nil
}

// literal is Session under the package-less name.
type literal struct {
	sessionpb.UnimplementedSessionServer
	s *Session
}

// Recommend is Session.Recommend.
func (l literal) Recommend(ctx context.Context, req *pb.RecommendRequest) (*pb.RecommendResponse, error) {
	return l.s.Recommend(ctx, req)
}

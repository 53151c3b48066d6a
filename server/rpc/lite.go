package rpc

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Lite answers for backends without lite topics.
type Lite struct {
	pb.UnimplementedLiteServer
	// Backend is named in the answers.
	Backend string
}

func (l Lite) none() error {
	return unbuilt("lite topics on backend " + l.Backend)
}

// CreateLiteTopic is UNIMPLEMENTED.
func (l Lite) CreateLiteTopic(context.Context, *pb.CreateLiteTopicRequest) (*pb.CreateLiteTopicResponse, error) {
	return nil, l.none()
}

// PublishLite is UNIMPLEMENTED.
func (l Lite) PublishLite(context.Context, *pb.PublishLiteRequest) (*pb.PublishLiteResponse, error) {
	return nil, l.none()
}

// SubscribeLite is UNIMPLEMENTED.
func (l Lite) SubscribeLite(grpc.BidiStreamingServer[pb.SubscribeLiteRequest, pb.SubscribeLiteResponse]) error {
	return l.none()
}

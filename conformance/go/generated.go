package conformance

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Generated is a Client of the generated code and nothing else.
type Generated struct{ Mesh }

// Publish calls Publish.
func (g Generated) Publish(ctx context.Context, req *pb.PublishRequest) (*pb.PublishResponse, error) {
	conn, err := g.dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // answered
	return pb.NewEventMeshClient(conn).Publish(ctx, req)
}

// Subscribe calls Subscribe.
func (g Generated) Subscribe() (Call, error) {
	conn, err := g.dial()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	call, err := pb.NewEventMeshClient(conn).Subscribe(ctx)
	if err != nil {
		cancel()
		return nil, errors.Join(err, conn.Close())
	}
	return &generatedCall{call, func() { cancel(); _ = conn.Close() }}, nil
}

type generatedCall struct {
	grpc.BidiStreamingClient[pb.SubscribeRequest, pb.SubscribeResponse]
	stop func()
}

// Close cancels the call and closes its connection.
func (c *generatedCall) Close() { c.stop() }

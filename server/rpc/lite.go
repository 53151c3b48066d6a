package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/storage"
)

// Lite serves lite topics. Its calls are those of EventMesh for another kind of
// topic: the same limits, checks of callers, windows, counters. Bind it before
// use. With a log that has no lite topics every call is UNIMPLEMENTED.
type Lite struct {
	pb.UnimplementedLiteServer
	mesh    *EventMesh
	backend storage.Backend
	log     storage.Liter // nil: the log has none
}

// NewLite makes the service beside mesh, which is bound with it.
func NewLite(mesh *EventMesh) *Lite { return &Lite{mesh: mesh} }

// Bind gives l the log that it serves. It must be called before the first call.
func (l *Lite) Bind(backend storage.Backend) {
	l.backend = backend
	l.log, _ = storage.As[storage.Liter](backend)
}

// Register serves l on a gRPC server, which must use Codec.
func (l *Lite) Register(s grpc.ServiceRegistrar) {
	desc := pb.Lite_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "PublishLite" {
			desc.Methods[i].Handler = publishLiteHandler
		}
	}
	desc.Streams = []grpc.StreamDesc{{
		StreamName: "SubscribeLite", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*Lite).subscribe(stream) },
	}}
	s.RegisterService(&desc, l)
}

// topics is the log's lite topics, or why there are none.
func (l *Lite) topics() (storage.Liter, error) {
	if l.log == nil {
		return nil, fmt.Errorf("backend %s: %w: they need storage rocketmq5 with rocketmq5.nameservers", l.backend.Name(), dispatch.ErrNoLites)
	}
	return l.log, nil
}

// CreateLiteTopic makes a lite topic.
func (l *Lite) CreateLiteTopic(ctx context.Context, req *pb.CreateLiteTopicRequest) (*pb.CreateLiteTopicResponse, error) {
	if err := l.create(ctx, req); err != nil {
		return nil, statusOf(err).Err()
	}
	return &pb.CreateLiteTopicResponse{}, nil
}

func (l *Lite) create(ctx context.Context, req *pb.CreateLiteTopicRequest) error {
	log, err := l.topics()
	if err != nil {
		return err
	}
	if err := checkLite(req.GetParent(), req.GetLite()); err != nil {
		return err
	}
	if who := l.mesh.caller(ctx); who != nil {
		if err := who.Publish(req.GetParent()); err != nil {
			return err
		}
	}
	return log.EnsureLite(ctx, req.GetParent(), req.GetLite())
}

func checkLite(parent, lite string) error {
	if err := storage.CheckName("parent", parent); err != nil {
		return err
	}
	return storage.CheckLite("lite", lite)
}

func publishLiteHandler(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is that of grpc.MethodDesc
	in := new(rawIn)
	if err := dec(in); err != nil {
		return nil, err
	}
	call := func(ctx context.Context, req any) (any, error) { return srv.(*Lite).publish(ctx, req.(*rawIn)) }
	if interceptor == nil {
		return call(ctx, in)
	}
	return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.Lite_PublishLite_FullMethodName}, call)
}

// publish appends the events of a PublishLiteRequest and answers once their fate
// is known.
func (l *Lite) publish(ctx context.Context, in *rawIn) (any, error) {
	if _, err := l.topics(); err != nil {
		in.free()
		return nil, statusOf(err).Err()
	}
	p, msg := l.mesh.pub, in.bytes()
	ch := make(chan *publication, 1)
	req := p.request()
	p.begin(ctx, req, req.parseLite(msg), len(msg), l.mesh.caller(ctx), func(req *publication) { ch <- req })
	in.free()
	select {
	case req := <-ch:
		return p.answerLite(req)
	case <-ctx.Done():
		return nil, statusOf(fmt.Errorf("the fate of the events is open: %w", ctx.Err())).Err()
	}
}

// parseLite walks a PublishLiteRequest once. The slices point into b.
func (pb *publication) parseLite(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return invalid("request", "is no PublishLiteRequest: "+protowire.ParseError(n).Error())
		}
		b = b[n:]
		var v []byte
		if typ == protowire.BytesType {
			v, n = protowire.ConsumeBytes(b)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return invalid("request", "is no PublishLiteRequest: "+protowire.ParseError(n).Error())
		}
		if b = b[n:]; typ != protowire.BytesType {
			continue
		}
		switch num {
		case 1:
			pb.topic = string(v)
		case 2:
			pb.lite = string(v)
		case 3:
			pb.field(2, v) // an event, as in PublishRequest
		}
	}
	if err := checkLite(pb.topic, pb.lite); err != nil {
		return err
	}
	return pb.check()
}

// append appends the events of a request to its topic, or lite topic.
func (p *Publisher) append(ctx context.Context, pb *publication, done storage.AppendDone) error {
	if pb.lite == "" {
		return p.backend.Append(ctx, pb.topic, pb.events, done)
	}
	log, ok := storage.As[storage.Liter](p.backend)
	if !ok { // checked before: an instance has one log
		return dispatch.ErrNoLites
	}
	return log.AppendLite(ctx, pb.topic, pb.lite, pb.events, done)
}

// answerLite writes the PublishLiteResponse and frees what the request held.
func (p *Publisher) answerLite(req *publication) (any, error) {
	defer req.free()
	p.count(req)
	if req.err != nil {
		return nil, statusOf(req.err).Err()
	}
	out := &pb.PublishLiteResponse{}
	b, _ := p.appendEvents(req, 1<<3|2) // each event has its own status
	if err := proto.Unmarshal(b, out); err != nil {
		return nil, statusOf(err).Err()
	}
	return out, nil
}

package rpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/dispatch"
)

// EventMesh serves the data calls. Bind it before use.
type EventMesh struct {
	pub       *Publisher
	d         *dispatch.Dispatcher
	limits    Limits
	authorize Authorizer
	readers   sync.WaitGroup
}

// Bind gives e what it serves, and who says what callers may do (nil: they may
// do everything). It must be called before the first call.
func (e *EventMesh) Bind(pub *Publisher, d *dispatch.Dispatcher, limits Limits, authorize Authorizer) {
	e.pub, e.d, e.limits, e.authorize = pub, d, limits.withDefaults(), authorize
}

// Wait waits until nothing of any stream runs any more. All connections must
// be closed, or closing.
func (e *EventMesh) Wait() { e.readers.Wait() }

// Register serves e on a gRPC server, which must use Codec.
func (e *EventMesh) Register(s grpc.ServiceRegistrar) {
	desc := pb.EventMesh_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Methods = []grpc.MethodDesc{{MethodName: "Publish", Handler: publishHandler}}
	desc.Streams = []grpc.StreamDesc{
		{StreamName: "PublishStream", Handler: streamHandler((*EventMesh).publishStream), ServerStreams: true, ClientStreams: true},
		{StreamName: "Subscribe", Handler: streamHandler((*EventMesh).subscribe), ServerStreams: true, ClientStreams: true},
	}
	s.RegisterService(&desc, e)
}

func publishHandler(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is that of grpc.MethodDesc
	in := new(rawIn)
	if err := dec(in); err != nil {
		return nil, err
	}
	call := func(ctx context.Context, req any) (any, error) {
		e := srv.(*EventMesh)
		out, err := e.pub.publish(ctx, req.(*rawIn), e.caller(ctx))
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	if interceptor == nil {
		return call(ctx, in)
	}
	return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.EventMesh_Publish_FullMethodName}, call)
}

func streamHandler(fn func(*EventMesh, grpc.ServerStream) error) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error { return fn(srv.(*EventMesh), stream) }
}

// publishStream reads in a goroutine of its own and answers in this one.
func (e *EventMesh) publishStream(stream grpc.ServerStream) error {
	if err := stream.SendHeader(e.pub.header()); err != nil {
		return err
	}
	s := &pubStream{
		p: e.pub, by: e.caller(stream.Context()),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	e.readers.Add(1)
	go func() {
		defer e.readers.Done()
		if err := s.read(ctx, stream); err != nil {
			cancel(err)
		}
		s.end()
	}()
	err := s.write(ctx, func(out *rawOut) error { return stream.SendMsg(out) })
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return statusOf(err).Err()
}

func (s *pubStream) read(ctx context.Context, stream grpc.ServerStream) error {
	for {
		in := new(rawIn)
		if err := stream.RecvMsg(in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := s.start(ctx, in); err != nil {
			return err
		}
	}
}

// sink writes a stream's messages.
type sink struct{ stream grpc.ServerStream }

// Send writes one message.
func (s sink) Send(msg mem.BufferSlice) error { return s.stream.SendMsg(&rawOut{msg}) }

// subscribe serves one Subscribe stream with three goroutines: this one waits
// for the end, one reads, and one writes while there is something to write. The
// reader never waits for the writer.
func (e *EventMesh) subscribe(stream grpc.ServerStream) error {
	in := new(rawIn)
	if err := stream.RecvMsg(in); err != nil {
		return endOfRead(err, "Open")
	}
	open, err := e.limits.parseOpen(in)
	in.free()
	if err != nil {
		return statusOf(err).Err()
	}
	cfg, err := e.limits.streamConfig(stream.Context(), open)
	if err != nil {
		return statusOf(err).Err()
	}
	return e.serve(stream, cfg, func(r *subReader) { r.run(func() error { return r.open(open) }, r.handle) })
}

// serve begins a stream and serves it until its end. run reads it.
func (e *EventMesh) serve(stream grpc.ServerStream, cfg dispatch.StreamConfig, run func(*subReader)) error {
	a := newAccess(e.caller(stream.Context()), cfg.ClientID)
	changed := a.changed() // before the first check, so that no change is missed
	if err := a.open(); err != nil {
		return statusOf(err).Err()
	}
	s, err := e.d.NewStream(cfg)
	if err != nil {
		return statusOf(err).Err()
	}
	written := make(chan error, 1)
	e.readers.Add(2)
	s.Start(sink{stream}, func(err error) {
		defer e.readers.Done()
		written <- err
		e.d.Forget(s)
	})
	r := &subReader{e: e, s: s, stream: stream, ctx: stream.Context(), access: a}
	go func() {
		defer e.readers.Done()
		run(r)
	}()
	return endStatus(e.untilEnd(s, a, written, changed))
}

// untilEnd waits for the end of a stream: written, evicted, or not allowed any
// more.
func (e *EventMesh) untilEnd(s *dispatch.Stream, a *access, written <-chan error, changed <-chan struct{}) error {
	for {
		select {
		case err := <-written:
			return err
		case <-s.Evicted():
			return s.Err()
		case <-changed:
			changed = a.changed()
			if err := a.recheck(); err != nil {
				e.d.End(s, false, 0, err)
				return err
			}
		}
	}
}

// endStatus is what a client sees of the end of its stream.
func endStatus(err error) error {
	if err == nil {
		return nil
	}
	return statusOf(err).Err()
}

// endOfRead is what a client sees of the end of a stream before its first
// message, which must be of a kind.
func endOfRead(err error, kind string) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.InvalidArgument, "open: the stream ended before its first message, which must be "+kind)
	}
	return err
}

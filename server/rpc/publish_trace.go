package rpc

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

// PublishTracer follows the publishing of events that carry a trace context.
type PublishTracer interface {
	// Publishing is called before events are appended. done is called once it
	// is known what became of them; nil: none of them is followed.
	Publishing(ctx context.Context, topic string, events []storage.Event) (done func([]storage.Appended, error))
}

// SetTracer has publishing followed. It must be called before the first request.
func (p *Publisher) SetTracer(t PublishTracer) { p.tracer = t }

// traced is done, with the tracer told before.
func (p *Publisher) traced(ctx context.Context, pb *publication, done func(*publication)) func(*publication) {
	follow := p.tracer.Publishing(ctx, pb.topic, pb.events)
	if follow == nil {
		return done
	}
	return func(pb *publication) {
		follow(pb.results, pb.err)
		done(pb)
	}
}

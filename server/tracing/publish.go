package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// Attributes of spans, after the conventions for messaging.
const (
	keySystem      = attribute.Key("messaging.system")
	keyOperation   = attribute.Key("messaging.operation.type")
	keyDestination = attribute.Key("messaging.destination.name")
	keyPartition   = attribute.Key("messaging.destination.partition.id")
	keyMessage     = attribute.Key("messaging.message.id")
	keySubscriber  = attribute.Key("messaging.destination.subscription.name")
	keyClient      = attribute.Key("messaging.client.id")
	keyOffset      = attribute.Key("ackmesh.offset")
	keyAttempt     = attribute.Key("ackmesh.attempt")
	keyDuplicate   = attribute.Key("ackmesh.duplicate")
	keyFate        = attribute.Key("ackmesh.fate")
)

// published is the span of one event that is being appended.
type published struct {
	at   int // in the request
	span trace.Span
}

// Publishing begins a span for each event that carries a trace context, with a
// link to the call that brought it. done ends them; it is nil if there are none.
func (t *Tracing) Publishing(ctx context.Context, topic string, events []storage.Event) (done func([]storage.Appended, error)) {
	var list []published
	for i := range events {
		v := frame.View(events[i].Frame)
		parent, ok := v.Attr("traceparent")
		if !ok {
			continue
		}
		state, _ := v.Attr("tracestate")
		list = append(list, published{i, t.publishing(ctx, topic, string(parent), string(state), v)})
	}
	if list == nil {
		return nil
	}
	return func(results []storage.Appended, err error) {
		for _, p := range list {
			p.end(results, err)
		}
	}
}

func (t *Tracing) publishing(ctx context.Context, topic, parent, state string, v frame.View) trace.Span {
	id, _ := v.Attr("id")
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(time.Now()),
		trace.WithAttributes(keySystem.String("ackmesh"), keyOperation.String("send"), keyDestination.String(topic), keyMessage.String(string(id))),
	}
	if call := trace.SpanContextFromContext(ctx); call.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: call}))
	}
	_, span := t.tracer.Start(within(context.Background(), parent, state), "publish "+topic, opts...)
	return span
}

func (p *published) end(results []storage.Appended, err error) {
	if err == nil && p.at < len(results) {
		r := &results[p.at]
		if err = r.Err; err == nil {
			p.span.SetAttributes(keyPartition.String(r.Partition), keyOffset.Int64(r.Offset), keyDuplicate.Bool(r.Duplicate))
		}
	}
	if err != nil {
		p.span.SetStatus(codes.Error, err.Error())
	}
	p.span.End()
}

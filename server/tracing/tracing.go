// Package tracing follows events with OpenTelemetry: those that carry the
// attribute traceparent, from their publishing through each delivery to its ack.
// The attribute is left as it is, so all spans of an event are in its trace, next
// to each other.
//
// Where spans go is said by the standard OTEL_ variables of the environment.
// Without an endpoint among them nothing is followed, at no cost.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
)

// scope names what makes the spans.
const scope = "github.com/ackmesh/ackmesh"

// Tracing makes spans. Its methods may be called concurrently.
type Tracing struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
	shutdown func(context.Context) error
	open     deliveries
}

// Open makes what the environment asks for; nil: it asks for nothing.
//
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT say where
// spans go, OTEL_EXPORTER_OTLP_PROTOCOL how: grpc, or http/protobuf, the default.
// OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER=none end it. The other variables of
// the exporters, of the sampler, of the batches and of the resource hold too. What
// goes wrong later is logged. instance may be empty.
func Open(ctx context.Context, instance string, logger *slog.Logger) (*Tracing, error) {
	if !wanted() {
		return nil, nil
	}
	client, err := clientFor(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")))
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about := []attribute.KeyValue{attribute.String("service.name", "ackmesh")}
	if instance != "" {
		about = append(about, attribute.String("service.instance.id", instance))
	}
	res, err := resource.New(ctx, resource.WithAttributes(about...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("tracing", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	t := New(provider)
	t.shutdown = provider.Shutdown
	return t, nil
}

func wanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

func clientFor(protocol string) (otlptrace.Client, error) {
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.NewClient(), nil
	case "grpc":
		return otlptracegrpc.NewClient(), nil
	}
	return nil, fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_PROTOCOL is %q: choose grpc or http/protobuf", protocol)
}

// New makes spans with a provider of the caller's.
func New(provider trace.TracerProvider) *Tracing {
	return &Tracing{
		provider: provider, tracer: provider.Tracer(scope),
		shutdown: func(context.Context) error { return nil },
		open:     deliveries{max: maxOpen, byID: map[uint64]*delivery{}},
	}
}

// Close ends the spans of what is under way and sends what was not sent yet,
// until ctx is done.
func (t *Tracing) Close(ctx context.Context) error {
	t.open.endAll()
	if err := t.shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// Calls makes a span of each unary call: streams last too long to be one, and
// nobody wants to see health checks.
func (t *Tracing) Calls(unary func(method string) bool) stats.Handler {
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return unary(info.FullMethodName) }),
	)
}

// within is the context of an event: that of its attributes traceparent and
// tracestate.
func within(ctx context.Context, parent, state string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

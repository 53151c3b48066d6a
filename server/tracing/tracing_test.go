package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// noEnv takes the variables away that decide whether and how spans are sent.
func noEnv(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, "")
	}
}

func TestNothingUnlessAsked(t *testing.T) {
	noEnv(t)
	logger := slog.New(slog.DiscardHandler)
	check := func(what string) {
		t.Helper()
		if tr, err := Open(t.Context(), "i", logger); tr != nil || err != nil {
			t.Errorf("%s: %v, %v", what, tr, err)
		}
	}
	check("no environment")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_SDK_DISABLED", "TRUE")
	check("disabled")
	t.Setenv("OTEL_SDK_DISABLED", "")
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	check("no exporter")
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
	if _, err := Open(t.Context(), "i", logger); err == nil {
		t.Error("an unknown protocol is taken")
	}
}

// fakeCollector takes spans.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

// Export keeps what came.
func (f fakeCollector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	f.got <- req
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestSpansAreSent to where the environment says.
func TestSpansAreSent(t *testing.T) {
	noEnv(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := fakeCollector{got: make(chan *collector.ExportTraceServiceRequest, 10)}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, f)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tr, err := Open(t.Context(), "the-instance", slog.New(slog.DiscardHandler))
	if err != nil || tr == nil {
		t.Fatal(tr, err)
	}
	tr.Delivered([]dispatch.Traced{{ID: 1, Parent: parent, Topic: "t"}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Fatal(err)
	}
	res := (<-f.got).GetResourceSpans()[0]
	about := map[string]string{}
	for _, kv := range res.GetResource().GetAttributes() {
		about[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	if about["service.name"] != "ackmesh" || about["service.instance.id"] != "the-instance" || about["deployment.environment.name"] != "test" {
		t.Errorf("about: %v", about)
	}
	if span := res.GetScopeSpans()[0].GetSpans()[0]; span.GetName() != "deliver t" || fmt.Sprintf("%x", span.GetTraceId()) != parent[3:35] {
		t.Errorf("sent: %v", span)
	}
}

// recorded makes spans that are recorded.
func recorded() (*Tracing, *tracetest.SpanRecorder) {
	rec := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))), rec
}

// TestFollowedIsBounded: the oldest deliveries are given up beyond a bound, and
// what has ended takes no room.
func TestFollowedIsBounded(t *testing.T) {
	tr, rec := recorded()
	const maxOpen = 3000
	tr.open.max = maxOpen
	list := make([]dispatch.Traced, 1000)
	for i := range maxOpen/1000 + 1 {
		for k := range list {
			list[k] = dispatch.Traced{ID: uint64(i*1000 + k + 1), Parent: parent, Topic: "t"}
		}
		tr.Delivered(list)
	}
	if n := len(tr.open.byID); n != maxOpen || len(rec.Ended()) != 1000 {
		t.Errorf("%d are followed, %d were given up", n, len(rec.Ended()))
	}
	for id := uint64(1); id <= maxOpen+1000; id++ {
		tr.Answered(id, 1, dispatch.FateNacked)
	}
	if len(tr.open.byID) != 0 {
		t.Errorf("%d are followed after all were answered", len(tr.open.byID))
	}
	for id := range uint64(5000) {
		tr.Delivered([]dispatch.Traced{{ID: 1e6 + id, Parent: parent}})
		tr.Answered(1e6+id, 1, dispatch.FateAck)
		tr.Answered(1e6+id, 1, dispatch.FateDurable)
	}
	if n := len(tr.open.order); n > 2048 {
		t.Errorf("%d ids are kept of what has ended", n)
	}
	if started, ended := len(rec.Started()), len(rec.Ended()); started != ended {
		t.Errorf("%d spans began, %d ended", started, ended)
	}
}

// TestAckAgain: an ack that could not be stored is followed until it could.
func TestAckAgain(t *testing.T) {
	tr, rec := recorded()
	tr.Delivered([]dispatch.Traced{{ID: 7, Parent: parent, Topic: "t"}})
	for _, fate := range []dispatch.Fate{
		dispatch.FateAck, dispatch.FateRetry, dispatch.FateAck, dispatch.FateAck, dispatch.FateDurable, dispatch.FateDurable, dispatch.FateAck,
	} {
		tr.Answered(6, 0b10, fate)
	}
	var got []string
	for _, s := range rec.Ended() {
		got = append(got, s.Name()+" "+s.Attributes()[len(s.Attributes())-1].Value.String())
	}
	if want := "[deliver t ack ack retry ack durable]"; fmt.Sprint(got) != want {
		t.Errorf("spans: %v, want %s", got, want)
	}
}

// TestPublishingFails: the span says why an event was not stored.
func TestPublishingFails(t *testing.T) {
	tr, rec := recorded()
	event := func(attrs ...frame.Attribute) storage.Event {
		raw, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Attributes: attrs})
		if err != nil {
			t.Fatal(err)
		}
		return storage.Event{Frame: raw}
	}
	with := frame.Attribute{Name: "traceparent", Value: parent}
	if done := tr.Publishing(t.Context(), "t", []storage.Event{event()}); done != nil {
		t.Error("an event without a context is followed")
	}
	events := []storage.Event{event(), event(with), event(with)}
	tr.Publishing(t.Context(), "t", events)([]storage.Appended{{}, {Partition: "p", Offset: 3}, {Err: storage.ErrUnavailable}}, nil)
	tr.Publishing(t.Context(), "t", events)(nil, storage.ErrReadOnly)
	var got []string
	for _, s := range rec.Ended() {
		got = append(got, s.Status().Description)
	}
	want := fmt.Sprint([]string{"", storage.ErrUnavailable.Error(), storage.ErrReadOnly.Error(), storage.ErrReadOnly.Error()})
	if fmt.Sprint(got) != want {
		t.Errorf("statuses: %q, want %s", got, want)
	}
}

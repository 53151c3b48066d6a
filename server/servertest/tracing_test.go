package servertest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// The trace context of an event.
const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	parentID    = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

// startTraced runs an instance whose spans are recorded.
func startTraced(t *testing.T) (*Instance, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	in := StartParts(t, Options{}, func(p *server.Parts) { p.Spans = provider })
	<-in.Server.Ready()
	return in, rec
}

func publishTraced(t *testing.T, in *Instance, topic string, parents ...string) {
	t.Helper()
	req := &pb.PublishRequest{Topic: topic}
	for _, p := range parents {
		f := &pb.EventMeshFrame{Attributes: map[string]string{"tracestate": "x=y"}}
		if p != "" {
			f.Attributes["traceparent"] = p
		}
		req.Events = append(req.Events, f)
	}
	res, err := in.Mesh().Publish(context.Background(), req)
	if err != nil || res.GetStatus().GetCode() != 0 {
		t.Fatalf("publish: %v, %v", err, res.GetStatus())
	}
}

// spans are those that have ended of the trace, by name, in order of their end.
func spans(rec *tracetest.SpanRecorder) (list []sdktrace.ReadOnlySpan) {
	for _, s := range rec.Ended() {
		if s.SpanContext().TraceID().String() == traceID {
			list = append(list, s)
		}
	}
	return list
}

func names(list []sdktrace.ReadOnlySpan) (out []string) {
	for _, s := range list {
		out = append(out, s.Name())
	}
	return out
}

// value is an attribute of a span.
func value(s sdktrace.ReadOnlySpan, key string) string {
	set := attribute.NewSet(s.Attributes()...)
	v, _ := set.Value(attribute.Key(key))
	return v.String()
}

// TestTraceOfAnEvent: publish, deliver and ack are spans of the trace that the
// event carries, and what it carries reaches the client as it was.
func TestTraceOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, rec := startTraced(t)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		publishTraced(t, in, "t", "", traceparent, "rubbish", "00-"+traceID+"-"+parentID+"-00")
		got := s.Take(4)
		if a := got[1].Frame.GetAttributes(); a["traceparent"] != traceparent || a["tracestate"] != "x=y" {
			t.Errorf("the client sees %v", a)
		}
		<-time.After(time.Second)
		s.AckDurable(got...)
		synctest.Wait()
		list := spans(rec)
		if n := names(list); !slices.Equal(n, []string{"publish t", "deliver t", "ack"}) {
			t.Fatalf("spans: %v", n)
		}
		for _, sp := range list {
			if sp.Name() == "ack" {
				if sp.Parent().SpanID() != list[1].SpanContext().SpanID() {
					t.Errorf("the ack's parent is %v", sp.Parent().SpanID())
				}
			} else if sp.Parent().SpanID().String() != parentID || sp.SpanContext().TraceState().Get("x") != "y" || value(sp, "messaging.destination.name") != "t" ||
				value(sp, "messaging.destination.partition.id") != "0" || value(sp, "ackmesh.offset") != "1" {
				t.Errorf("%s: parent %v, %v", sp.Name(), sp.Parent().SpanID(), sp.Attributes())
			}
			if sp.Status().Code == otelcodes.Error {
				t.Errorf("%s: %v", sp.Name(), sp.Status())
			}
		}
		if d := list[1]; d.EndTime().Sub(d.StartTime()) < time.Second || value(d, "ackmesh.attempt") != "1" || value(d, "messaging.client.id") != "c" {
			t.Errorf("delivered for %v: %v", d.EndTime().Sub(d.StartTime()), d.Attributes())
		}
		calls := 0
		for _, sp := range rec.Ended() {
			if sp.Name() == "ackmesh.v1.EventMesh/Publish" {
				calls++
				if links := list[0].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != sp.SpanContext().SpanID() {
					t.Errorf("links of the publishing: %v", links)
				}
			} else if strings.Contains(sp.Name(), "/") {
				t.Errorf("a span of %s", sp.Name())
			}
		}
		if calls != 1 {
			t.Errorf("%d spans of calls", calls)
		}
	})
}

// TestTraceOfFailures: a delivery that is nacked, times out, or comes back from a
// stream that ended, has a span that says so; the next one has another.
func TestTraceOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, rec := startTraced(t)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		publishTraced(t, in, "t", traceparent)
		s.Nack(s.Take(1)...)
		s.Take(1)
		<-time.After(31 * time.Second)
		s.Take(1)
		s.Break()
		<-time.After(time.Second)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		s.AckDurable(s.Take(1)...)
		publishTraced(t, in, "t", traceparent)
		s.Take(1)
		in.Stop()

		var fates []string
		for _, sp := range spans(rec) {
			if strings.HasPrefix(sp.Name(), "publish") {
				continue
			}
			fate := value(sp, "ackmesh.fate")
			fates = append(fates, sp.Name()+" "+value(sp, "ackmesh.attempt")+" "+fate)
			if failed := sp.Status().Code == otelcodes.Error; failed != (fate != "ack" && fate != "durable") {
				t.Errorf("%s: status %v", fate, sp.Status())
			}
		}
		want := []string{"deliver t 1 nacked", "deliver t 2 timeout", "deliver t 3 returned", "deliver t 4 ack", "ack  durable", "deliver t 1 returned"}
		if !slices.Equal(fates, want) {
			t.Errorf("spans:\n%q, want\n%q", fates, want)
		}
		if started, ended := len(rec.Started()), len(rec.Ended()); started != ended {
			t.Errorf("%d spans began, %d ended", started, ended)
		}
	})
}

package servertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// benchTokens makes an instance of a benchmark take tokens.
func benchTokens(b *testing.B) func(*server.Config) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "tokens.yaml")
	text := "tokens:\n"
	for i := range 100 {
		text += token(fmt.Sprint("t", i), `roles: [publish, subscribe], topics: ["x", "bench*"], clients: ["c*"]`)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return func(c *server.Config) { c.Auth.TokensFile = path }
}

// BenchmarkPublish is one event a call, and one event a message of a stream with
// 64 messages under way: what tokens and tracing add to the least there is.
func BenchmarkPublish(b *testing.B) {
	variants := []struct {
		name           string
		tokens, traced bool
		attributes     map[string]string
	}{
		{"open", false, false, nil},
		{"tokens", true, false, nil},
		{"traced, events without a context", false, true, nil},
		{"traced, events with one", false, true, map[string]string{"traceparent": traceparent}},
	}
	for _, v := range variants {
		start := func(b *testing.B) pb.EventMeshClient {
			o := Options{}
			if v.tokens {
				o.Config = benchTokens(b)
			}
			in := StartParts(b, o, func(p *server.Parts) {
				if v.traced {
					p.Spans = sdktrace.NewTracerProvider()
				}
			})
			<-in.Server.Ready()
			return meshAs(in, "t50")
		}
		req := &pb.PublishRequest{Topic: "bench", Events: []*pb.EventMeshFrame{{Attributes: v.attributes, Data: make([]byte, 200)}}}
		b.Run("unary/"+v.name, func(b *testing.B) { publishUnary(b, start(b), req) })
		b.Run("stream/"+v.name, func(b *testing.B) { publishStream(b, start(b), req) })
	}
}

func publishUnary(b *testing.B, mesh pb.EventMeshClient, req *pb.PublishRequest) {
	b.ReportAllocs()
	for b.Loop() {
		if res, err := mesh.Publish(context.Background(), req); err != nil || res.GetStatus().GetCode() != 0 {
			b.Fatal(err, res)
		}
	}
}

func publishStream(b *testing.B, mesh pb.EventMeshClient, req *pb.PublishRequest) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := mesh.PublishStream(ctx)
	if err != nil {
		b.Fatal(err)
	}
	answer := func() {
		if res, err := stream.Recv(); err != nil || res.GetStatus().GetCode() != 0 {
			b.Fatal(err, res)
		}
	}
	b.ReportAllocs()
	under := 0
	for b.Loop() {
		if err := stream.Send(req); err != nil {
			b.Fatal(err)
		}
		if under++; under > 64 {
			answer()
			under--
		}
	}
	for ; under > 0; under-- {
		answer()
	}
}

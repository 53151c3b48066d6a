package ackmesh

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func TestBadConfigs(t *testing.T) {
	for name, cfg := range map[string]Config{
		"Addresses":             {},
		"ClientID":              {ClientID: "a\x00"},
		"256 bytes":             {ClientID: strings.Repeat("x", 256)},
		"BackoffMax":            {BackoffMin: time.Minute, BackoffMax: time.Second},
		"MaxMessageBytes":       {MaxMessageBytes: 1 << 30},
		"timeout":               {OpenTimeout: -1},
		"192.0.2.1:7460":        {Addresses: []string{"127.0.0.1:1", "192.0.2.1:7460"}, Token: "t"},
		"MaxBatchEvents":        {Publish: PublishConfig{MaxBatchEvents: 10_001}},
		"MaxBatchBytes":         {Publish: PublishConfig{MaxBatchBytes: 1}},
		"MaxInFlightBytes":      {Publish: PublishConfig{MaxInFlightBytes: -1}},
		"PublishConfig.Timeout": {Publish: PublishConfig{Timeout: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			if cfg.Addresses == nil && name != "Addresses" {
				cfg.Addresses = []string{"127.0.0.1:7460"}
			}
			_, err := New(cfg)
			contains(t, err, name)
		})
	}
}

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:7460": true, "localhost:1": true, "[::1]:7460": true, "dns:///localhost:1": true,
		"unix:///tmp/x": true, "192.0.2.1:7460": false, "example.com:7460": false,
		"passthrough:///example.com:1": false, "localhost.example.com:1": false, "": false,
	} {
		if got := isLocal(address); got != want {
			t.Errorf("isLocal(%q) = %v", address, got)
		}
	}
	for _, cfg := range []Config{{Token: "t", TLS: &tls.Config{}}, {Token: "t", AllowPlaintextToken: true}, {}} {
		if err := cfg.checkToken("192.0.2.1:7460"); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestToken: the token goes with every call, also where an instance recommends an
// address at which it could be read: the one that was asked is used instead.
func TestToken(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	note := func(ctx context.Context) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen = append(seen, strings.Join(md.Get("authorization"), ","))
	}
	f := &fake{recommend: func(*pb.RecommendRequest) (*pb.RecommendResponse, error) {
		return &pb.RecommendResponse{InstanceUrl: "192.0.2.1:7460"}, nil
	}}
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			note(ctx)
			return h(ctx, r)
		}),
		grpc.StreamInterceptor(func(s any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			note(ss.Context())
			return h(s, ss)
		}))
	pb.RegisterSessionServer(srv, f)
	pb.RegisterEventMeshServer(srv, f)
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(lis) }()
	defer func() { srv.Stop(); <-served }()
	fail := errors.New("no token today")
	var sourceErr error
	c, err := Dial(t.Context(), Config{Addresses: []string{lis.Addr().String()}, TokenSource: func(context.Context) (string, error) {
		return "secret", sourceErr
	}, Publish: PublishConfig{Timeout: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), "orders", NewEvent("a", nil)); err != nil {
		t.Fatal(err)
	}
	closeClient(t, c)
	if len(seen) < 3 {
		t.Errorf("%d calls seen", len(seen))
	}
	for _, s := range seen {
		if s != "Bearer secret" {
			t.Errorf("authorization %q", s)
		}
	}
	sourceErr = fail
	_, err = Dial(t.Context(), Config{Addresses: []string{lis.Addr().String()}, TokenSource: func(context.Context) (string, error) { return "", fail }})
	contains(t, err, "no token today")
}

func TestDialNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(nil, "nobody")
		_, err := Dial(t.Context(), c.cfg)
		if status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		contains(t, err, "nobody")
	})
}

func TestBackoff(t *testing.T) {
	for _, r := range []float64{0, 0.999999} {
		b := backoff{min: 100 * time.Millisecond, max: 10 * time.Second, rand: func() float64 { return r }}
		want := 100 * time.Millisecond
		for i := range 100 {
			got := b.next()
			if got < want/2 || got > want {
				t.Errorf("pause %d is %v, want %v to %v", i, got, want/2, want)
			}
			want = min(2*want, 10*time.Second)
		}
		b.reset()
		if got := b.next(); got > 100*time.Millisecond {
			t.Errorf("after reset %v", got)
		}
	}
}

func TestBufferPool(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 1 << 20, 1<<24 + 1} {
		b := pool.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d, got %d", n, len(*b))
		}
		pool.Put(b)
	}
	small := make([]byte, 3)
	pool.Put(&small) // too small for any tier
	if b := pool.Get(300); cap(*b) < 300 {
		t.Errorf("capacity %d", cap(*b))
	}
}

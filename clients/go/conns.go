package ackmesh

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// windowBytes is the static flow-control window of streams and connections:
	// what is in flight is bounded by the mesh's own windows.
	windowBytes = 4 << 20
	// readBuffer is how much is read from a connection at once: several messages of
	// who is behind. It takes a quarter off what receiving them costs.
	readBuffer       = 128 << 10
	keepaliveTimeout = 20 * time.Second
	// maxOtherBytes is room for messages that are not events, such as an Opened with
	// the positions of thousands of partitions.
	maxOtherBytes = 64 << 20
)

// conns keeps one connection for each address, as long as someone uses it.
type conns struct {
	options []grpc.DialOption
	mu      sync.Mutex
	open    map[string]*conn
	closed  bool
}

// conn is a connection and who uses it; all fields but ClientConn are under
// conns.mu.
type conn struct {
	*grpc.ClientConn
	owner   *conns
	address string
	users   int
}

func newConns(cfg *Config) *conns {
	return &conns{options: dialOptions(cfg), open: make(map[string]*conn)}
}

func dialOptions(cfg *Config) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if cfg.TLS != nil {
		creds = credentials.NewTLS(cfg.TLS.Clone())
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(readBuffer),
		experimental.WithBufferPool(pool),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("ackmesh-go"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.MaxMessageBytes + maxOtherBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: cfg.BackoffMin, Multiplier: 2, Jitter: 0.2, MaxDelay: cfg.BackoffMax},
			MinConnectTimeout: cfg.ConnectTimeout,
		}),
	}
	if cfg.Keepalive > 0 {
		opts = append(opts, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: cfg.Keepalive, Timeout: keepaliveTimeout}))
	}
	if cfg.hasToken() {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{cfg.Token, cfg.TokenSource}))
	}
	return append(opts, cfg.DialOptions...)
}

// bearer puts the token on every call. That it does not leave in plain text by
// mistake is checked before an address is dialled.
type bearer struct {
	token  string
	source func(context.Context) (string, error)
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token := b.token
	if b.source != nil {
		var err error
		if token, err = b.source(ctx); err != nil {
			return nil, sourceError(err)
		}
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// sourceError is what a call fails with that got no token. gRPC would make
// UNAUTHENTICATED of an error without a status, which is final.
func sourceError(err error) error {
	if _, ok := status.FromError(err); ok {
		return fmt.Errorf("ackmesh: Config.TokenSource: %w", err)
	}
	return status.Errorf(codes.Unavailable, "ackmesh: Config.TokenSource: %v", err)
}

func (bearer) RequireTransportSecurity() bool { return false }

// get returns the connection to an address; it does not wait for it to stand. The
// caller releases it.
func (cs *conns) get(address string) (*conn, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, ErrClosed
	}
	c := cs.open[address]
	if c != nil && c.GetState() == connectivity.TransientFailure {
		// It would refuse calls until its own pause is over; a new one tries at
		// once. The pauses are made by whoever asks.
		delete(cs.open, address)
		c = nil
	}
	if c == nil {
		cc, err := grpc.NewClient(address, cs.options...)
		if err != nil {
			return nil, fmt.Errorf("ackmesh: address %q: %w", address, err)
		}
		c = &conn{ClientConn: cc, owner: cs, address: address}
		cs.open[address] = c
	}
	c.users++
	return c, nil
}

// release ends one use. The last one closes the connection.
func (c *conn) release() {
	if c.owner.leave(c) {
		_ = c.Close() // its only error says that it was closed before
	}
}

// leave counts a user less and reports whether it was the last.
func (cs *conns) leave(c *conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.users--
	if c.users > 0 {
		return false
	}
	if cs.open[c.address] == c {
		delete(cs.open, c.address)
	}
	return true
}

// close refuses further connections. Those in use are closed by their users.
func (cs *conns) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
}

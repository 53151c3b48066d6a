// Package session is a thin client of the gRPC protocol of RocketMQ 5
// (apache/rocketmq-apis v2), as its proxies speak it: routes, sends, receives,
// acks and changes of the invisible time, each with a deadline, each with the
// server's own answer for every entry.
//
// A proxy keeps the settings of a client in memory only. So each group has a
// Consumer, a client of its own with a telemetry stream: whenever that breaks,
// or the proxy has forgotten the client, the settings are sent again before
// anything is received. All of a Session goes over one connection, to one of
// the endpoints; when it breaks, the next one that answers is used.
//
// The proxies must act for all brokers, as they do in cluster mode; in local
// mode for the one that they are part of.
package session

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// Options of a Session. Endpoints are needed; the zero value of everything else
// is ready for production.
type Options struct {
	// Endpoints are the gRPC addresses, host:port, of the proxies. The first
	// one that answers is used; the order is shuffled, so that instances
	// spread.
	Endpoints []string
	// TLS, where not nil, secures the connection.
	TLS *tls.Config
	// AccessKey and SecretKey sign each call (HMAC-SHA1). Empty: unsigned.
	AccessKey, SecretKey string
	// Namespace is the namespace of topics and groups. Usually empty.
	Namespace string
	// RequestTimeout is how long a call may take, beside what it is asked to
	// wait. Default 5 s.
	RequestTimeout time.Duration
	// Heartbeat is how often each consumer tells that it lives: less than
	// the 120 s after which a proxy forgets it. Default 10 s.
	Heartbeat time.Duration
	// RouteAge is how old a route may be that is used. Default 10 s.
	RouteAge time.Duration
	// AbsentAfter is for how long proxies must say that a topic is not there
	// that was there, until it is believed: they say so of topics whose
	// brokers are down. Default 2 min.
	AbsentAfter time.Duration
	// Dial makes connections; for tests. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger takes warnings. Default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.RequestTimeout, 5 * time.Second},
		{&o.Heartbeat, 10 * time.Second},
		{&o.RouteAge, 10 * time.Second},
		{&o.AbsentAfter, 2 * time.Minute},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// ErrClosed: the session is closed.
var ErrClosed = errors.New("session is closed")

// Session is a connection to the proxies. All methods may be called
// concurrently.
type Session struct {
	o      Options
	conn   *grpc.ClientConn
	rpc    v2.MessagingServiceClient
	points *v2.Endpoints
	id     string // of this session, the beginning of its clients' ids
	serial atomic.Uint32

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	wg     sync.WaitGroup // calls and what runs beside them

	mu        sync.Mutex // guards what follows, and wg.Add against Close
	closed    bool
	routes    map[string]*routeEntry
	consumers map[*Consumer]struct{}
}

// Open prepares a session. It does not connect: calls do. Errors: settings that
// cannot be.
func Open(o Options) (*Session, error) {
	o = o.withDefaults()
	points, err := endpointsOf(o.Endpoints)
	if err != nil {
		return nil, err
	}
	var seed [6]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("no randomness for an id: %w", err)
	}
	s := &Session{
		o: o, points: points, id: "ackmesh@" + hex.EncodeToString(seed[:]),
		routes: map[string]*routeEntry{}, consumers: map[*Consumer]struct{}{},
	}
	if s.conn, err = o.connect(); err != nil {
		return nil, err
	}
	s.rpc = v2.NewMessagingServiceClient(s.conn)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// maxAnswer bounds what a proxy may send at once: 32 messages of 4 MiB come one
// by one, so one with its properties is enough.
const maxAnswer = 16 << 20

// connect makes the connection to whichever endpoint answers.
func (o Options) connect() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	list := manual.NewBuilderWithScheme("rocketmq")
	var state resolver.State
	for _, addr := range o.Endpoints {
		host, _, _ := net.SplitHostPort(addr) // endpointsOf has looked at it
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr, ServerName: host}}})
	}
	mrand.Shuffle(len(state.Endpoints), func(i, j int) {
		state.Endpoints[i], state.Endpoints[j] = state.Endpoints[j], state.Endpoints[i]
	})
	list.InitialState(state)
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithResolvers(list), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		// Heartbeats are answered more often than this while all is well, so
		// that the pings, which a proxy counts, are sent only when it is not.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}
	if o.Dial != nil {
		opts = append(opts, grpc.WithContextDialer(o.Dial))
	}
	conn, err := grpc.NewClient("rocketmq:///proxies", opts...)
	if err != nil {
		return nil, fmt.Errorf("connection to %q: %w", o.Endpoints, err)
	}
	return conn, nil
}

// endpointsOf is how the protocol writes addresses.
func endpointsOf(addrs []string) (*v2.Endpoints, error) {
	if len(addrs) == 0 {
		return nil, errors.New("no endpoints: give some as host:port")
	}
	e := &v2.Endpoints{Scheme: v2.AddressScheme_IPv4}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q is no host:port: %w", addr, err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("endpoint %q is no host:port with a port from 1 to 65535", addr)
		}
		switch ip, err := netip.ParseAddr(host); {
		case err != nil:
			e.Scheme = v2.AddressScheme_DOMAIN_NAME
		case ip.Unmap().Is6() && e.GetScheme() == v2.AddressScheme_IPv4:
			e.Scheme = v2.AddressScheme_IPv6
		}
		e.Addresses = append(e.Addresses, &v2.Address{Host: host, Port: int32(n)})
	}
	return e, nil
}

// Close ends calls under way and consumers, and waits for them. What was
// received and not acked comes again when its invisible time is over. A second
// Close returns nil.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close the connection to %q: %w", s.o.Endpoints, err)
	}
	return nil
}

// begin begins a call; where it returns nil, end must follow. The context ends
// with the given one, and with the session.
func (s *Session) begin(ctx context.Context) (inner context.Context, end func(), err error) {
	if !s.enter() {
		return nil, nil, ErrClosed
	}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return inner, func() {
		stop()
		cancel()
		s.wg.Done()
	}, nil
}

// enter counts a call or goroutine in, unless the session is closed.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// unary makes one call with the deadline of a request.
func (s *Session) unary(ctx context.Context, op, clientID string, f func(ctx context.Context) (*v2.Status, error)) error {
	inner, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	bounded, cancel := context.WithTimeout(s.signed(inner, clientID), s.o.RequestTimeout)
	defer cancel()
	status, err := f(bounded)
	if err != nil {
		return s.failed(ctx, op, err)
	}
	return refused(op, status)
}

// failed says why a call got no answer: the caller gave up, the session was
// closed, or what the transport says.
func (s *Session) failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return transportError(op, err)
}

func (s *Session) resource(name string) *v2.Resource {
	return &v2.Resource{ResourceNamespace: s.o.Namespace, Name: name}
}

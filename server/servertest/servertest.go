// Package servertest runs whole instances inside tests, over in-memory
// connections, so that they also run in a testing/synctest bubble.
package servertest

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	memstore "github.com/ackmesh/ackmesh/offsetstore/memory"
	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// Options of an instance. Zero values mean a memory log and a memory store.
type Options struct {
	// Config changes the settings.
	Config func(*server.Config)
	// Backend and Store outlive instances, so that a test can start another
	// instance on them: they are not closed.
	Backend storage.Backend
	Store   offsetstore.Store
	// Wrap wraps the backend.
	Wrap func(storage.Backend) storage.Backend
	// Pipe is how many bytes a connection holds in each direction. Default 1 MiB.
	Pipe int
	// Log shows the server's log with the test's.
	Log bool
	// Real uses what Config says: an embedded log in Config.Data.
	Real bool
}

// Instance is a running server.
type Instance struct {
	t       testing.TB
	Server  *server.Server
	lis     *bufconn.Listener
	admin   *bufconn.Listener
	cancel  context.CancelFunc
	done    chan error
	stopped bool
	token   string // of operators
}

// AdminToken is the token of operators unless a test says otherwise.
const AdminToken = "the-token-of-operators-in-tests"

// Config is what an instance runs with unless a test says otherwise.
func Config() server.Config {
	c := server.Defaults()
	c.Storage = server.StorageMemory
	c.Topics.Partitions = 1
	c.InstanceID = "test"
	c.Keepalive.Time = time.Hour
	c.Auth.AdminToken = AdminToken
	c.Limits.ResetsPerSecond = 0
	return c
}

// Embedded makes Log an embedded log on disk instead of one in memory. It is
// for tests that run one after another.
var Embedded bool

// Log is a log that lasts as long as the test.
func Log(t testing.TB, partitions int) storage.Backend {
	b := newLog(t, partitions)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func newLog(t testing.TB, partitions int) storage.Backend {
	if !Embedded {
		return memory.New(memory.Options{Partitions: partitions})
	}
	b, err := embedded.Open(t.TempDir(), embedded.Options{Partitions: partitions, SegmentSize: 1 << 20, MaxBytes: -1, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Store is an offset store in memory that lasts as long as the test.
func Store(t testing.TB) *memstore.Store {
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Lasting is a log and a store that outlive the instances of a test.
func Lasting(t testing.TB) Options {
	return Options{Backend: Log(t, 1), Store: Store(t)}
}

// Start runs an instance and waits until it serves. It is stopped with the test.
func Start(t testing.TB, o Options) *Instance {
	t.Helper()
	in := StartParts(t, o, nil)
	select {
	case <-in.Server.Ready():
	case err := <-in.done:
		in.stopped = true
		t.Fatalf("the instance did not start: %v", err)
	}
	return in
}

// StartParts runs an instance, its parts changed by edit, and does not wait.
func StartParts(t testing.TB, o Options, edit func(*server.Parts)) *Instance {
	t.Helper()
	cfg := Config()
	if o.Config != nil {
		o.Config(&cfg)
	}
	pipe := cmp.Or(o.Pipe, 1<<20)
	in := &Instance{t: t, token: string(cfg.Auth.AdminToken), lis: bufconn.Listen(pipe), admin: bufconn.Listen(pipe), done: make(chan error, 1)}
	parts := server.Parts{Listener: in.lis, AdminListener: in.admin, NoHTTP: true, Wrap: o.Wrap}
	if !o.Real {
		backend, store := o.Backend, o.Store
		if backend == nil {
			backend = Log(t, cfg.Topics.Partitions)
		}
		if store == nil {
			store = Store(t)
		}
		parts.Backend = func() (storage.Backend, error) { return lent{backend}, nil }
		parts.Store = func() (offsetstore.Store, error) { return lentStore{store}, nil }
	}
	if edit != nil {
		edit(&parts)
	}
	var logger *slog.Logger
	if o.Log {
		logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	if in.Server, err = server.NewWithParts(cfg, logger, parts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.cancel = cancel
	go func() { in.done <- in.Server.Run(ctx) }()
	t.Cleanup(in.Stop)
	return in
}

// Stop ends the instance in order and waits for it.
func (in *Instance) Stop() {
	in.t.Helper()
	if in.stopped {
		return
	}
	in.stopped = true
	in.cancel()
	if err := <-in.done; err != nil {
		in.t.Errorf("the instance did not stop in order: %v", err)
	}
}

// Dial connects to the data listener. The connection is closed with the test.
func (in *Instance) Dial(opts ...grpc.DialOption) *grpc.ClientConn { return in.dial(in.lis, opts) }

// DialAs is Dial with a token.
func (in *Instance) DialAs(token string) *grpc.ClientConn { return in.Dial(show(token)...) }

// DialAdmin connects to the admin listener with the token of operators.
func (in *Instance) DialAdmin(opts ...grpc.DialOption) *grpc.ClientConn {
	return in.dial(in.admin, append(show(in.token), opts...))
}

// DialAdminAs connects to the admin listener with another token, or with none.
func (in *Instance) DialAdminAs(token string) *grpc.ClientConn { return in.dial(in.admin, show(token)) }

// show shows a token with each call; empty: none.
func show(token string) []grpc.DialOption {
	if token == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(auth.Bearer{Token: token, Plaintext: true})}
}

// Dialer dials the data listener, for clients that take one.
func (in *Instance) Dialer() func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) { return in.lis.DialContext(ctx) }
}

func (in *Instance) dial(l *bufconn.Listener, opts []grpc.DialOption) *grpc.ClientConn {
	in.t.Helper()
	conn, err := grpc.NewClient("passthrough:///bufconn", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A timer that is set again by its own function can crash Go 1.26.8 in a
		// bubble of synctest with the race detector (runtime.(*timer).modify).
		grpc.WithIdleTimeout(0),
	}, opts...)...)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Mesh is a client of the data service on a connection of its own.
func (in *Instance) Mesh() pb.EventMeshClient { return pb.NewEventMeshClient(in.Dial()) }

// Admin is a client of the admin service.
func (in *Instance) Admin() pb.AdminClient { return pb.NewAdminClient(in.DialAdmin()) }

// Lend is b for an instance that does not close it.
func Lend(b storage.Backend) storage.Backend { return lent{b} }

// LendStore is s for an instance that does not close it.
func LendStore(s offsetstore.Store) offsetstore.Store { return lentStore{s} }

// lent is a backend that its user does not close.
type lent struct{ storage.Backend }

func (l lent) Close() error            { return nil }
func (l lent) Unwrap() storage.Backend { return l.Backend }

// lentStore is a store that its user does not close.
type lentStore struct{ offsetstore.Store }

func (lentStore) Close() error { return nil }

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(string(b))
	return len(b), nil
}

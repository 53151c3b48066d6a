// Package process runs the real command as processes of their own, for tests
// that kill them. The command is built once, with the race detector.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ackmesh/ackmesh/server/auth"
)

// Patience is how long a test waits for what a process must do.
const Patience = 60 * time.Second

// binary is where Main has built the command.
var binary string

// Main builds the command, runs the tests and returns their exit code, for the
// TestMain of a package.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ackmesh-process-")
	if err == nil {
		binary = filepath.Join(dir, "ackmesh")
		err = build(binary)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // nowhere else to say it
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func build(to string) error {
	cmd := exec.Command("go", "build", "-race", "-o", to, "github.com/ackmesh/ackmesh/cmd/ackmesh")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the command with the race detector (it needs a C compiler): %w\n%s", err, out)
	}
	return nil
}

// Binary is the path of the command.
func Binary() string { return binary }

// Server is a server in a process of its own. Its addresses stay the same over
// its lives.
type Server struct {
	t                 testing.TB
	Listen, AdminAddr string
	Data              string
	args              []string
	cmd               *exec.Cmd
	log               *log
	ended             chan struct{}
}

// New is a server on a data directory that was not started yet. It is killed
// with the test if it runs then.
func New(t testing.TB, data string, args ...string) *Server {
	t.Helper()
	host := loopback()
	s := &Server{t: t, Listen: free(t, host), AdminAddr: free(t, host), Data: data}
	s.args = append([]string{
		"serve", "--listen", s.Listen, "--admin-listen", s.AdminAddr,
		"--http-listen", host + ":0", "--data", data,
	}, args...)
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill()
		}
	})
	return s
}

// Start is New and Up.
func Start(t testing.TB, data string, args ...string) *Server {
	t.Helper()
	s := New(t, data, args...)
	s.Up()
	return s
}

// loopback is a loopback address that is no other process's, and that no
// outgoing connection gets a port of.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&0x7f, pid>>8&0xff, 1+pid&0xff%254)
}

// Ports of servers are below those that the system gives to whoever asks for any,
// and above those of brokers in tests: a port is still free when the next life of
// its server begins.
const (
	firstPort = 30_000
	endPort   = 32_768
)

// ports counts those that were given away: none is given twice.
var ports atomic.Int32

// free is an address whose port is free and stays so.
func free(t testing.TB, host string) string {
	t.Helper()
	for {
		port := firstPort + int(ports.Add(1)) - 1
		if port >= endPort {
			t.Fatalf("no port of %s is left", host)
		}
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close() // nothing was accepted
			return addr
		}
	}
}

// Spawn starts the process and does not wait until it serves.
func (s *Server) Spawn() {
	s.t.Helper()
	s.SpawnAs(exec.Command(binary, s.args...))
}

// Args are those of the command, without its name.
func (s *Server) Args() []string { return s.args }

// SpawnAs is Spawn with a command of the caller's that runs the server's.
func (s *Server) SpawnAs(cmd *exec.Cmd) {
	s.t.Helper()
	s.cmd, s.log, s.ended = cmd, &log{}, make(chan struct{})
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func(ended chan struct{}) {
		_ = cmd.Wait() // ProcessState says how it ended
		close(ended)
	}(s.ended)
}

// Up starts the process and waits until it serves.
func (s *Server) Up() {
	s.t.Helper()
	s.Spawn()
	s.AwaitServing(Patience)
}

// AwaitServing waits for SERVING.
func (s *Server) AwaitServing(patience time.Duration) {
	s.t.Helper()
	s.AwaitHealth(healthpb.HealthCheckResponse_SERVING, patience)
}

// AwaitHealth waits for a status of the health service.
func (s *Server) AwaitHealth(want healthpb.HealthCheckResponse_ServingStatus, patience time.Duration) {
	s.t.Helper()
	if err := s.awaitHealth(want, patience); err != nil {
		s.t.Fatal(err)
	}
}

// TryServing is AwaitServing that returns why it does not serve.
func (s *Server) TryServing(patience time.Duration) error {
	return s.awaitHealth(healthpb.HealthCheckResponse_SERVING, patience)
}

func (s *Server) awaitHealth(want healthpb.HealthCheckResponse_ServingStatus, patience time.Duration) error {
	conn := s.dial(s.Listen)
	defer func() { _ = conn.Close() }() // all answers are in
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	ended := s.ended // a later life has another
	go func() {      // a server that has ended is not waited for
		select {
		case <-ended:
			cancel()
		case <-stop:
		}
	}()
	if err := awaitHealth(ctx, conn, want); err != nil {
		return fmt.Errorf("the server is not %v: %w\n%s", want, err, s.Log())
	}
	return nil
}

func awaitHealth(ctx context.Context, conn *grpc.ClientConn, want healthpb.HealthCheckResponse_ServingStatus) error {
	for {
		watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		for err == nil {
			var answer *healthpb.HealthCheckResponse
			if answer, err = watch.Recv(); err == nil && answer.GetStatus() == want {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// Dial connects to the server, and again to each later life of it. The
// connection is closed with the test.
func (s *Server) Dial() *grpc.ClientConn {
	s.t.Helper()
	conn := s.dial(s.Listen)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// DialAdmin connects to the admin listener with the token of the data directory.
func (s *Server) DialAdmin() *grpc.ClientConn {
	s.t.Helper()
	conn := s.dial(s.AdminAddr, grpc.WithPerRPCCredentials(adminToken{s.Data}))
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// adminToken shows the admin token of a data directory, as it is at each call: the
// server makes it at its first start.
type adminToken struct{ data string }

// GetRequestMetadata reads the token.
func (t adminToken) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	token, err := auth.ReadAdminToken(t.data)
	if err != nil {
		return nil, err
	}
	return auth.Bearer{Token: token}.GetRequestMetadata(ctx, uri...)
}

// RequireTransportSecurity is false: it is a loopback address.
func (adminToken) RequireTransportSecurity() bool { return false }

func (s *Server) dial(addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))...)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// Kill is kill -9. It waits for the end, and sees that the server did not go
// wrong before.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("kill: %v", err)
	}
	<-s.ended
	s.Check()
}

// Term is SIGTERM: an orderly end, which must take at most patience.
func (s *Server) Term(patience time.Duration) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("SIGTERM: %v\n%s", err, s.Log())
	}
	if code := s.Wait(patience); code != 0 {
		s.t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, s.Log())
	}
}

// Wait waits for the end of the process and returns its exit code; -1: a
// signal ended it.
func (s *Server) Wait(patience time.Duration) int {
	s.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		s.t.Fatalf("the server has not ended within %v:\n%s", patience, s.Stuck())
	}
	s.Check()
	return s.cmd.ProcessState.ExitCode()
}

// Stuck ends a server that makes no progress and returns what it has printed,
// with the stacks of its goroutines.
func (s *Server) Stuck() string {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		s.t.Logf("SIGQUIT: %v", err)
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
	}
	return s.Log()
}

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// wrong is what no server may ever print.
var wrong = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: |SIGBUS|panic in a call`)

// Check sees that the server has not printed what none may.
func (s *Server) Check() {
	s.t.Helper()
	if text := s.Log(); wrong.MatchString(text) {
		s.t.Errorf("the server went wrong:\n%s", text)
	}
}

// Log is what the present life of the process has printed.
func (s *Server) Log() string { return s.log.String() }

// Logged tells whether the present life has printed a text.
func (s *Server) Logged(text string) bool { return strings.Contains(s.Log(), text) }

// AwaitLogged is Logged of a text that is printed already, and may still be on its
// way here: what a server sends can arrive before what it has printed earlier.
func (s *Server) AwaitLogged(text string) bool {
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	for {
		more := s.log.more()
		if s.Logged(text) {
			return true
		}
		select {
		case <-more:
		case <-late.C:
			return false
		}
	}
}

// Process is the present life's.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// log may be read while it is written to.
type log struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	next chan struct{} // closed by the next write; nil: nobody waits for it
}

// more returns a channel that is closed by the next write.
func (b *log) more() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
	return b.buf.Write(p)
}

func (b *log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

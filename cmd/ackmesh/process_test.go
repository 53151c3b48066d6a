package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ackmesh/ackmesh/server"
)

// patience is how long a test waits for another process before it gives up.
const patience = 60 * time.Second

// process is a command of ours that runs as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    lockedBuffer
	errOut lockedBuffer
	ended  chan struct{}
}

// lockedBuffer may be read while it is written to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// spawn starts a command line. It is killed at the end of the test, if it still
// runs then.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	return spawnReading(t, nil, args...)
}

// spawnReading is spawn with a standard input; nil: an empty one.
func spawnReading(t *testing.T, in *os.File, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = []string{runMain + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
	if in != nil {
		p.cmd.Stdin = in
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9, and waits.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended before
	<-p.ended
}

// signal sends a signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v\n%s", s, err, p.errOut.String())
	}
}

// wait waits for the end and returns what was printed.
func (p *process) wait() output {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v has not ended:\n%s\n%s", p.cmd.Args[1:], p.out.String(), p.errOut.String())
	}
	return output{p.out.String(), p.errOut.String(), p.cmd.ProcessState.ExitCode()}
}

// mesh is a server in a process of its own, on free ports.
type mesh struct {
	*process
	grpc, http, admin, data string
	args                    []string
	environ                 []string
}

// memoryToken is the admin token of servers in memory, which keep none.
const memoryToken = "the-admin-token-of-a-server-in-memory"

// startMesh starts a server on a data directory and waits until it serves.
func startMesh(t *testing.T, data string, args ...string) *mesh {
	t.Helper()
	m := &mesh{grpc: freeAddress(t), http: freeAddress(t), admin: freeAddress(t), data: data}
	m.args = append([]string{"serve", "--listen", m.grpc, "--http-listen", m.http, "--admin-listen", m.admin, "--data", data}, args...)
	m.environ = []string{envServer + "=" + m.grpc, envAdmin + "=" + m.admin, envName("data") + "=" + data}
	if slices.Contains(args, server.StorageMemory) {
		m.args = append(m.args, "--auth.admin-token", memoryToken)
		m.environ = append(m.environ, envAdminToken+"="+memoryToken)
	}
	m.restart(t)
	return m
}

// restart starts the server again after it has ended.
func (m *mesh) restart(t *testing.T) {
	t.Helper()
	p := spawn(t, m.args...)
	m.process = p
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}
	conn, err := grpc.NewClient(m.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var watching sync.WaitGroup
	watching.Go(func() { // there is no need to wait for a server that has ended
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	err = awaitServing(ctx, conn)
	cancel()
	watching.Wait()
	if err != nil {
		t.Fatalf("the server does not serve: %v\n%s", err, p.errOut.String())
	}
}

// awaitServing waits for SERVING. A server that is not there yet is waited for.
func awaitServing(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		for err == nil {
			var answer *healthpb.HealthCheckResponse
			if answer, err = watch.Recv(); answer.GetStatus() == healthpb.HealthCheckResponse_SERVING {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// freeAddress returns a loopback address whose port is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run runs a command against the server, within the test.
func (m *mesh) run(t *testing.T, args ...string) output {
	t.Helper()
	return call(t, func(a *app) { a.environ = m.environ }, args...)
}

// flights is the data set of the tour.
func flights(t *testing.T) (path string, lines []string) {
	t.Helper()
	path = filepath.Join("..", "..", "testdata", "flights.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, strings.Split(strings.TrimSpace(string(text)), "\n")
}

// printed waits until standard output has the text.
func (p *process) printed(text string) {
	p.t.Helper()
	p.awaitText(&p.out, text)
}

// told waits until standard error has the text.
func (p *process) told(text string) {
	p.t.Helper()
	p.awaitText(&p.errOut, text)
}

func (p *process) awaitText(in *lockedBuffer, text string) {
	p.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(in.String(), text) {
		select {
		case <-tick.C:
		case <-p.ended:
			p.t.Fatalf("it has ended:\n%s", p.errOut.String())
		case <-deadline:
			p.t.Fatalf("it does not print %q:\n%s\n%s", text, p.out.String(), p.errOut.String())
		}
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ackmesh/ackmesh/server/auth"
)

// endpoint is what a load speaks to.
type endpoint struct {
	address, admin string
	token          string // of operators
	dataToken      string // of clients; empty: they need none
	pid            int    // 0: it is no process of its own
	end            func() error
}

// process is a server process.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan error
}

const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second
)

// errInOrder: a server ended as if it had been asked to.
var errInOrder = errors.New("it ended in order, unasked")

// start starts a server. The signal of dieWithParent comes when the thread ends
// that has started the process, so the waiting goroutine keeps its thread.
func start(cmd *exec.Cmd) (*process, error) {
	s := &process{cmd: cmd, output: &bytes.Buffer{}, ended: make(chan error, 1)}
	dieWithParent(cmd)
	cmd.Stdout, cmd.Stderr = s.output, s.output
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

func (s *process) pid() int { return s.cmd.Process.Pid }

// await waits until ready says so, the server ends, or startLimit is over.
func (s *process) await(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case end := <-s.ended:
			return fmt.Errorf("server ended: %w\n%s", cmp.Or(end, errInOrder), s.output)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("server not ready within %v: %w", startLimit, err), s.kill())
		}
	}
}

// stop ends the server in order, or else at once.
func (s *process) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("server has ended by itself: %w\n%s", err, s.output)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("server: %w\n%s", err, s.output)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("server did not stop within %v", stopLimit), s.kill())
	}
}

func (s *process) kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("server has ended by itself: %w\n%s", err, s.output)
	}
	if err := <-s.ended; err == nil {
		return errInOrder
	}
	return nil
}

// freeAddress is an address on loopback that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func freeAddresses(n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		var err error
		if list[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// startMesh starts Ackmesh with its own defaults; flags say which log it is to
// use. Guarded, it wants a token with every call.
func startMesh(command []string, data string, guarded bool, flags []string) (endpoint, error) {
	at, err := freeAddresses(3)
	if err != nil {
		return endpoint{}, err
	}
	args := append(command[1:len(command):len(command)], "--data", data,
		"--listen", at[0], "--http-listen", at[1], "--admin-listen", at[2])
	s := endpoint{address: at[0], admin: at[2]}
	if guarded {
		s.dataToken = rand.Text()
		file, err := writeTokens(data, s.dataToken)
		if err != nil {
			return s, err
		}
		args = append(args, "--auth.tokens-file", file)
	}
	p, err := start(exec.Command(command[0], append(args, flags...)...))
	if err != nil {
		return s, err
	}
	s.pid, s.end = p.pid(), p.stop
	cc, err := grpc.NewClient(at[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return s, errors.Join(err, p.kill())
	}
	defer func() { _ = cc.Close() }() // its only error says that it was closed before
	err = p.await(func(ctx context.Context) error {
		res, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("health is %v", res.GetStatus())
		}
		if err == nil {
			s.token, err = auth.ReadAdminToken(data)
		}
		return err
	})
	return s, err
}

// writeTokens writes a file beside the data directory that lets who has the token publish and subscribe.
func writeTokens(data, token string) (file string, err error) {
	file = data + "-tokens.json"
	list := map[string]any{"tokens": []any{map[string]any{
		"name": "bench", "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(token))), "roles": []string{"publish", "subscribe"},
		"topics": []string{"*"}, "clients": []string{"*"}, "shares": []string{"*"},
	}}}
	b, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, b, 0o600)
}

// startNATS starts a NATS server with JetStream and its own defaults. In the
// end it is killed: with 10,000 consumers it takes more than a minute to stop.
func startNATS(program, data string) (endpoint, error) {
	at, err := freeAddress()
	if err != nil {
		return endpoint{}, err
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return endpoint{}, err
	}
	p, err := start(exec.Command(program, "-a", host, "-p", port, "-js", "-sd", filepath.Join(data, "js")))
	if err != nil {
		return endpoint{}, err
	}
	s := endpoint{address: at, pid: p.pid(), end: p.kill}
	return s, p.await(func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

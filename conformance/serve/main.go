// Command serve runs a command beside a server of its own: one real process of
// ackmesh on the embedded log, with topics of one partition, in a directory that
// goes with it.
//
//	go run ./conformance/serve -- make something
//
// The command finds the server by its environment: ACKMESH_GRPC and ACKMESH_HTTP
// are host:port, ACKMESH_CONTROL is a URL: POST /crash there kills the server
// with SIGKILL, starts it again on what it left, and answers when it is ready.
// The exit code is the command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long the server may take to be ready.
const patience = time.Minute

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	code, err := run(args)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "conformance/serve:", err) // nowhere else to say it
		code = 1
	}
	os.Exit(code)
}

// run builds the server, starts it, runs the command, and ends the server.
func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("name the command to run beside the server")
	}
	dir, err := os.MkdirTemp("", "ackmesh-conformance-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	s, err := newServer(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	control, err := s.control()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "ACKMESH_GRPC="+s.grpc, "ACKMESH_HTTP="+s.http, "ACKMESH_CONTROL="+control)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	} else if err != nil {
		return 0, fmt.Errorf("%s: %w", args[0], err)
	}
	return 0, nil
}

// server is a process that can be killed and started again at the same addresses.
type server struct {
	ctx              context.Context
	dir              string
	grpc, http, admn string

	mu  sync.Mutex
	cmd *exec.Cmd
}

func newServer(ctx context.Context, dir string) (*server, error) {
	build := exec.CommandContext(ctx, "go", "build", "-race", "-o", filepath.Join(dir, "ackmesh"), "github.com/ackmesh/ackmesh/cmd/ackmesh")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the server: %w\n%s", err, out)
	}
	s := &server{ctx: ctx, dir: dir}
	for _, addr := range []*string{&s.grpc, &s.http, &s.admn} {
		var err error
		if *addr, err = free(); err != nil {
			return nil, err
		}
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// free is an address that nobody listens on: of a loopback address of this
// process, so that no outgoing connection takes the port between two lives.
func free() (string, error) {
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16&0x7f, pid>>8&0xff, 1+pid&0xff%254))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts the process and waits until it is ready.
func (s *server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	s.cmd = exec.Command(filepath.Join(s.dir, "ackmesh"), "serve", "--data", filepath.Join(s.dir, "data"),
		"--listen", s.grpc, "--http-listen", s.http, "--admin-listen", s.admn, "--topics.partitions", "1")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if s.ready(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w\n%s", ctx.Err(), s.logged())
		}
	}
}

func (s *server) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }() // read, or not wanted
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func (s *server) logged() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// crash kills the process and starts it again.
func (s *server) crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the server: %w\n%s", err, s.logged())
	}
	_ = s.cmd.Wait() // "signal: killed" is what was wanted
	return s.start()
}

// stop ends the process in order, and fails if it ended otherwise or raced.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the server: %w\n%s", err, s.logged())
	}
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ended: %w\n%s", err, s.logged())
	}
	if log := s.logged(); strings.Contains(log, "DATA RACE") {
		return fmt.Errorf("the server has a data race\n%s", log)
	}
	return nil
}

// control serves what scenarios may do to the server and returns its URL. It ends
// with this process.
func (s *server) control() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /crash", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.crash(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	go func() { _ = http.Serve(l, mux) }()
	return "http://" + l.Addr().String(), nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

// workshop holds the programs that take part and the directory they work in.
type workshop struct {
	opt     options
	dir     string
	systems []system
}

// system is a server, how it is started, and the load that speaks to it.
type system struct {
	name  string
	load  []string
	start func(data, profile string) (*process, error)
	// orderly: the server must end in order when asked to. Others are killed:
	// with 10,000 consumers JetStream takes more than a minute.
	orderly bool
}

// The systems' names in the report.
const (
	nameMesh = "ackmesh"
	nameNATS = "jetstream"
)

// newWorkshop builds the programs. close removes them.
func newWorkshop(ctx context.Context, o options) (*workshop, error) {
	dir, err := os.MkdirTemp(o.dir, "ackmesh-bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{opt: o, dir: dir}
	if err := w.build(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) } // it is a temporary directory

func (w *workshop) build(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mesh := filepath.Join(w.dir, "ackmesh")
	if err := build(ctx, root, mesh, "./cmd/ackmesh"); err != nil {
		return err
	}
	w.systems = []system{{name: nameMesh, orderly: true, load: []string{self, cmdLoad}, start: func(data, profile string) (*process, error) {
		if profile != "" {
			return startMesh([]string{self, cmdServe, profile}, data, w.opt.guarded)
		}
		return startMesh([]string{mesh, "serve"}, data, w.opt.guarded)
	}}}
	if !w.opt.nats {
		return nil
	}
	module := filepath.Join(root, "bench", "nats")
	natsLoad, natsServer := filepath.Join(w.dir, "nats-load"), filepath.Join(w.dir, "nats-server")
	if err := build(ctx, module, natsLoad, "."); err != nil {
		return err
	}
	if err := build(ctx, module, natsServer, "github.com/nats-io/nats-server/v2"); err != nil {
		return err
	}
	w.systems = append(w.systems, system{name: nameNATS, load: []string{natsLoad}, start: func(data, _ string) (*process, error) {
		return startNATS(natsServer, data)
	}})
	return nil
}

// moduleRoot is the folder of the module that the benchmark belongs to.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/ackmesh/ackmesh").Output()
	if err != nil {
		return "", fmt.Errorf("find the module (run the benchmark inside its repository): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func build(ctx context.Context, module, to, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// measure runs one scenario against a fresh server.
func (w *workshop) measure(ctx context.Context, sys system, sc scenario, round int) (load.Result, error) {
	var res load.Result
	data, err := os.MkdirTemp(w.dir, "data-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(data) }() // it goes with w.dir in any case
	profile := ""
	if w.opt.profile != "" && sys.name == nameMesh {
		profile = filepath.Join(w.opt.profile, fmt.Sprintf("%s-%d", sc.name, round+1))
	}
	srv, err := sys.start(data, profile)
	if err != nil {
		return res, err
	}
	spec := sc.spec(w.opt)
	if profile != "" {
		spec.Profile = profile
	}
	spec.Address, spec.Admin, spec.Token, spec.DataToken, spec.ServerPID = srv.address, srv.admin, srv.token, srv.dataToken, srv.pid()
	res, err = runLoad(ctx, sys.load, spec)
	end := srv.kill
	if sys.orderly {
		end = srv.stop
	}
	return res, errors.Join(err, end())
}

// loadLimit bounds one load, whatever hangs.
const loadLimit = 10 * time.Minute

// runLoad runs a load in a process of its own.
func runLoad(ctx context.Context, command []string, spec load.Spec) (load.Result, error) {
	var res load.Result
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	in, err := json.Marshal(spec)
	if err != nil {
		return res, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	dieWithParent(cmd)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		return res, fmt.Errorf("load: %w: %s", err, errs.String())
	}
	return res, json.Unmarshal(out.Bytes(), &res)
}

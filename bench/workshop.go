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
	"slices"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

// workshop holds the programs that take part and the directory they work in.
type workshop struct {
	opt     options
	root    string // of the repository
	dir     string
	self    string // this program
	systems []system
	broker  *broker // nil: each server has its own log
	loads   int     // how many were run
}

// system is a server, how it is started, and the load that speaks to it.
type system struct {
	name  string
	load  []string
	start func(data, profile string) (endpoint, error)
	kinds []string // of load that it takes part in; none: all
	// unconfirmed: nobody tells the system's clients when acks are for good.
	unconfirmed bool
}

// newWorkshop builds the programs and starts the broker. close stops and
// removes them.
func newWorkshop(ctx context.Context, o options) (*workshop, error) {
	dir, err := os.MkdirTemp(o.dir, "ackmesh-bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{opt: o, dir: dir}
	if w.root, err = moduleRoot(ctx); err == nil {
		if w.self, err = os.Executable(); err == nil {
			err = o.backend.gather(ctx, w)
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *workshop) close() (err error) {
	if w.broker != nil {
		err = w.broker.stop()
	}
	_ = os.RemoveAll(w.dir) // it is a temporary directory
	return err
}

// gatherEmbedded has Ackmesh with its own log, and a NATS server with its own.
func gatherEmbedded(ctx context.Context, w *workshop) error {
	if err := w.buildMesh(ctx, []string{"--storage", "embedded"}); err != nil {
		return err
	}
	if w.opt.alone {
		return nil
	}
	module := filepath.Join(w.root, "bench", "nats")
	natsLoad, natsServer := filepath.Join(w.dir, "nats-load"), filepath.Join(w.dir, "nats-server")
	if err := build(ctx, module, natsLoad, "."); err != nil {
		return err
	}
	if err := build(ctx, module, natsServer, "github.com/nats-io/nats-server/v2"); err != nil {
		return err
	}
	w.systems = append(w.systems, system{name: nameNATS, load: []string{natsLoad}, start: func(data, _ string) (endpoint, error) {
		return startNATS(natsServer, data)
	}})
	return nil
}

// buildMesh builds Ackmesh; flags tell it which log to use.
func (w *workshop) buildMesh(ctx context.Context, flags []string) error {
	mesh := filepath.Join(w.dir, "ackmesh")
	if err := build(ctx, w.root, mesh, "./cmd/ackmesh"); err != nil {
		return err
	}
	w.systems = append(w.systems, system{name: nameMesh, load: []string{w.self, cmdLoad}, start: func(data, profile string) (endpoint, error) {
		if profile != "" {
			return startMesh([]string{w.self, cmdServe, profile}, data, w.opt.guarded, flags)
		}
		return startMesh([]string{mesh, "serve"}, data, w.opt.guarded, flags)
	}})
	return nil
}

// addPeer adds a program that uses the broker without a server between them.
func (w *workshop) addPeer(name string, load []string, kinds ...string) {
	w.systems = append(w.systems, system{name: name, load: load, kinds: kinds, unconfirmed: true, start: func(_, _ string) (endpoint, error) {
		return endpoint{address: w.broker.address, end: func() error { return nil }}, nil
	}})
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

// turn lists the systems that take part in a scenario, in a round. On a broker
// that serves all, each round begins with another.
func (w *workshop) turn(sc scenario, round int) []system {
	var list []system
	for i := range w.systems {
		if w.broker != nil {
			i = (i + round) % len(w.systems)
		}
		if s := w.systems[i]; len(s.kinds) == 0 || slices.Contains(s.kinds, sc.kind) {
			list = append(list, s)
		}
	}
	return list
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
	spec := sc.spec(w.opt)
	spec.Profile, spec.Unconfirmed = profile, sys.unconfirmed
	done := func() error { return nil }
	if w.broker != nil {
		w.loads++
		spec.Run = fmt.Sprintf("-%d", w.loads)
		if done, err = w.broker.place(ctx, &spec); err != nil {
			return res, err
		}
	}
	srv, err := sys.start(data, profile)
	if err != nil {
		return res, errors.Join(err, done())
	}
	spec.Address, spec.Admin, spec.Token, spec.DataToken, spec.ServerPID = srv.address, srv.admin, srv.token, srv.dataToken, srv.pid
	res, err = runLoad(ctx, sys.load, spec)
	return res, errors.Join(err, srv.end(), done())
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

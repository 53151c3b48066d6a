package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ackmesh/ackmesh/bench/load"
)

// broker is a real broker, which a script in test/brokers runs. It serves all
// rounds.
type broker struct {
	name    string // and version
	script  string
	env     []string
	install string   // where its program is kept for the next time
	data    string   // its data, which goes with the workshop
	address string   // what clients connect to first
	flags   []string // by which Ackmesh is told of it
	pids    []int
	// makeTopic makes an empty topic that can be used when it returns; dropTopic
	// removes it. A broker that removes data by age only has no dropTopic.
	makeTopic, dropTopic func(ctx context.Context, topic string) error
}

// stored is the topic that every catch-up reads.
const stored = "bench-stored"

// newBroker prepares a broker of a script, whose settings are env.
func newBroker(w *workshop, script, name string, env ...string) *broker {
	return &broker{
		name: name, script: filepath.Join(w.root, "test", "brokers", script), env: env,
		install: filepath.Join(w.root, ".cache", strings.TrimSuffix(script, ".sh")), data: filepath.Join(w.dir, "broker"),
	}
}

// run runs the script and returns what it prints on standard output.
func (b *broker) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{b.script}, args...)...)
	cmd.Env = append(os.Environ(), b.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", b.script, strings.Join(args, " "), err, &out, &errs)
	}
	return strings.TrimSpace(out.String()), nil
}

// stop ends the broker, whatever has ended before.
func (b *broker) stop() error {
	_, err := b.run(context.Background(), "stop", b.data)
	return err
}

// place tells a load which topic to use, and makes it where it must be a new
// one. done removes it again.
func (b *broker) place(ctx context.Context, spec *load.Spec) (done func() error, err error) {
	spec.BrokerPIDs = b.pids
	done = func() error { return nil }
	if spec.Scenario == load.CatchUp {
		spec.Topic, spec.FromFirst = stored, true
		return done, nil
	}
	if spec.Topic == "" {
		spec.Topic = "bench" + spec.Run
		if b.dropTopic != nil {
			done = func() error { return b.dropTopic(context.WithoutCancel(ctx), spec.Topic) }
		}
	}
	return done, b.makeTopic(ctx, spec.Topic)
}

// prepare stores what catch-ups read, and lets each system read it once before
// any figure counts: a broker in Java is slow at first.
func (w *workshop) prepare(ctx context.Context) error {
	fill := scenario{name: "fill", kind: load.Fill, topic: stored}
	if _, err := w.measure(ctx, w.systems[0], fill, 0); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	warm := scenario{name: "warm", kind: load.CatchUp, clients: 1}
	for _, sys := range w.systems {
		if _, err := w.measure(ctx, sys, warm, 0); err != nil {
			return fmt.Errorf("warm up %s: %w", sys.name, err)
		}
	}
	return nil
}

// freePorts finds so many ports in a row that nobody listens on. They are below
// those that the system gives to clients.
func freePorts(n int) (first int, err error) {
	for range 50 {
		first = 20000 + n*rand.IntN(10000/n)
		if err = listenOnAll(first, n); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row: %w", n, err)
}

func listenOnAll(first, n int) (err error) {
	for port := first; port < first+n; port++ {
		l, lerr := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if lerr != nil {
			return lerr
		}
		defer func() { err = errors.Join(err, l.Close()) }()
	}
	return nil
}

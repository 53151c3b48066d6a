package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Main runs the load that the Spec on in asks for and writes the Result to out.
func Main(ctx context.Context, in io.Reader, out io.Writer, open func(Spec) (Driver, error)) error {
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	d, err := open(spec)
	if err != nil {
		return err
	}
	res, err := Run(ctx, d, spec)
	if err != nil {
		return fmt.Errorf("%s with %d clients: %w", spec.Scenario, spec.Clients, err)
	}
	return json.NewEncoder(out).Encode(res)
}

// Run runs one load.
func Run(ctx context.Context, d Driver, spec Spec) (Result, error) {
	scenario, ok := map[string]func(*run) error{
		Publish: (*run).publish, CatchUp: (*run).catchUp, Live: (*run).live, FanOut: (*run).fanOut, Idle: (*run).idle, Fill: (*run).storeOnly,
	}[spec.Scenario]
	if !ok {
		return Result{}, fmt.Errorf("unknown scenario %q", spec.Scenario)
	}
	r := &run{ctx: ctx, d: d, spec: spec}
	defer r.close()
	if err := scenario(r); err != nil {
		return Result{}, err
	}
	var err error
	_, r.result.PeakRSS, err = r.memory()
	return r.result, err
}

// run is a load under way.
type run struct {
	ctx     context.Context
	d       Driver
	spec    Spec
	clients []Client
	result  Result
}

// epoch is the clock's beginning, for time stamps in events.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// connect opens a connection that close closes.
func (r *run) connect(name string) (Client, error) {
	c, err := r.d.Connect(r.ctx, name)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	r.clients = append(r.clients, c)
	return c, nil
}

// close closes what was opened. An error says nothing of what was measured.
func (r *run) close() {
	for _, c := range r.clients {
		_ = c.Close()
	}
}

// topic is the one that the spec gives, or a new one of that name.
func (r *run) topic(name string) (string, error) {
	if r.spec.Topic != "" {
		return r.spec.Topic, nil
	}
	return name, r.d.MakeTopic(r.ctx, name)
}

// sleep waits.
func (r *run) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// await looks every millisecond whether cond holds, for a minute at most.
func (r *run) await(what string, cond func() (bool, error)) error {
	give := time.Now().Add(time.Minute)
	for {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		if time.Now().After(give) {
			return fmt.Errorf("%s: not within a minute", what)
		}
		if err := r.sleep(time.Millisecond); err != nil {
			return err
		}
	}
}

// measure runs a phase of the given length and appends what count and latency
// say at its end. latency is asked once the phase is over.
func (r *run) measure(name string, length time.Duration, count func() int64, latency func() *Histogram) error {
	before := count()
	m, err := r.startMeter(name)
	if err != nil {
		return err
	}
	if err := r.sleep(length); err != nil {
		return err
	}
	p, err := m.stop(count()-before, latency())
	r.result.Phases = append(r.result.Phases, p)
	return err
}

//go:build linux && long

// Package power cuts the power of machines with a server under load.
package power

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/tracecheck"
	"github.com/ackmesh/ackmesh/test/powerloss"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/tmpfs"
	"github.com/ackmesh/ackmesh/test/traffic"
)

func TestMain(m *testing.M) {
	powerloss.Main()
	runWriter()
	os.Exit(process.Main(m))
}

// TestPowerLoss: 20 times everything that was not synced is lost, or all but
// some random pages of it. What was confirmed is there, nothing that was
// DURABLE comes again, no position goes down.
func TestPowerLoss(t *testing.T) {
	if err := lose(t, 20, 20_000); err != nil {
		t.Error(err)
	}
}

// TestPowerLossNotSynced is the proof that the test above sees what is lost:
// without syncs it must break a promise that no impatience of the test breaks.
func TestPowerLossNotSynced(t *testing.T) {
	err := lose(t, 3, 3_000, "--sync=false")
	for _, p := range tracecheck.Promises() {
		if errors.Is(err, p.Err) && p.Name != "Complete" {
			t.Logf("without syncs %s is broken, as it must be", p.Name)
			return
		}
	}
	t.Errorf("nothing was synced and no promise is broken: the test cannot see what a loss of power does: %v", err)
}

// machine is a server on a machine that loses power.
type machine struct {
	t   *testing.T
	srv *process.Server
	m   *powerloss.Machine
	run *traffic.Run
	rnd *rand.Rand
}

// lose cuts the power so many times while events are published, delivered and
// acked, and returns which promise was broken. Every second time some pages
// that were not synced survive.
func lose(t *testing.T, losses, events int, args ...string) error {
	seed := traffic.Seed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	data := tmpfs.Mount(t, 400<<20)
	m := &machine{t: t, srv: process.New(t, data, args...), m: &powerloss.Machine{Data: data}, rnd: rand.New(rand.NewPCG(seed, 2))}
	m.run = traffic.New(t, seed, 6, m.srv.Dial)
	if err := m.up(); err != nil {
		t.Fatal(err)
	}
	m.run.Subscribe(traffic.SubscriberConfig{Client: "a", Topic: "t", Hoard: 5})
	for i := range 2 {
		m.run.Subscribe(traffic.SubscriberConfig{Client: fmt.Sprint("s", i), Topic: "t", Share: "s", Hoard: 5})
	}
	if err := m.run.Await(ctx, func(c traffic.Counts) bool { return c.Streams == 3 && c.Opens == 0 }); err != nil {
		t.Fatal(err)
	}
	broken := m.live(ctx, losses, events)
	m.run.Stop()
	for _, c := range tracecheck.Cuts(m.run.Rec.Trace()) {
		t.Log(c)
	}
	tr := m.run.Rec.Trace()
	t.Logf("%d events in the trace", len(tr.Events))
	if err := errors.Join(broken, tracecheck.Check(tr)); err != nil {
		return fmt.Errorf("%w\nthe trace: %s", err, traffic.Keep(t, tr))
	}
	return nil
}

// live publishes, loses power and lets everything be delivered and acked.
func (m *machine) live(ctx context.Context, losses, events int) error {
	done := m.run.Publish("p", traffic.PublisherConfig{
		Events: events, Topics: []traffic.Weight{{Topic: "t", Weight: 1}},
		MaxBatch: 20, Pipeline: 8, Lag: 500, Followers: map[string][]string{"t": {"client/a", "share/s"}},
	})
	for i := range losses {
		if err := m.lose(ctx, events*(i+1)/(losses+1), i%2 == 1); err != nil {
			return err
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("not all is published: %+v", m.run.Counts())
	}
	m.run.Drain()
	return traffic.AwaitFinished(ctx, pb.NewAdminClient(m.srv.DialAdmin()), time.Minute, "t")
}

// up starts the server on the machine.
func (m *machine) up() error {
	cmd, err := m.m.Command(process.Binary(), m.srv.Args()...)
	if err != nil {
		return err
	}
	m.srv.SpawnAs(cmd)
	if err := m.srv.TryServing(process.Patience); err != nil {
		return fmt.Errorf("the server does not start: %w", err)
	}
	m.run.Up()
	return nil
}

// lose cuts the power at about so many events.
func (m *machine) lose(ctx context.Context, published int, torn bool) error {
	published -= m.rnd.IntN(100)
	err := m.run.AwaitOrStuck(ctx, 30*time.Second, func(c traffic.Counts) bool { return c.Published >= published && c.Acks > 0 && c.Publishes > 0 })
	if err != nil {
		return fmt.Errorf("the server makes no progress: %w: %+v\n%s", err, m.run.Counts(), m.srv.Stuck())
	}
	m.run.Down(tracecheck.PowerLost)
	if err := m.m.Off(torn, m.rnd.Uint64()); err != nil {
		m.t.Fatalf("the loss of power: %v\n%s", err, m.srv.Log())
	}
	<-m.srv.Ended()
	m.srv.Check()
	if err := m.run.AwaitClosed(ctx); err != nil {
		m.t.Fatalf("streams of a dead server have not ended: %v", err)
	}
	return m.up()
}

package restart

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/server/tracecheck"
	"github.com/ackmesh/ackmesh/test/site"
	"github.com/ackmesh/ackmesh/test/traffic"
)

// load starts a subscriber that acks in random order and a publisher.
func load(ctx context.Context, t *testing.T, m *mesh, events int) (run *traffic.Run, done <-chan struct{}) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("SEED=%d", seed)
	run = traffic.New(t, seed, 6, m.Dial)
	run.Up()
	run.Subscribe(traffic.SubscriberConfig{Client: "c", Topic: m.topic})
	if err := run.Await(ctx, func(c traffic.Counts) bool { return c.Streams == 1 && c.Opens == 0 }); err != nil {
		t.Fatal(err)
	}
	return run, run.Publish("p", traffic.PublisherConfig{
		Events: events, Topics: []traffic.Weight{{Topic: m.topic, Weight: 1}}, MaxBatch: 20, Pipeline: 8,
		Lag: 1000, Followers: map[string][]string{m.topic: {"client/c"}},
	})
}

// reached waits until so many events are published and acks are under way.
func reached(ctx context.Context, t *testing.T, m *mesh, run *traffic.Run, published int) {
	t.Helper()
	if err := run.AwaitOrStuck(ctx, time.Minute, func(c traffic.Counts) bool { return c.Published >= published && c.Acks > 0 }); err != nil {
		t.Fatalf("no progress: %v: %+v\n%s", err, run.Counts(), m.Log())
	}
}

// finished waits until all is published, delivered and acked.
func finished(ctx context.Context, t *testing.T, m *mesh, run *traffic.Run, done <-chan struct{}, events int64) {
	t.Helper()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("not all is published: %+v\n%s", run.Counts(), m.Log())
	}
	if err := m.at.AwaitFinished(ctx, run, m.admin, time.Minute, m.topic); err != nil {
		t.Fatalf("%v\n%s", err, m.Stuck())
	}
	if n := m.position(m.topic, "client/c"); n < events || n > events && !m.at.Repeats {
		t.Fatalf("the position is %d, not %d", n, events)
	}
}

// OrderlyRestart: of an orderly end under load no more comes again than
// was in flight, of one without load nothing.
func OrderlyRestart(t *testing.T, at site.Site) {
	const events = 50_000
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m := startAt(t, at)
	run, done := load(ctx, t, m, events)
	reached(ctx, t, m, run, events/2)
	run.Down(tracecheck.Stopped)
	m.Term(20 * time.Second)
	if err := run.AwaitClosed(ctx); err != nil {
		t.Fatal(err)
	}
	m.Up()
	run.Up()
	finished(ctx, t, m, run, done, events)
	run.Down(tracecheck.Stopped)
	m.Term(20 * time.Second)
	if err := run.AwaitClosed(ctx); err != nil {
		t.Fatal(err)
	}
	m.Up()
	before := len(run.Rec.Trace().Events)
	run.Up()
	if err := run.PublishAll(m.topic, 1); err != nil {
		t.Fatal(err)
	}
	finished(ctx, t, m, run, done, events+1)
	run.Stop()
	tr := run.Rec.Trace()
	if err := m.at.Check(tr); err != nil {
		t.Error(err)
	}
	flying, again := repeats(tr)
	t.Logf("%d were in flight at SIGTERM, %d came again", flying, again)
	if again > flying {
		t.Errorf("%d were in flight at SIGTERM, %d came again", flying, again)
	}
	for _, e := range tr.Events[before:] {
		if e.Kind == tracecheck.Delivered && e.ID != events+1 {
			t.Errorf("came again after an orderly end without load: %s", &e)
		}
	}
}

// repeats counts what was in flight at the first Down of a trace, and what came
// with a higher attempt than 1.
func repeats(tr *tracecheck.Trace) (flying, again int) {
	out, down := map[uint64]bool{}, false
	for _, e := range tr.Events {
		switch e.Kind {
		case tracecheck.Delivered:
			if e.Attempt > 1 {
				again++
			}
			out[e.Delivery] = true
		case tracecheck.Answer:
			delete(out, e.Delivery)
		case tracecheck.Down:
			if !down {
				flying, down = len(out), true
			}
		}
	}
	return flying, again
}

package mesh

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/test/crash"
	"github.com/ackmesh/ackmesh/test/traffic"
)

const (
	events      = 100_000
	partitions  = 3
	maxAttempts = 6 // the default
)

// brokerIsKilled: the broker is killed and started again, twice, amid 100,000
// events that are published and subscribed to by a broadcast subscriber and a
// share of two streams, which ack in random order. No confirmed event is
// missing, nothing that was DURABLE comes again, and nothing is a dead letter.
func (s *suite) brokerIsKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("SEED=%d", seed)
	topic := s.at.Topic(t, "kill", partitions)
	n := Start(t, s.at)
	run := traffic.New(t, seed, maxAttempts, n.Dial)
	run.Up()
	run.Subscribe(traffic.SubscriberConfig{Client: "a", Topic: topic})
	for i := range 2 {
		run.Subscribe(traffic.SubscriberConfig{Client: fmt.Sprint("s", i), Topic: topic, Share: "s"})
	}
	s.await(ctx, t, n, run, func(c traffic.Counts) bool { return c.Streams == 3 && c.Opens == 0 })
	for i := range 4 {
		run.Publish(fmt.Sprint(i), traffic.PublisherConfig{
			Events: events / 4, Topics: []traffic.Weight{{Topic: topic, Weight: 1}}, MaxBatch: 20, Pipeline: 8,
			Lag: 2000, Followers: map[string][]string{topic: {"client/a", "share/s"}},
		})
	}
	began := time.Now()
	for _, at := range []int{events / 3, events * 2 / 3} {
		s.await(ctx, t, n, run, func(c traffic.Counts) bool { return c.Published >= at && c.Publishes > 0 })
		s.b.Kill(t)
		s.b.Start(t)
	}
	s.await(ctx, t, n, run, func(c traffic.Counts) bool { return c.Published == events })
	run.Drain()
	if err := s.at.AwaitFinished(ctx, run, n.Admin, 2*time.Minute, topic); err != nil {
		t.Fatalf("%v\n%s", err, n.Stuck())
	}
	crash.NoDeadLetters(ctx, t, n.Admin, topic)
	run.Stop()
	n.Term(20 * time.Second)
	tr := run.Rec.Trace()
	if err := s.at.Check(tr); err != nil {
		t.Errorf("%v\nthe trace: %s", err, traffic.Keep(t, tr))
	}
	t.Logf("%d events through two kills of the broker in %v, %d events in the trace", events, time.Since(began).Round(time.Second), len(tr.Events))
}

// await waits until cond holds, however long, but not while nothing happens.
func (s *suite) await(ctx context.Context, t *testing.T, n *Node, run *traffic.Run, cond func(traffic.Counts) bool) {
	t.Helper()
	if err := run.AwaitOrStuck(ctx, 2*time.Minute, cond); err != nil {
		t.Fatalf("no progress: %v, %+v\n%s", err, run.Counts(), n.Stuck())
	}
}

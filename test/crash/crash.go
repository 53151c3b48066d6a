// Package crash kills real servers under load and holds what their clients saw
// against every promise.
package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/tracecheck"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
	"github.com/ackmesh/ackmesh/test/traffic"
)

const (
	events      = 100_000
	kills       = 20
	maxAttempts = 6 // the default
	partitions  = 4 // the default
)

// Run: a broadcast subscriber and a share of three streams ack in random
// order, and break their streams now and then, while publishers run and the
// server is killed 20 times, sometimes within the Open of a subscriber that it
// never saw before. No confirmed event is missing, nothing that was DURABLE
// comes again, no position goes down, and nothing becomes a dead letter.
func Run(t *testing.T, at site.Site) {
	seed := traffic.Seed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	mainTopic, sideTopic := at.Topic(t, "main", partitions), at.Topic(t, "side", partitions)
	srv := at.Start(t, filepath.Join(t.TempDir(), "data"), partitions)
	run := traffic.New(t, seed, maxAttempts, srv.Dial)
	run.Up()
	followers := map[string][]string{mainTopic: {"client/a", "share/s"}}
	run.Subscribe(traffic.SubscriberConfig{Client: "a", Topic: mainTopic, Hoard: 5, Breaks: 2})
	for i := range 3 {
		run.Subscribe(traffic.SubscriberConfig{Client: fmt.Sprint("s", i), Topic: mainTopic, Share: "s", Hoard: 5, Breaks: 2})
	}
	opened(ctx, t, run, 4)
	var done []<-chan struct{}
	for i := range 4 {
		done = append(done, run.Publish(fmt.Sprint(i), traffic.PublisherConfig{
			Events: events / 4, Topics: []traffic.Weight{{Topic: mainTopic, Weight: 19}, {Topic: sideTopic, Weight: 1}},
			MaxBatch: 20, Pipeline: 8, Lag: 2000, Followers: followers,
		}))
	}
	k := killer{t: t, srv: srv, run: run, rnd: rand.New(rand.NewPCG(seed, 1)), mainTopic: mainTopic, sideTopic: sideTopic}
	k.killAll(ctx)
	for _, ch := range done {
		await(ctx, t, ch, "publishers")
	}
	run.Drain()
	admin := pb.NewAdminClient(srv.DialAdmin())
	if err := at.AwaitFinished(ctx, run, admin, time.Minute, mainTopic, sideTopic); err != nil {
		t.Fatalf("%v\n%s", err, srv.Stuck())
	}
	NoDeadLetters(ctx, t, admin, mainTopic)
	run.Stop()
	srv.Term(20 * time.Second)
	verify(t, at, run.Rec.Trace())
}

// opened waits until n streams are open.
func opened(ctx context.Context, t *testing.T, run *traffic.Run, n int) {
	t.Helper()
	if err := run.Await(ctx, func(c traffic.Counts) bool { return c.Streams >= n && c.Opens == 0 }); err != nil {
		t.Fatalf("streams are not open: %v, %+v", err, run.Counts())
	}
}

func await(ctx context.Context, t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-ctx.Done():
		t.Fatalf("%s are not done", what)
	}
}

// killer kills the server, each time at a random moment.
type killer struct {
	t      *testing.T
	srv    *process.Server
	run    *traffic.Run
	rnd    *rand.Rand
	probes int

	mainTopic, sideTopic string
}

// killAll kills until 20 kills have cut off acks and publishes. Which of them
// did shows in the trace; a few more than 20 may be needed, since an answer may
// be on its way when the process dies.
func (k *killer) killAll(ctx context.Context) {
	k.t.Helper()
	for i := 0; k.good() < kills; i++ {
		if i == 2*kills {
			k.t.Fatalf("of %d kills only %d cut off acks and publishes", i, k.good())
		}
		k.kill(ctx, events*(k.good()+1)/(kills+2), i%3 == 2)
	}
}

// good counts the kills that cut off both.
func (k *killer) good() (n int) {
	for _, c := range tracecheck.Cuts(k.run.Rec.Trace()) {
		if c.Acks > 0 && c.Publishes > 0 {
			n++
		}
	}
	return n
}

// kill waits until about so many events are published, and kills.
func (k *killer) kill(ctx context.Context, published int, inOpen bool) {
	k.t.Helper()
	published -= k.rnd.IntN(events / (kills + 2) / 2)
	k.await(ctx, func(c traffic.Counts) bool { return c.Published >= published })
	if inOpen {
		k.probe(ctx)
	}
	k.await(ctx, func(c traffic.Counts) bool { return c.Acks > 0 && c.Publishes > 0 })
	k.run.Down(tracecheck.Killed)
	k.srv.Kill()
	if err := k.run.AwaitClosed(ctx); err != nil {
		k.t.Fatalf("streams of a dead server have not ended: %v", err)
	}
	began := time.Now()
	k.srv.Up()
	k.run.Up()
	k.t.Logf("kill at %d events, up again in %v", k.run.Counts().Published, time.Since(began).Round(time.Millisecond))
}

// probe opens a subscriber that never was before, and waits until its Open is
// under way. It may be answered when the kill comes: the trace tells.
func (k *killer) probe(ctx context.Context) {
	k.t.Helper()
	k.probes++
	streams := k.run.Counts().Streams
	k.run.Subscribe(traffic.SubscriberConfig{Client: fmt.Sprint("probe", k.probes), Topic: k.sideTopic})
	k.await(ctx, func(c traffic.Counts) bool { return c.Opens > 0 || c.Streams > streams })
}

// offsets is where the subscribers are, as text.
func (k *killer) offsets() string {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	res, err := pb.NewAdminClient(k.srv.DialAdmin()).GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: k.mainTopic})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, p := range res.GetOffsets() {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func (k *killer) await(ctx context.Context, cond func(traffic.Counts) bool) {
	k.t.Helper()
	over := false
	err := k.run.AwaitOrStuck(ctx, time.Minute, func(c traffic.Counts) bool {
		over = c.Published == events
		return over || cond(c)
	})
	if err != nil || over {
		k.t.Fatalf("the server makes no progress (%v), or all is published (%t): %+v\n%s\n%s", err, over, k.run.Counts(), k.offsets(), k.srv.Stuck())
	}
}

// NoDeadLetters sees that no record of a topic was given up, for crashes that
// were not its fault.
func NoDeadLetters(ctx context.Context, t *testing.T, admin pb.AdminClient, topic string) {
	t.Helper()
	res, err := admin.ListTopics(ctx, &pb.ListTopicsRequest{Prefix: topic + "_DLQ"})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetTopics()) != 1 {
		t.Errorf("the topics of dead letters are %v", res.GetTopics())
	}
	for _, topic := range res.GetTopics() {
		for _, p := range topic.GetPartitions() {
			if p.GetMaxOffset() > 0 {
				t.Errorf("%d records became dead letters in partition %s", p.GetMaxOffset(), p.GetPartition())
			}
		}
	}
}

// verify holds the trace against all promises and keeps it if it breaks one.
func verify(t *testing.T, at site.Site, tr *tracecheck.Trace) {
	t.Helper()
	opens := 0
	for _, c := range tracecheck.Cuts(tr) {
		opens += min(c.Open, 1)
		t.Log(c)
	}
	if opens < 3 {
		t.Errorf("only %d kills came within an Open", opens)
	}
	t.Logf("%d events in the trace", len(tr.Events))
	if err := at.Check(tr); err != nil {
		t.Errorf("%v\nthe trace: %s", err, traffic.Keep(t, tr))
	}
}

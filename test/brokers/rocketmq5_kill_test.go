//go:build brokers

package brokers_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/brokers/mesh"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

// again is how long to wait for what the broker hands out again after an
// invisible time of 10 s, on a busy machine.
const again = time.Minute

func (r *rocketmq5Broker) node(t *testing.T, flags ...string) *mesh.Node {
	t.Helper()
	return mesh.Start(t, site.Site{Flags: r.flags(""), Pops: true}, flags...)
}

// take waits for n deliveries, long enough for what comes again.
func take(t *testing.T, st *servertest.Stream, n int) []servertest.Got {
	t.Helper()
	if !st.Await(again, n) {
		t.Fatalf("%d deliveries came, not %d: %s", len(st.Pending()), n, servertest.Show(st.Pending()))
	}
	return st.Take(n)
}

func sortedData(got []servertest.Got) []string {
	list := servertest.Data(got)
	slices.Sort(list)
	return list
}

// killedBeforeAck: the server is started again on the same data directory.
func (r *rocketmq5Broker) killedBeforeAck(t *testing.T) {
	n := r.node(t)
	r.killed(t, n, "killed", n, 2)
}

// takenOver: the same, and another instance with a data directory of its own
// goes on. It knows of no earlier attempt.
func (r *rocketmq5Broker) takenOver(t *testing.T) {
	r.killed(t, r.node(t), "taken", r.node(t), 1)
}

// killed: the server dies by kill -9 after five events were delivered and before
// any was acked. They come again to who goes on, once; when they are acked
// nothing comes any more. The same holds for an ordered subscriber, whose group
// tells its offset: it stands still until the ack, then moves. (The offset of an
// ordinary group moves when messages are popped, as brokers are set by default.)
func (r *rocketmq5Broker) killed(t *testing.T, n *mesh.Node, name string, next *mesh.Node, attempt int32) {
	topic, fifo := r.topic(t, name, "NORMAL", 1), r.topic(t, name+"-fifo", "FIFO", 1)
	raw, data := r.raw(t), names("m", 5)
	plain, ordered := openBoth(t, n, topic, fifo, servertest.Earliest())
	before := r.groupAt(t, raw, fifo, "c", 1)[0]
	for _, to := range []string{topic, fifo} {
		n.Publish(to, []string{"k", "k", "k", "k", "k"}, data...)
	}
	if got := sortedData(take(t, plain, 5)); !slices.Equal(got, data) {
		t.Fatalf("delivered is %q", got)
	}
	first := take(t, ordered, 1)
	plain.Quiet(time.Second) // that they were delivered is on disk
	n.Kill()
	if next == n {
		n.Up()
	}
	plain, ordered = openBoth(t, next, topic, fifo, nil)
	got := take(t, plain, 5)
	if came := sortedData(got); !slices.Equal(came, data) {
		t.Fatalf("delivered again is %q", came)
	}
	anew := take(t, ordered, 1)
	if anew[0].Data() != first[0].Data() {
		t.Errorf("the first of the ordered ones was %s, and is %s", servertest.Show(first), servertest.Show(anew))
	}
	for _, g := range slices.Concat(got, anew) {
		if g.Attempt != attempt {
			t.Errorf("the attempt of %q is %d, not %d", g.Data(), g.Attempt, attempt)
		}
	}
	if n := r.handedOutAgain(t, raw, topic, groupOf(topic, "c")); n < 5 {
		t.Errorf("the broker has handed out %d messages again, not 5 or more", n)
	}
	if at := r.groupAt(t, raw, fifo, "c", 1)[0]; at != before {
		t.Errorf("the ordered group is at %d, not %d, before any ack", at, before)
	}
	plain.AckDurable(got...)
	ordered.AckDurable(anew...)
	ordered.AckDurable(take(t, ordered, 1)...)
	for range 3 {
		ordered.AckDurable(take(t, ordered, 1)...)
	}
	servertest.Eventually(t, process.Patience, func() error {
		if at := r.groupAt(t, raw, fifo, "c", 1)[0]; at != before+5 {
			return fmt.Errorf("the ordered group is at %d, not %d", at, before+5)
		}
		return nil
	})
	plain.Quiet(15 * time.Second)
	ordered.Quiet(0)
}

// openBoth opens client c on two topics, on the second one ordered.
func openBoth(t *testing.T, n *mesh.Node, topic, fifo string, start *pb.Start) (plain, ordered *servertest.Stream) {
	t.Helper()
	sub := servertest.Sub(fifo, pb.Mode_MODE_BROADCAST)
	sub.Ordered, sub.Start = true, start
	open := &pb.Open{ClientId: "c", AckTimeout: durationpb.New(time.Hour), Subscriptions: []*pb.Subscription{sub}}
	return n.Open("c", topic, start), servertest.Open(t, n.Mesh, open)
}

// crashBeforeBrokerAck: a hundred times a server is killed after the client was
// told DURABLE and before the broker could be: a gate before the proxy is shut.
// Nothing is delivered again on that data directory. Four servers do it at once.
func (r *rocketmq5Broker) crashBeforeBrokerAck(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r.crashes(t, fmt.Sprint("durable", i), 25)
		})
	}
}

func (r *rocketmq5Broker) crashes(t *testing.T, name string, rounds int) {
	topic := r.topic(t, name, "NORMAL", 2)
	g := newGate(t, address(r.grpc))
	srv := process.New(t, filepath.Join(t.TempDir(), "data"), append([]string{"--topics.partitions", "1"}, r.flags(g.addr())...)...)
	srv.Up()
	client := pb.NewEventMeshClient(srv.Dial())
	sub := &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{servertest.Sub(topic, pb.Mode_MODE_BROADCAST)}}
	began := time.Now()
	for round := range rounds {
		st := servertest.Open(t, client, sub)
		want := fmt.Sprint("m", round)
		servertest.Publish(t, client, topic, want)
		got := take(t, st, 1)
		if got[0].Data() != want {
			t.Fatalf("round %d: delivered is %s", round, servertest.Show(got))
		}
		g.set(true)
		st.AckDurable(got...)
		srv.Kill()
		g.set(false)
		srv.Up()
	}
	t.Logf("%d kills in %v", rounds, time.Since(began).Round(time.Second))
	st := servertest.Open(t, client, sub)
	st.Quiet(20 * time.Second) // the broker hands out the last ones meanwhile
	if n := r.handedOutAgain(t, r.raw(t), topic, groupOf(topic, "c")); n < int64(rounds)/2 {
		t.Errorf("the broker has handed out %d messages again: the acks were not held up", n)
	}
}

// serversAreKilled: the proxy is killed and started again, then the broker,
// while 20,000 events are published and delivered. Nothing is lost, delivery
// goes on within 15 s of readiness, and the server is the same process.
func (r *rocketmq5Broker) serversAreKilled(t *testing.T) {
	const total, call = 20_000, 50
	topic := r.topic(t, "outage", "NORMAL", 8)
	n := r.node(t)
	st := servertest.Open(t, n.Mesh, &pb.Open{
		ClientId: "c", AckTimeout: durationpb.New(time.Minute), Subscriptions: []*pb.Subscription{servertest.Sub(topic, pb.Mode_MODE_BROADCAST)},
	})
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := 0; i < total; i += call {
			var data []string
			for k := range call {
				data = append(data, fmt.Sprint(i+k))
			}
			n.Publish(topic, nil, data...)
		}
	}()
	seen, twice := map[string]int{}, 0
	until := func(count int) {
		for len(seen) < count {
			if !st.Await(again, 1) {
				t.Fatalf("%d of %d events have come, nothing more in %v\n%s", len(seen), total, again, n.Stuck())
			}
			got := st.Take(len(st.Pending()))
			for _, g := range got {
				if seen[g.Data()]++; seen[g.Data()] > 1 {
					twice++
				}
			}
			st.Ack(got...)
		}
	}
	for i, role := range []string{"proxy", "broker"} {
		until(total * (i + 1) / 3)
		r.kill(t, role)
		r.start(t, role)
		ready := time.Now()
		st.Take(len(st.Pending())) // what had come before is not what goes on
		until(min(len(seen)+1, total))
		took := time.Since(ready)
		t.Logf("after the %s was ready again the next delivery took %v", role, took.Round(time.Millisecond))
		if took > 15*time.Second {
			t.Errorf("delivery went on %v after the %s was ready", took, role)
		}
	}
	until(total)
	<-published
	t.Logf("%d events, %d of them came twice: a killed broker forgets the last 5 s of a group's offset", len(seen), twice)
	n.Check()
}

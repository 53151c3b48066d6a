//go:build brokers

package brokers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
	"github.com/ackmesh/ackmesh/test/brokers/mesh"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

func shareOf(topic string) *pb.Subscription {
	sub := servertest.Sub(topic, pb.Mode_MODE_LOAD_BALANCE)
	sub.Share = "s"
	return sub
}

func openShare(t *testing.T, n *mesh.Node, client, topic string) *servertest.Stream {
	t.Helper()
	return servertest.Open(t, n.Mesh, &pb.Open{ClientId: client, AckTimeout: durationpb.New(time.Hour), Subscriptions: []*pb.Subscription{shareOf(topic)}})
}

// broadcastOnTwo: two clients on each of two instances get every event, and
// each of the four groups is acked by its own client only.
func (r *rocketmq5Broker) broadcastOnTwo(t *testing.T) {
	const events = 200
	topic, raw := r.topic(t, "broadcast", "NORMAL", 4), r.raw(t)
	nodes := []*mesh.Node{r.node(t), r.node(t)}
	var streams []*servertest.Stream
	for i := range 4 {
		streams = append(streams, nodes[i%2].Open(fmt.Sprint("c", i), topic, servertest.Earliest()))
	}
	data := names("m", events)
	nodes[0].Publish(topic, nil, data...)
	slices.Sort(data)
	for i, st := range streams {
		got := take(t, st, events)
		if !slices.Equal(sortedData(got), data) {
			t.Errorf("client %d has got other events than were published", i)
		}
		st.AckDurable(got...)
	}
	for i, st := range streams {
		st.Quiet(4 * time.Second)
		if n := r.handedOutAgain(t, raw, topic, groupOf(topic, fmt.Sprint("c", i))); n != 0 {
			t.Errorf("the broker has handed out %d events again to client %d", n, i)
		}
	}
}

// shareOnTwo: a share on two instances; one is killed midway and another one
// joins. Each event comes once, but for those that were unacked in the kill.
func (r *rocketmq5Broker) shareOnTwo(t *testing.T) {
	const half = 1000
	topic := r.topic(t, "shared", "NORMAL", 8)
	a, b := r.node(t), r.node(t)
	s := &sharing{streams: map[string]*servertest.Stream{"a": openShare(t, a, "a", topic), "b": openShare(t, b, "b", topic)}, came: map[string]int{}, by: map[string]int{}}
	first := names("first", half)
	b.Publish(topic, nil, first...)
	s.until(t, "instance a to have its part", func() bool { return s.by["a"] >= half/4 })
	// What a gets now is not acked. Meanwhile the broker is told of the acks
	// before.
	st := s.streams["a"]
	st.Await(2*time.Second, half)
	unacked := map[string]bool{}
	for _, g := range st.Take(len(st.Pending())) {
		unacked[g.Data()] = true
	}
	a.Kill()
	delete(s.streams, "a")
	s.streams["c"] = openShare(t, r.node(t), "c", topic)
	b.Publish(topic, nil, names("second", half)...)
	s.until(t, "all to be acked", func() bool { return len(s.came) == 2*half })
	if s.by["b"] == 0 || s.by["c"] == 0 {
		t.Errorf("by instance %v", s.by)
	}
	for _, st := range s.streams {
		st.Quiet(2 * time.Second)
	}
	for data, n := range s.came {
		if n != 1 && !unacked[data] {
			t.Errorf("%s came %d times to be acked, and was acked before the kill", data, n)
		}
	}
	t.Logf("by instance %v, %d unacked in the kill", s.by, len(unacked))
}

// sharing are the streams of a share that ack what they get.
type sharing struct {
	streams  map[string]*servertest.Stream
	came, by map[string]int // by payload, by stream
}

func (s *sharing) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * again); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %d events came, by instance %v", what, len(s.came), s.by)
		}
		for name, st := range s.streams {
			st.Await(10*time.Millisecond, 1)
			got := st.Take(min(len(st.Pending()), 20))
			for _, g := range got {
				s.came[g.Data()]++
				s.by[name]++
			}
			st.AckDurable(got...)
		}
	}
}

// slowHandler: the receipts say 10 s, the handler takes 45 s, the ack timeout is
// 30 s with two Extends, and 300 events are held behind it: each is delivered
// once, and the broker has handed out none of them again.
func (r *rocketmq5Broker) slowHandler(t *testing.T) {
	const held = 301
	topic := r.topic(t, "slow", "NORMAL", 4)
	n := r.node(t)
	st := servertest.Open(t, n.Mesh, &pb.Open{
		ClientId: "c", AckTimeout: durationpb.New(30 * time.Second), Subscriptions: []*pb.Subscription{servertest.Sub(topic, pb.Mode_MODE_BROADCAST)},
	})
	n.Publish(topic, nil, names("m", held)...)
	got := take(t, st, held)
	for _, g := range got {
		if d, ok := rocketmq5.Invisible(g.Frame.GetAttributes()["empopck"]); !ok || d != 10*time.Second {
			t.Fatalf("the receipt %q does not say 10 s", g.Frame.GetAttributes()["empopck"])
		}
	}
	for _, wait := range []time.Duration{10 * time.Second, 25 * time.Second} {
		st.Quiet(wait)
		st.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{
			Ranges: []*pb.DeliveryRange{{First: got[0].ID, Last: got[len(got)-1].ID}}, By: durationpb.New(30 * time.Second),
		}}})
	}
	st.Quiet(10 * time.Second)
	st.AckDurable(got...)
	st.Quiet(15 * time.Second)
	if n := r.handedOutAgain(t, r.raw(t), topic, groupOf(topic, "c")); n != 0 {
		t.Errorf("the broker has handed out %d events again", n)
	}
}

// secondJoins: a share has a backlog of 10,000; a second instance joins under
// the default start. It moves nothing: all of them arrive.
func (r *rocketmq5Broker) secondJoins(t *testing.T) {
	const events, call = 10_000, 500
	topic := r.topic(t, "backlog", "NORMAL", 8)
	a, b := r.node(t), r.node(t)
	first := openShare(t, a, "a", topic)
	first.Change(&pb.Change{ChangeId: 1, Pause: []uint32{1}})
	for i := 0; i < events; i += call {
		a.Publish(topic, nil, names(fmt.Sprint("m", i/call, "-"), call)...)
	}
	streams := []*servertest.Stream{first, openShare(t, b, "b", topic)}
	first.Change(&pb.Change{ChangeId: 2, Resume: []uint32{1}})
	seen := map[string]bool{}
	for deadline := time.Now().Add(2 * again); len(seen) < events && time.Now().Before(deadline); {
		for _, st := range streams {
			st.Await(10*time.Millisecond, 1)
			got := st.Take(len(st.Pending()))
			for _, g := range got {
				seen[g.Data()] = true
			}
			st.Ack(got...)
		}
	}
	if len(seen) != events {
		t.Errorf("%d of %d events arrived", len(seen), events)
	}
}

// idleQueues: a topic of 8 queues where little happens. Every event comes soon,
// whichever queue it is in, and every queue is visited.
func (r *rocketmq5Broker) idleQueues(t *testing.T) {
	const queues, events = 8, 800
	topic := r.topic(t, "idle", "NORMAL", queues)
	n := r.node(t)
	st := n.Open("c", topic, nil)
	took, visited := make([]time.Duration, events), map[string]int{}
	for i := range took {
		began := time.Now()
		servertest.Publish(t, n.Mesh, topic, fmt.Sprint(i))
		got := take(t, st, 1)
		took[i] = time.Since(began)
		visited[got[0].Partition]++
		st.AckDurable(got...)
	}
	slices.Sort(took)
	t.Logf("publish to deliver: p50 %v, p99 %v, highest %v; by queue %v", took[events/2], took[events*99/100], took[events-1], visited)
	if took[events*99/100] > 2*time.Second {
		t.Errorf("p99 is %v, more than 2 s", took[events*99/100])
	}
	if len(visited) != queues {
		t.Errorf("%d of %d queues were visited: %v", len(visited), queues, visited)
	}
}

// reset: a live subscriber is set back to the beginning, and gets everything
// once more, in a new epoch; without the name server that is UNIMPLEMENTED, and
// so is an explicit start.
func (r *rocketmq5Broker) reset(t *testing.T) {
	const events = 300
	topic := r.topic(t, "reset", "NORMAL", 4)
	n := r.node(t)
	st := n.Open("c", topic, nil)
	data := names("m", events)
	n.Publish(topic, nil, data...)
	got := take(t, st, events)
	st.AckDurable(got[:200]...)
	req := &pb.ResetOffsetRequest{Topic: topic, Subscriber: "client/c", To: servertest.Earliest()}
	if _, err := n.Admin.ResetOffset(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	slices.Sort(data)
	second := take(t, st, events)
	if !slices.Equal(sortedData(second), data) || second[0].Epoch <= got[0].Epoch {
		t.Errorf("after the reset came other events, or in epoch %d after %d", second[0].Epoch, got[0].Epoch)
	}
	st.AckDurable(second...)
	st.Quiet(15 * time.Second)
	bare := mesh.Start(t, site.Site{Flags: r.flags("", "--rocketmq5.nameservers", ""), Pops: true})
	other := servertest.TryOpen(t, bare.Mesh, &pb.Open{ClientId: "d", Subscriptions: []*pb.Subscription{{Id: 1, Topic: topic, Mode: pb.Mode_MODE_BROADCAST, Start: servertest.Earliest()}}})
	if other.Opened == nil || codes.Code(other.Opened.GetResults()[0].GetStatus().GetCode()) != codes.Unimplemented {
		t.Errorf("an explicit start without a name server gives %v", other.Opened.GetResults())
	}
	bare.Open("d", topic, nil)
	req.Subscriber = "client/d"
	_, err := bare.Admin.ResetOffset(t.Context(), req)
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "rocketmq5") {
		t.Errorf("a reset without a name server gives %v", err)
	}
}

// nobodyWants: what a filter leaves out is acked at the broker by the mesh, and
// a body that is no frame is delivered as bytes; neither comes again.
func (r *rocketmq5Broker) nobodyWants(t *testing.T) {
	topic := r.topic(t, "unwanted", "NORMAL", 1)
	n := r.node(t)
	sub := servertest.Sub(topic, pb.Mode_MODE_MULTICAST)
	sub.Filter, sub.Start = "type = 'nobody.sends.this'", servertest.Earliest()
	st := servertest.Open(t, n.Mesh, &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{sub}})
	all := n.Open("all", topic, servertest.Earliest())
	n.Publish(topic, nil, names("m", 50)...)
	r.sendRaw(t, topic, "no frame at all")
	got := take(t, all, 51)
	if !slices.Contains(servertest.Data(got), "no frame at all") {
		t.Errorf("the body that is no frame did not come as it is: %s", servertest.Show(got))
	}
	all.AckDurable(got...)
	st.Quiet(15 * time.Second)
	raw := r.raw(t)
	for _, client := range []string{"c", "all"} {
		if at := r.groupAt(t, raw, topic, client, 1)[0]; at != 51 {
			t.Errorf("the group of %s is at %d, not at 51", client, at)
		}
		if n := r.handedOutAgain(t, raw, topic, groupOf(topic, client)); n != 0 {
			t.Errorf("the broker has handed out %d events again to %s", n, client)
		}
	}
}

// types: events of one key of a FIFO topic keep their order, with an ordered
// share of two streams on two instances; a DELAY topic delivers when it is due; a
// NORMAL one refuses what is due later.
func (r *rocketmq5Broker) types(t *testing.T) {
	const keys, each = 5, 20
	fifo, delay := r.topic(t, "fifo", "FIFO", 4), r.topic(t, "delay", "DELAY", 2)
	normal := r.topic(t, "normal", "NORMAL", 2)
	nodes := []*mesh.Node{r.node(t), r.node(t)}
	r.keepsOrder(t, nodes, fifo, keys, each)
	st := nodes[0].Open("d", delay, nil)
	due := time.Now().Add(3 * time.Second)
	later := &pb.EventMeshFrame{Data: []byte("later"), Attributes: map[string]string{"emdeliverytime": due.UTC().Format(time.RFC3339Nano)}}
	for topic, code := range map[string]codes.Code{delay: codes.OK, normal: codes.InvalidArgument} {
		res, err := nodes[0].Mesh.Publish(t.Context(), &pb.PublishRequest{Topic: topic, Events: []*pb.EventMeshFrame{later}})
		if err != nil || codes.Code(res.GetEvents()[0].GetStatus().GetCode()) != code {
			t.Errorf("a delayed event on topic %s gives %v, %v", topic, res, err)
		}
	}
	nodes[0].Publish(delay, nil, "at once")
	got := take(t, st, 1)
	got = append(got, take(t, st, 1)...)
	if got[0].Data() != "at once" || got[1].Data() != "later" || time.Now().Before(due) {
		t.Errorf("%s came %v before it is due", servertest.Show(got), time.Until(due))
	}
	st.AckDurable(got...)
}

func (r *rocketmq5Broker) keepsOrder(t *testing.T, nodes []*mesh.Node, topic string, keys, each int) {
	var streams []*servertest.Stream
	for i, n := range nodes {
		sub := shareOf(topic)
		sub.Ordered = true
		streams = append(streams, servertest.Open(t, n.Mesh, &pb.Open{ClientId: fmt.Sprint("o", i), Subscriptions: []*pb.Subscription{sub}}))
	}
	var names, data []string
	for i := range keys * each {
		names = append(names, fmt.Sprint("k", i%keys))
		data = append(data, fmt.Sprint(i/keys))
	}
	nodes[0].Publish(topic, names, data...)
	next := map[string]int{}
	for done, deadline := 0, time.Now().Add(2*again); done < keys*each; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events of an ordered share are finished: %v", done, keys*each, next)
		}
		for _, st := range streams {
			st.Await(10*time.Millisecond, 1)
			for _, g := range st.Take(len(st.Pending())) {
				key := g.Frame.GetAttributes()["partitionkey"]
				if g.Data() != fmt.Sprint(next[key]) {
					t.Fatalf("key %s: came %s, not %d", key, servertest.Show([]servertest.Got{g}), next[key])
				}
				next[key]++
				st.AckDurable(g)
				done++
			}
		}
	}
	if _, err := nodes[0].Admin.GetOffsets(t.Context(), &pb.GetOffsetsRequest{Topic: topic}); err != nil {
		t.Errorf("offsets: %v", err)
	}
	plain := servertest.TryOpen(t, nodes[0].Mesh, &pb.Open{ClientId: "o2", Subscriptions: []*pb.Subscription{shareOf(topic)}})
	if plain.Opened != nil && plain.Opened.GetResults()[0].GetStatus().GetCode() == 0 {
		t.Errorf("an ordered share became one that is not")
	}
}

// deadLetters: what is nacked to the end is a dead letter, which can be listed
// and replayed.
func (r *rocketmq5Broker) deadLetters(t *testing.T) {
	topic := r.topic(t, "dead", "NORMAL", 4)
	n := r.node(t, "--delivery.backoff", "20ms")
	st := n.Open("c", topic, nil)
	n.Publish(topic, nil, "bad")
	for range 6 {
		st.Nack(take(t, st, 1)...)
	}
	var letters []*pb.DeadLetter
	servertest.Eventually(t, process.Patience, func() error {
		res, err := n.Admin.ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{Topic: topic})
		if letters = res.GetDeadLetters(); err == nil && len(letters) != 1 {
			err = fmt.Errorf("%d dead letters", len(letters))
		}
		return err
	})
	if string(letters[0].GetFrame().GetData()) != "bad" {
		t.Errorf("the dead letter is shown as %v", letters[0])
	}
	if _, err := n.Admin.ReplayDeadLetters(t.Context(), &pb.ReplayDeadLettersRequest{Topic: topic}); err != nil {
		t.Fatal(err)
	}
	replayed := take(t, st, 1)
	if replayed[0].Data() != "bad" || replayed[0].Attempt != 1 {
		t.Errorf("the replay is %s", servertest.Show(replayed))
	}
	st.AckDurable(replayed...)
	if n := r.handedOutAgain(t, r.raw(t), topic, groupOf(topic, "c")); n != 0 {
		t.Errorf("the broker has handed out %d events again", n)
	}
}

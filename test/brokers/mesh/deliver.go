package mesh

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
)

// idleLatency measures from Publish to the delivery on a topic where nothing
// else happens. A machine that is busy with something else has three tries.
func (s *suite) idleLatency(t *testing.T) {
	topic := s.at.Topic(t, "idle", 1)
	n := Start(t, s.at)
	st := n.Open("c", topic, nil)
	const limit = 10 * time.Millisecond
	p50 := limit + 1
	for try := 0; p50 > limit && try < 3; try++ {
		var p99 time.Duration
		p50, p99 = delays(t, n, st, topic)
		t.Logf("publish to deliver on an idle topic, with the race detector: p50 %v, p99 %v", p50, p99)
	}
	if p50 > limit {
		t.Errorf("p50 is %v, more than %v", p50, limit)
	}
}

// delays measures 100 times.
func delays(t *testing.T, n *Node, st *servertest.Stream, topic string) (p50, p99 time.Duration) {
	t.Helper()
	took := make([]time.Duration, 100)
	for i := range took {
		st.Quiet(10 * time.Millisecond) // until the server waits at the broker
		began := time.Now()
		servertest.Publish(t, n.Mesh, topic, fmt.Sprint(i))
		got := st.Take(1)
		took[i] = time.Since(began)
		st.AckDurable(got...)
	}
	slices.Sort(took)
	return took[50], took[99]
}

// deadLetters: what is nacked six times is a dead letter, in the topic of dead
// letters at the broker too; its replay comes once more, with a fresh budget.
func (s *suite) deadLetters(t *testing.T) {
	topic := s.at.Topic(t, "dead", 1)
	n := Start(t, s.at, "--delivery.backoff", "20ms")
	st := n.Open("c", topic, nil)
	n.Publish(topic, nil, "bad", "good")
	for attempt := int32(1); attempt <= maxAttempts; {
		g := st.Take(1)
		if g[0].Data() == "good" {
			st.AckDurable(g...)
			continue
		}
		if g[0].Attempt != attempt {
			t.Fatalf("attempt %d is %s", attempt, servertest.Show(g))
		}
		st.Nack(g...)
		attempt++
	}
	dead := n.Open("burier", topic+"_DLQ", servertest.Earliest()).Take(1)[0]
	attrs := dead.Frame.GetAttributes()
	if dead.Data() != "bad" || attrs["emdlqtopic"] != topic || attrs["emdlqsubscriber"] != "client/c" || attrs["emdlqattempts"] != "6" {
		t.Errorf("in the topic of dead letters is %q with %v", dead.Data(), attrs)
	}
	if _, err := n.Admin.ReplayDeadLetters(t.Context(), &pb.ReplayDeadLettersRequest{Topic: topic}); err != nil {
		t.Fatal(err)
	}
	again := st.Take(1)
	if again[0].Data() != "bad" || again[0].Attempt != 1 {
		t.Errorf("the replay is %s", servertest.Show(again))
	}
	st.AckDurable(again...)
	st.Quiet(500 * time.Millisecond)
}

// keysKeepTheirOrder: to an ordered share of two streams, events of one key come
// one at a time and in order, nacks or not; those of other keys do not wait.
func (s *suite) keysKeepTheirOrder(t *testing.T) {
	const keys, each = 10, 20
	topic := s.at.Topic(t, "ordered", 2)
	n := Start(t, s.at, "--delivery.backoff", "20ms")
	streams := make([]*servertest.Stream, 2)
	for i := range streams {
		sub := servertest.Sub(topic, pb.Mode_MODE_LOAD_BALANCE)
		sub.Share, sub.Ordered = "s", true
		streams[i] = servertest.Open(t, n.Mesh, &pb.Open{ClientId: fmt.Sprint("c", i), Subscriptions: []*pb.Subscription{sub}})
	}
	var names, data []string
	for i := range keys * each {
		names = append(names, fmt.Sprint("k", i%keys))
		data = append(data, fmt.Sprint(i/keys))
	}
	n.Publish(topic, names, data...)
	next, nacked := map[string]int{}, map[string]bool{}
	for done, looks := 0, 0; done < keys*each; looks++ {
		st := streams[looks%2]
		if !st.Await(5*time.Millisecond, 1) {
			if looks > 100_000 {
				t.Fatalf("%d of %d events are finished: %v", done, keys*each, next)
			}
			continue
		}
		for _, g := range st.Take(len(st.Pending())) {
			key := g.Frame.GetAttributes()["partitionkey"]
			if g.Data() != fmt.Sprint(next[key]) {
				t.Fatalf("key %s: came %s, not %d", key, servertest.Show([]servertest.Got{g}), next[key])
			}
			if spot := key + "/" + g.Data(); next[key]%7 == 3 && !nacked[spot] {
				nacked[spot] = true
				st.Nack(g)
				continue
			}
			st.AckDurable(g)
			next[key]++
			done++
		}
	}
}

// slowHoldsUpNobody: of two topics of four partitions each, the subscriber of
// one takes nothing for a while. Events of the other come at once all the time,
// and those of the slow one when it goes on, all of them.
func (s *suite) slowHoldsUpNobody(t *testing.T) {
	const held, hold = 2000, 15 * time.Second
	slowTopic, fastTopic := s.at.Topic(t, "slow", 4), s.at.Topic(t, "fast", 4)
	n := Start(t, s.at)
	slow, fast := n.Open("slow", slowTopic, nil), n.Open("fast", fastTopic, nil)
	slow.Change(&pb.Change{ChangeId: 1, Pause: []uint32{1}})
	data := named("e", held)
	n.Publish(slowTopic, data, data...)
	var took []time.Duration
	for began := time.Now(); time.Since(began) < hold; {
		at := time.Now()
		servertest.Publish(t, n.Mesh, fastTopic, servertest.Numbers(4)...)
		got := fast.Take(4)
		took = append(took, time.Since(at))
		fast.AckDurable(got...)
	}
	slow.Quiet(0)
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d rounds beside a slow topic, p99 %v", len(took), p99)
	if p99 > time.Second {
		t.Errorf("p99 is %v, more than 1 s", p99)
	}
	slow.Change(&pb.Change{ChangeId: 2, Resume: []uint32{1}})
	for came := 0; came < held; {
		got := slow.Take(1)
		got = append(got, slow.Take(len(slow.Pending()))...)
		slow.AckDurable(got...)
		came += len(got)
	}
	slow.Quiet(100 * time.Millisecond)
}

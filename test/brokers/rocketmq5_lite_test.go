//go:build brokers

package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/test/brokers/mesh"
)

// TestRocketMQ5Lite starts one RocketMQ 5 for all that is tested of its lite
// topics.
func TestRocketMQ5Lite(t *testing.T) {
	r := startRocketMQ5(t)
	t.Run("Together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"Conformance": r.liteConformance, "Thousand": r.thousandLites, "Refusals": r.liteRefusals, "Idle": r.liteLatency,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("BrokerIsKilled", r.liteBrokerIsKilled)
}

func (r *rocketmq5Broker) openLites(t storagetest.T, dir string) storage.Backend {
	b, err := rocketmq5.Open(rocketmq5.Options{
		Endpoints: []string{address(r.grpc)}, NameServers: []string{address(r.names)}, Dir: dir, CheckpointInterval: -1,
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b
}

func (r *rocketmq5Broker) liteConformance(t *testing.T) {
	dirs := map[storage.Backend]string{}
	open := func(dir string) storage.Backend {
		b := r.openLites(t, dir)
		dirs[b] = dir
		return b
	}
	storagetest.RunLite(t, storagetest.LiteHarness{
		Open: func(storagetest.T) storage.Backend { return open(t.TempDir()) },
		Reopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			return open(dirs[b])
		},
		MakeParent: func(t storagetest.T, _ storage.Backend, parent string) { r.makeTopic(t, parent, "LITE", 4) },
		MakeTopic:  func(t storagetest.T, _ storage.Backend, topic string) { r.makeTopic(t, topic, "NORMAL", 1) },
		Patience:   30 * time.Second, Settle: 300 * time.Millisecond,
	})
}

// parent makes a parent of lite topics and the topic of its dead letters.
func (r *rocketmq5Broker) parent(t *testing.T, name string) string {
	t.Helper()
	r.makeTopic(t, name, "LITE", 8)
	r.makeTopic(t, name+"_DLQ", "NORMAL", 1)
	return name
}

func liteOf(n *mesh.Node) pb.LiteClient { return pb.NewLiteClient(n.Dial()) }

func liteID(i int) string { return fmt.Sprintf("session-%04d", i) }

// fillLites publishes events LITE/from, … to so many lite topics, each in one
// request, some at a time.
func fillLites(t *testing.T, n *mesh.Node, parent string, lites, from, each int) {
	t.Helper()
	client := liteOf(n)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	next := make(chan int)
	failed := make(chan error, lites)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := range next {
				failed <- publishLite(ctx, client, parent, liteID(i), from, each)
			}
		})
	}
	for i := range lites {
		next <- i
	}
	close(next)
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func publishLite(ctx context.Context, client pb.LiteClient, parent, lite string, from, each int) error {
	req := &pb.PublishLiteRequest{Parent: parent, Lite: lite}
	for k := from; k < from+each; k++ {
		req.Events = append(req.Events, &pb.EventMeshFrame{Data: fmt.Append(nil, lite, "/", k)})
	}
	res, err := client.PublishLite(ctx, req)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", lite, err)
	}
	for i, e := range res.GetEvents() {
		if st := e.GetStatus(); st.GetCode() != 0 {
			return fmt.Errorf("publish event %d to %s: %w", i, lite, status.FromProto(st).Err())
		}
		if e.GetPartition() != lite {
			return fmt.Errorf("event %d of %s was answered with %v", i, lite, e)
		}
	}
	return nil
}

func openSessions(t *testing.T, n *mesh.Node, client, parent string, lites int) *servertest.Stream {
	t.Helper()
	open := &pb.OpenLite{ClientId: client, Parent: parent, AckTimeout: durationpb.New(time.Hour)}
	for i := range lites {
		open.Lites = append(open.Lites, liteID(i))
	}
	return servertest.OpenLite(t, liteOf(n), open)
}

// wantSessions wants events from to from+each-1 of each lite topic, in order.
func wantSessions(t *testing.T, got []servertest.Got, lites, from, each int) {
	t.Helper()
	next := map[string]int{}
	for _, g := range got {
		k := from + next[g.Partition]
		if g.Data() != fmt.Sprint(g.Partition, "/", k) || g.Offset != int64(k) {
			t.Fatalf("event %d of %s came as %s", k, g.Partition, servertest.Show([]servertest.Got{g}))
		}
		next[g.Partition]++
	}
	for i := range lites {
		if next[liteID(i)] != each {
			t.Fatalf("%d events of %s came, not %d", next[liteID(i)], liteID(i), each)
		}
	}
}

// savedLites reads the pull offsets that a server has saved, as bytes of a file
// that holds JSON behind a head.
func savedLites(data string) (map[string]int64, error) {
	raw, err := os.ReadFile(filepath.Join(data, "log", "cursors"))
	if err != nil {
		return nil, err
	}
	at := strings.IndexByte(string(raw), '{')
	if at < 0 {
		return nil, errors.New("there is no JSON")
	}
	var c struct {
		Topics []struct {
			Name  string           `json:"name"`
			Named map[string]int64 `json:"named"`
		} `json:"topics"`
	}
	if err := json.NewDecoder(strings.NewReader(string(raw[at:]))).Decode(&c); err != nil {
		return nil, err
	}
	saved := map[string]int64{}
	for _, topic := range c.Topics {
		for part, next := range topic.Named {
			saved[topic.Name+"/"+part] = next
		}
	}
	return saved, nil
}

// awaitSaved waits until the pull offset of each lite topic is saved at want.
func awaitSaved(t *testing.T, data, parent string, lites int, want int64) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		saved, err := savedLites(data)
		bad := ""
		for i := range lites {
			if at, ok := saved[parent+"/"+liteID(i)+"/0"]; !ok || at != want {
				bad = fmt.Sprintf("%s is saved at %d, %v", liteID(i), at, ok)
			}
		}
		if err == nil && bad == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want all saved at %d: %s %v", want, bad, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// thousandLites: 1,000 lite topics with 20 events each come in order; positions
// are saved within the interval; a kill -9 replays nothing that was DURABLE; an
// instance that knows nothing begins at the head.
func (r *rocketmq5Broker) thousandLites(t *testing.T) {
	const lites, each = 1000, 20
	parent := r.parent(t, "chat")
	n := r.node(t)
	begin := time.Now()
	fillLites(t, n, parent, lites, 0, each/2)
	published := time.Since(begin)
	begin = time.Now()
	st := openSessions(t, n, "c", parent, lites)
	opened := time.Since(begin)
	fillLites(t, n, parent, lites, each/2, each/2)
	if !st.Await(2*time.Minute, lites*each) {
		t.Fatalf("%d of %d events came", len(st.Pending()), lites*each)
	}
	took := time.Since(begin)
	got := st.Take(lites * each)
	wantSessions(t, got, lites, 0, each)
	begin = time.Now()
	st.AckDurable(got...)
	acked := time.Since(begin)
	begin = time.Now()
	awaitSaved(t, n.Data, parent, lites, each)
	t.Logf("%d events published in %v, %d lite topics opened in %v, all %d events there after %v, acked in %v, saved after %v",
		lites*each/2, published, lites, opened, lites*each, took, acked, time.Since(begin))

	fillLites(t, n, parent, lites, each, 3)
	if !st.Await(time.Minute, lites*3) {
		t.Fatalf("%d of %d events came", len(st.Pending()), lites*3)
	}
	more := st.Take(lites * 3)
	var done []servertest.Got
	for _, g := range more {
		if g.Offset == each {
			done = append(done, g)
		}
	}
	st.AckDurable(done...)
	n.Kill()
	n.Up()
	st = openSessions(t, n, "c", parent, lites)
	if !st.Await(time.Minute, lites*2) {
		t.Fatalf("%d of %d events came again", len(st.Pending()), lites*2)
	}
	again := st.Take(lites * 2)
	wantSessions(t, again, lites, each+1, 2)
	st.AckDurable(again...)
	st.Quiet(2 * time.Second)
	n.Term(30 * time.Second)
	awaitSaved(t, n.Data, parent, lites, each+3)

	fresh := r.node(t)
	st = openSessions(t, fresh, "c", parent, lites)
	if !st.Await(2*time.Minute, lites*(each+3)) {
		t.Fatalf("on a new instance %d of %d events came", len(st.Pending()), lites*(each+3))
	}
	wantSessions(t, st.Take(lites*(each+3)), lites, 0, each+3)
}

// liteRefusals: what RocketMQ cannot do is told by its name.
func (r *rocketmq5Broker) liteRefusals(t *testing.T) {
	parent, plain := r.parent(t, "refusals"), "refusals-plain"
	r.makeTopic(t, plain, "NORMAL", 1)
	n := r.node(t)
	client, ctx := liteOf(n), t.Context()
	create := func(parent, lite string) error {
		_, err := client.CreateLiteTopic(ctx, &pb.CreateLiteTopicRequest{Parent: parent, Lite: lite})
		return err
	}
	for _, c := range []struct {
		what string
		err  error
		code codes.Code
		says string
	}{
		{"create", create(parent, "a"), codes.OK, ""},
		{"a bad name", create(parent, "a.b"), codes.InvalidArgument, "A-Z"},
		{"an ordinary topic", create(plain, "a"), codes.FailedPrecondition, "+message.type=LITE"},
		{"a missing parent", create("refusals-none", "a"), codes.NotFound, "+message.type=LITE"},
		{"publish below an ordinary topic", publishLite(ctx, client, plain, "a", 0, 1), codes.FailedPrecondition, "+message.type=LITE"},
	} {
		if status.Code(c.err) != c.code || !strings.Contains(fmt.Sprint(c.err), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.what, c.err, c.code, c.says)
		}
	}
	res, err := n.Mesh.Publish(ctx, &pb.PublishRequest{Topic: parent, Events: []*pb.EventMeshFrame{{}}})
	if code := codes.Code(res.GetStatus().GetCode()); err != nil || code != codes.FailedPrecondition {
		t.Errorf("Publish to a parent: %v, %v", res, err)
	}
}

// liteLatency: an event in one of many idle lite topics comes at once.
func (r *rocketmq5Broker) liteLatency(t *testing.T) {
	const lites = 500
	parent := r.parent(t, "idle")
	n := r.node(t)
	st := openSessions(t, n, "c", parent, lites)
	client := liteOf(n)
	var worst, sum time.Duration
	const looks = 40
	for i := range looks {
		lite := liteID(i * lites / looks)
		begin := time.Now()
		if err := publishLite(t.Context(), client, parent, lite, 0, 1); err != nil {
			t.Fatal(err)
		}
		g := st.Take(1)[0]
		d := time.Since(begin)
		if g.Partition != lite {
			t.Fatalf("published to %s, got %s", lite, servertest.Show([]servertest.Got{g}))
		}
		st.AckDurable(g)
		sum, worst = sum+d, max(worst, d)
	}
	t.Logf("from publish to delivery: %v on average, %v at most", sum/looks, worst)
	if sum/looks > time.Second {
		t.Errorf("an event in an idle lite topic takes %v on average", sum/looks)
	}
}

// liteBrokerIsKilled: the broker is killed and started again while lite topics
// are read: nothing is lost and all keep their order.
func (r *rocketmq5Broker) liteBrokerIsKilled(t *testing.T) {
	const lites, each = 100, 10
	parent := r.parent(t, "killed")
	n := r.node(t)
	st := openSessions(t, n, "c", parent, lites)
	fillLites(t, n, parent, lites, 0, each)
	if !st.Await(time.Minute, lites*each) {
		t.Fatalf("%d events came", len(st.Pending()))
	}
	first := st.Take(lites * each)
	wantSessions(t, first, lites, 0, each)
	st.AckDurable(first...)
	r.kill(t, "broker")
	r.start(t, "broker")
	up := time.Now()
	deadline := up.Add(time.Minute)
	client := liteOf(n)
	for i := range lites {
		for {
			err := publishLite(t.Context(), client, parent, liteID(i), each, 1)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a minute after the broker is back: %v", err)
			}
		}
	}
	published := time.Since(up)
	if !st.Await(time.Minute, lites) {
		t.Fatalf("%d of %d events came after the broker was back", len(st.Pending()), lites)
	}
	came := time.Since(up)
	got := st.Take(lites)
	wantSessions(t, got, lites, each, 1)
	st.AckDurable(got...)
	t.Logf("after the broker was ready: published within %v, delivered within %v", published, came)
}

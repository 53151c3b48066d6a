// Package mesh holds whole servers, as processes, against what they promise on a
// real broker.
//
// # The next broker
//
// A broker takes part by one file beside kafka_mesh_test.go: a type that
// implements Broker, and a test that starts the broker and calls Run:
//
//	//go:build brokers
//
//	package brokers_test
//
//	func TestRocketMQ4Mesh(t *testing.T) {
//		b := startRocketMQ4(t) // ends with the test
//		mesh.Run(t, b)
//	}
//
// The package's TestMain has built the command already. Everything goes through
// `ackmesh serve` with Broker.Flags, and through the broker's own tools or a
// client of another make where Broker has a method for it. What a log cannot do
// is said in Traits, with the reason; the suites do not ask which broker it is.
// What only one broker can do, such as a log that is cut, is a test of its own
// beside Run, with Node for the servers.
package mesh

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/crash"
	"github.com/ackmesh/ackmesh/test/poison"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/restart"
	"github.com/ackmesh/ackmesh/test/site"
)

// Broker is a broker under test, which runs when Run is called. What fails in a
// method fails the test. Methods that change something return when every client
// sees it.
type Broker interface {
	// Flags of `ackmesh serve` that name the log and how to reach it.
	Flags() []string
	// Kill ends the broker at once, as kill -9 does. What it has written stays.
	Kill(t testing.TB)
	// Start starts it again after Kill, at the same address.
	Start(t testing.TB)
	// CreateTopic makes a topic.
	CreateTopic(t testing.TB, topic string, partitions int)
	// DeleteTopic deletes one, with its records.
	DeleteTopic(t testing.TB, topic string)
	// AddPartitions gives a topic so many partitions in all.
	AddPartitions(t testing.TB, topic string, partitions int)
	// Expire makes the broker's retention remove every record that a topic has.
	Expire(t testing.TB, topic string)
	// Groups lists the consumer groups that the broker's own tools show, those
	// of its own making left out.
	Groups(t testing.TB) []string
	// Traits are what is peculiar to it.
	Traits() Traits
}

// Traits are what is peculiar to a broker. The zero value is that of a log that
// is read by position and can do everything.
type Traits struct {
	// Pops: the log hands records out (POP) instead of being read by position.
	// Its groups are then ours and are not held against it.
	Pops bool
	// CannotExpire, CannotRecreate and CannotGrow say why Expire, DeleteTopic
	// and AddPartitions are not called; empty: they are.
	CannotExpire, CannotRecreate, CannotGrow string
}

// Site is a broker for the suites that do not know brokers.
func Site(b Broker) site.Site {
	return site.Site{
		Flags: b.Flags(),
		MakeTopic: func(t testing.TB, topic string, partitions int) {
			t.Helper()
			b.CreateTopic(t, topic, partitions)
			b.CreateTopic(t, topic+"_DLQ", partitions)
		},
		Repeats: true,
		Pops:    b.Traits().Pops,
	}
}

// Run runs every suite on a broker, one after the other.
func Run(t *testing.T, b Broker) {
	s := &suite{b: b, at: Site(b), traits: b.Traits()}
	before := b.Groups(t)
	t.Run("BrokerIsKilled", s.brokerIsKilled)
	t.Run("IdleLatency", s.idleLatency)
	t.Run("ServerIsKilled", func(t *testing.T) { crash.Run(t, s.at) })
	if !s.traits.Pops {
		t.Run("AcksOutOfOrder", func(t *testing.T) { restart.AcksOutOfOrder(t, s.at) })
		t.Run("LatestSurvives", func(t *testing.T) { restart.LatestSurvives(t, s.at) })
		t.Run("C25_LateAck", func(t *testing.T) { restart.LateAck(t, s.at) })
		t.Run("C35_OrderlyRestart", func(t *testing.T) { restart.OrderlyRestart(t, s.at) })
		t.Run("C53_Continues", func(t *testing.T) { restart.Continues(t, s.at) })
		t.Run("PoisonKillsTheServer", func(t *testing.T) { poison.KillsTheServer(t, s.at) })
	}
	t.Run("DeadLetters", s.deadLetters)
	t.Run("KeysKeepTheirOrder", s.keysKeepTheirOrder)
	t.Run("C47_SlowHoldsUpNobody", s.slowHoldsUpNobody)
	s.where(t, "TopicRecreatedUnderReader", s.traits.CannotRecreate, s.recreatedUnderReader)
	s.where(t, "TopicRecreatedWhileStopped", s.traits.CannotRecreate, s.recreatedWhileStopped)
	s.where(t, "C16_RetentionPassesPosition", s.traits.CannotExpire, s.retentionPassesPosition)
	s.where(t, "C18_PartitionsAreAdded", s.traits.CannotGrow, s.partitionsAreAdded)
	if !s.traits.Pops {
		t.Run("NoGroups", func(t *testing.T) { noGroups(t, before, b.Groups(t)) })
	}
}

// suite is what the suites share.
type suite struct {
	b      Broker
	at     site.Site
	traits Traits
}

// where runs a suite unless there is a reason that it cannot hold.
func (s *suite) where(t *testing.T, name, cannot string, run func(*testing.T)) {
	if cannot != "" {
		t.Logf("%s does not hold here: %s", name, cannot)
		return
	}
	t.Run(name, run)
}

func noGroups(t *testing.T, before, after []string) {
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Errorf("the broker had the groups %q before and has %q now", before, after)
	}
	t.Logf("groups before %q, after %q", before, after)
}

// Node is a server with clients of all its services. Its data directory is its
// own.
type Node struct {
	*process.Server
	t     *testing.T
	Mesh  pb.EventMeshClient
	Admin pb.AdminClient
}

// Start starts a server on a site. It looks at topics every 500 ms, so that
// changes show soon.
func Start(t *testing.T, at site.Site, flags ...string) *Node {
	t.Helper()
	srv := at.Start(t, filepath.Join(t.TempDir(), "data"), 1, append([]string{"--topics.refresh", "500ms"}, flags...)...)
	return &Node{Server: srv, t: t, Mesh: pb.NewEventMeshClient(srv.Dial()), Admin: pb.NewAdminClient(srv.DialAdmin())}
}

// Open opens a stream of a broadcast subscriber.
func (n *Node) Open(client, topic string, start *pb.Start) *servertest.Stream {
	n.t.Helper()
	sub := servertest.Sub(topic, pb.Mode_MODE_BROADCAST)
	sub.Start = start
	return servertest.Open(n.t, n.Mesh, &pb.Open{
		ClientId: client, AckTimeout: durationpb.New(time.Hour), Subscriptions: []*pb.Subscription{sub},
	})
}

// Publish publishes payloads under keys, which may be fewer: events without one
// have none. It tries again while the server answers that the log is not there.
func (n *Node) Publish(topic string, keys []string, data ...string) {
	n.t.Helper()
	req := &pb.PublishRequest{Topic: topic}
	for i, d := range data {
		e := &pb.EventMeshFrame{Data: []byte(d)}
		if i < len(keys) {
			e.Attributes = map[string]string{"partitionkey": keys[i]}
		}
		req.Events = append(req.Events, e)
	}
	servertest.Eventually(n.t, process.Patience, func() error { return n.publish(req) })
}

// publish publishes what is left of a request.
func (n *Node) publish(req *pb.PublishRequest) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), process.Patience)
	defer cancel()
	res, err := n.Mesh.Publish(ctx, req)
	if err != nil {
		return err
	}
	if len(res.GetEvents()) != len(req.GetEvents()) {
		return fmt.Errorf("publish: %v", res.GetStatus())
	}
	var left []*pb.EventMeshFrame
	for i, e := range res.GetEvents() {
		if e.GetStatus().GetCode() != 0 {
			left = append(left, req.GetEvents()[i])
			err = fmt.Errorf("publish: %v", e.GetStatus())
		}
	}
	req.Events = left
	return err
}

// Position is a subscriber's next offset in a partition, and its epoch.
func (n *Node) Position(topic, subscriber, partition string) (next int64) {
	n.t.Helper()
	res, err := n.Admin.GetOffsets(n.t.Context(), &pb.GetOffsetsRequest{Topic: topic, Subscriber: subscriber})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, o := range res.GetOffsets() {
		if o.GetPartition() == partition {
			return o.GetPosition()
		}
	}
	n.t.Fatalf("%s of %s has no position in partition %s: %v", subscriber, topic, partition, res)
	return 0
}

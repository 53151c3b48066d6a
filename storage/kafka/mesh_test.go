package kafka_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server"
	mesh "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/kafka"
)

// These tests run a whole instance on Kafka: what a subscriber sees when the
// log changes under it.

// instance starts one whose log is a fake cluster.
func instance(t *testing.T, c *kfake.Cluster) (*mesh.Instance, mesh.Options) {
	t.Helper()
	o := mesh.Options{
		Backend: open(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true}), Store: mesh.Store(t),
		Config: func(c *server.Config) { c.Topics.Refresh, c.Drain.Grace = 100*time.Millisecond, 100*time.Millisecond },
	}
	return mesh.Start(t, o), o
}

func subscribe(t *testing.T, in *mesh.Instance, from *pb.Start) *mesh.Stream {
	t.Helper()
	return mesh.OpenFrom(t, in.Mesh(), "c", "t", from)
}

// An event's way, and on from there after the instance was stopped and
// started.
func TestMeshSpine(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	in, o := instance(t, c)
	s := subscribe(t, in, nil)
	mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(1000)...)
	got := s.Take(1000)
	if !slices.Equal(mesh.Data(got), mesh.Numbers(1000)) {
		t.Fatalf("delivered is %s", mesh.Show(got))
	}
	s.AckDurable(got[:500]...)
	s.AckDurable(got[600:]...)
	in.Stop()
	mesh.Publish(t, mesh.Start(t, o).Mesh(), "t", "next")
	in = mesh.Start(t, o)
	s = subscribe(t, in, nil)
	again := s.Take(101)
	if !slices.Equal(mesh.Data(again)[:100], mesh.Numbers(1000)[500:600]) || again[100].Data() != "next" {
		t.Errorf("after a restart, with 500 to 599 not acked: %s", mesh.Show(again))
	}
}

// Partitions that are added while a subscriber is there reach it from their
// beginning.
func TestC18_MeshPartitionsAreAdded(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 2)
	in, _ := instance(t, c)
	s := subscribe(t, in, nil)
	if err := admin(t, c.ListenAddrs()).CreatePartitions("t", 4, nil, false); err != nil {
		t.Fatal(err)
	}
	other := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	writeKeyed(t, other, "t", 0, 200, func(n int) string { return fmt.Sprint(n) })
	if parts := s.TakeFromStart(200); len(parts) != 4 {
		t.Errorf("partitions %v", parts)
	}
}

// A stored position that retention has removed: delivery goes on at the
// minimum, and the client is told.
func TestC16_MeshRetentionPassesPosition(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	in, o := instance(t, c)
	s := subscribe(t, in, mesh.Earliest())
	mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(300)...)
	s.AckDurable(s.Take(300)[:50]...)
	in.Stop()
	if err := c.DeleteRecords("t", 0, 200); err != nil {
		t.Fatal(err)
	}
	in = mesh.Start(t, o)
	s = subscribe(t, in, nil)
	if got := s.Take(100); got[0].Offset != 200 || got[99].Offset != 299 {
		t.Errorf("delivered is %d to %d, want 200 to 299", got[0].Offset, got[99].Offset)
	}
}

// A topic that is deleted and made again under a subscriber, and grows past
// the old position: all of the new one is delivered.
func TestMeshTopicRecreated(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	in, _ := instance(t, c)
	s := subscribe(t, in, mesh.Earliest())
	mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(10)...)
	s.AckDurable(s.Take(10)...)
	if err := c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	seed(t, c, "t", 1)
	other := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, other, "t", 100, 130)
	if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); n == nil {
		t.Error("the client is not told")
	}
	for i, g := range s.Take(30) {
		if g.Offset != int64(i) {
			t.Errorf("delivery %d has the offset %d", i, g.Offset)
		}
	}
}

// A broker that answers for a while that the partition ends at 0, and refuses
// every read, moves nothing: no position, no correction; then delivery goes on.
func TestMeshMaximumIsZero(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	in, o := instance(t, c)
	s := subscribe(t, in, mesh.Earliest())
	mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(100)...)
	s.AckDurable(s.Take(100)...)
	hide := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.OffsetOutOfRange, Count: -1})
	var isOver atomic.Bool
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res, ok := listOffsets(r, 0)
		return res, nil, ok && !isOver.Load()
	})
	in.Stop()
	o.Backend = open(t, kafka.Options{Brokers: c.ListenAddrs()}) // one that has not seen the end
	in = mesh.Start(t, o)
	s = subscribe(t, in, nil)
	other := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, other, "t", 100, 101)
	s.Quiet(3 * time.Second)
	key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "0"}
	if v, ok, err := o.Store.Get(key); err != nil || !ok || v.Position != 100 || v.Epoch != 0 {
		t.Errorf("the position is %d in epoch %d: %v, %v", v.Position, v.Epoch, ok, err)
	}
	hide.Remove()
	isOver.Store(true)
	if got := s.Take(1); got[0].Offset != 100 || got[0].Epoch != 0 {
		t.Errorf("then came %s", mesh.Show(got))
	}
}

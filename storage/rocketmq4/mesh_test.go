package rocketmq4_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	mesh "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
)

// These tests run a whole instance on a fake RocketMQ, in fake time: what a
// subscriber sees when the log changes under it.

// inFakeTime runs a test on a cluster and an instance in fake time.
func inFakeTime(t *testing.T, test func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, o mesh.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pipes := new(fakebroker.Pipes)
		c := cluster(t, fakebroker.Options{Pipes: pipes})
		c.CreateTopic("t", 1)
		o := mesh.Options{
			Backend: open(t, c, rocketmq4.Options{AutoCreate: true}.Dial(pipes.Dial)), Store: mesh.Store(t),
			Config: func(c *server.Config) { c.Topics.Refresh, c.Drain.Grace = 100*time.Millisecond, 100*time.Millisecond },
		}
		test(t, c, mesh.Start(t, o), o)
	})
}

func subscribe(t *testing.T, in *mesh.Instance, from *pb.Start) *mesh.Stream {
	t.Helper()
	return mesh.OpenFrom(t, in.Mesh(), "c", "t", from)
}

// An event's way, and on from there after the instance was stopped and
// started.
func TestMeshSpine(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *fakebroker.Cluster, in *mesh.Instance, o mesh.Options) {
		s := subscribe(t, in, nil)
		mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(500)...)
		got := s.Take(500)
		if !slices.Equal(mesh.Data(got), mesh.Numbers(500)) {
			t.Fatalf("delivered is %s", mesh.Show(got))
		}
		s.AckDurable(got[:200]...)
		s.AckDurable(got[300:]...)
		in.Stop()
		in = mesh.Start(t, o)
		mesh.Publish(t, in.Mesh(), "t", "next")
		again := subscribe(t, in, nil).Take(101)
		if !slices.Equal(mesh.Data(again)[:100], mesh.Numbers(500)[200:300]) || again[100].Data() != "next" {
			t.Errorf("after a restart, with 200 to 299 not acked: %s", mesh.Show(again))
		}
	})
}

// A broker that answers 0 for the maximum for a minute moves nothing.
func TestC17_MeshMaximumIsUnknown(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, o mesh.Options) {
		s := subscribe(t, in, nil)
		mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(20)...)
		s.AckDurable(s.Take(20)...)
		zero := answerMax(c, 0)
		began := time.Now()
		waitUntil(t, began.Add(30*time.Second))
		in.Stop() // and nor does it for an instance that starts
		in = mesh.Start(t, o)
		waitUntil(t, began.Add(60*time.Second))
		zero.Remove()
		s = subscribe(t, in, nil)
		mesh.Publish(t, in.Mesh(), "t", "next")
		if got := s.Take(1); got[0].Data() != "next" || got[0].Offset != 20 {
			t.Errorf("after a minute without a maximum: %s", mesh.Show(got))
		}
		s.Quiet(time.Second)
	})
}

// A log that has lost its end: the position waits for half a minute, then goes
// down to the end, and the client is told.
func TestMeshTruncated(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, _ mesh.Options) {
		s := subscribe(t, in, nil)
		mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(20)...)
		s.AckDurable(s.Take(20)...)
		c.Truncate(master, "t", 0, 12)
		cut := time.Now()
		waitUntil(t, cut.Add(29*time.Second))
		if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); n == nil {
			t.Fatal("the client is not told")
		}
		if took := time.Since(cut); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("corrected after %v", took)
		}
		store(t, c, "t", 0, 100, 105)
		for i, g := range s.Take(5) {
			if g.Offset != int64(12+i) {
				t.Errorf("delivery %d has the offset %d", i, g.Offset)
			}
		}
	})
}

// A stored position that retention has removed: delivery goes on at the
// minimum.
func TestC16_MeshRetentionPassesPosition(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, o mesh.Options) {
		s := subscribe(t, in, mesh.Earliest())
		mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(300)...)
		s.AckDurable(s.Take(300)[:50]...)
		in.Stop()
		c.Trim(master, "t", 0, 200)
		s = subscribe(t, mesh.Start(t, o), nil)
		if got := s.Take(100); got[0].Offset != 200 || got[99].Offset != 299 {
			t.Errorf("delivered is %d to %d, want 200 to 299", got[0].Offset, got[99].Offset)
		}
	})
}

// Queues that are added while a subscriber is there reach it from their
// beginning.
func TestC18_MeshQueuesAreAdded(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, _ mesh.Options) {
		s := subscribe(t, in, nil)
		c.CreateTopic("t", 4)
		for queue := range 4 {
			store(t, c, "t", queue, 0, 50)
		}
		if parts := s.TakeFromStart(200); len(parts) != 4 {
			t.Errorf("partitions %v", parts)
		}
	})
}

// A topic that is deleted and made again under a subscriber, with fewer events
// than before, as many, or more: all of the new one is delivered.
func TestMeshTopicRecreated(t *testing.T) {
	for _, n := range []int{4, 10, 30} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *fakebroker.Cluster, in *mesh.Instance, _ mesh.Options) {
				s := subscribe(t, in, mesh.Earliest())
				mesh.Publish(t, in.Mesh(), "t", mesh.Numbers(10)...)
				s.AckDurable(s.Take(10)...)
				c.DeleteTopic("t")
				c.CreateTopic("t", 1)
				store(t, c, "t", 0, 100, 100+n)
				if n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED); n == nil {
					t.Error("the client is not told")
				}
				for i, g := range s.Take(n) {
					if g.Offset != int64(i) {
						t.Errorf("delivery %d has the offset %d", i, g.Offset)
					}
				}
			})
		})
	}
}

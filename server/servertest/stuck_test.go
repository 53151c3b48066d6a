package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// soon is how long what must happen at once may take in a bubble.
const soon = 3 * time.Second

// TestWideRecordsTakeTurns: a record that does not fit beside another
// partition's goes when that one is acked.
func TestWideRecordsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Topics.Partitions = 2 }})
		o := open("c", Sub("t", broadcast))
		room := int64(1 << 20)
		o.MaxInFlightBytes = &room
		s := Open(t, in.Mesh(), o)
		wide := strings.Repeat("x", 600<<10)
		into(t, in.Mesh(), "t", "0", wide)
		into(t, in.Mesh(), "t", "1", wide)
		first := s.Take(1)
		s.Quiet(time.Second)
		s.AckDurable(first...)
		if !s.Await(soon, 1) {
			t.Fatal("the other partition's record does not come")
		}
	})
}

// TestShareWakesWhoeverHasRoom: a share whose streams are all paused goes on
// with whichever of them resumes.
func TestShareWakesWhoeverHasRoom(t *testing.T) {
	const n = 20
	for resumed := range n {
		t.Run(fmt.Sprint(resumed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				Embedded = false
				in := Start(t, Options{})
				var streams []*Stream
				for i := range n {
					sub := Sub("t", loadBalance)
					sub.Share = "s"
					s := Open(t, in.Mesh(), open(fmt.Sprint("c", i), sub))
					s.Change(&pb.Change{Pause: []uint32{1}})
					streams = append(streams, s)
				}
				synctest.Wait()
				Publish(t, in.Mesh(), "t", "x")
				synctest.Wait()
				streams[resumed].Change(&pb.Change{Resume: []uint32{1}})
				if !streams[resumed].Await(soon, 1) {
					t.Fatal("the stream that resumed gets nothing")
				}
			})
		})
	}
}

// TestShareFindsTheOneWithRoom: streams that hold all they may do not keep the
// rest of a share from the records.
func TestShareFindsTheOneWithRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Embedded = false
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share = "s"
		for i := range 40 {
			s := Open(t, in.Mesh(), open(fmt.Sprint("idle", i), sub))
			s.Change(&pb.Change{Pause: []uint32{1}})
		}
		s := Open(t, in.Mesh(), open("busy", sub))
		for i := range 60 {
			Publish(t, in.Mesh(), "t", fmt.Sprint(i))
			if !s.Await(soon, 1) {
				t.Fatalf("record %d does not come", i)
			}
			s.Take(1)
		}
	})
}

// TestRetryOutcomesInPieces: what one batch was told RETRY of, in two commits,
// is outstanding again as a whole.
func TestRetryOutcomesInPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		store := Store(t)
		o.Store = store
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(8)...)
		got := s.Take(8)
		release := store.HoldWrites()
		s.Ack(got[0])
		synctest.Wait() // a commit of its own
		s.Ack(got[1:]...)
		synctest.Wait()
		store.FailWrites(errors.New("disk on fire"))
		release()
		for _, g := range got {
			if st := s.Outcome(g); st != retry {
				t.Fatalf("offset %d: %v", g.Offset, st)
			}
		}
		store.FailWrites(nil)
		s.AckDurable(got...)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 8 || p.GetInFlight() != 0 {
			t.Fatalf("in the end: %v", p)
		}
	})
}

// TestStoreHealsUnnoticed: deliveries go on after the store has healed, whether
// anybody tells or not.
func TestStoreHealsUnnoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		store := Store(t)
		o.Store = store
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		store.FailWrites(errors.New("disk on fire"))
		Publish(t, in.Mesh(), "t", "x")
		s.Quiet(time.Minute)
		store.FailWrites(nil)
		if !s.Await(soon, 1) {
			t.Fatal("nothing comes though the store takes writes")
		}
	})
}

// TestSeekFails: a partition whose log could not be aligned is tried again.
func TestSeekFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var faults *storagefault.Backend
		in := Start(t, Options{Wrap: func(b storage.Backend) storage.Backend {
			faults = storagefault.New(b)
			return faults
		}})
		f := faults.Inject(storagefault.Fault{Op: storagefault.Seek, Topic: "t", Times: 3, Err: errors.New("broken pipe")})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "x")
		if !s.Await(soon, 1) {
			t.Fatalf("nothing comes after %d failures", f.Hits())
		}
	})
}

// TestPositionBeforeTheEnd: who acks and half-closes is told how far it has come.
func TestPositionBeforeTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(3)...)
		s.Ack(s.Take(3)...)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if p := s.Positions["0"]; p.GetNextOffset() != 3 {
			t.Fatalf("told %v, all three are durable", p)
		}
	})
}

// growing shows only the first partitions of a topic until it grows.
type growing struct {
	storage.Backend
	topic string
	grown atomic.Bool
}

func (g *growing) Unwrap() storage.Backend { return g.Backend }

func (g *growing) cut(t storage.Topic, err error) (storage.Topic, error) {
	if t.Name == g.topic && !g.grown.Load() {
		t.Partitions = t.Partitions[:1]
	}
	return t, err
}

func (g *growing) Topic(ctx context.Context, name string) (storage.Topic, error) {
	return g.cut(g.Backend.Topic(ctx, name))
}

func (g *growing) EnsureTopic(ctx context.Context, name string) (storage.Topic, error) {
	return g.cut(g.Backend.EnsureTopic(ctx, name))
}

// failingOnce refuses the nth write that puts a position of a partition.
type failingOnce struct {
	offsetstore.Store
	partition string
	nth       atomic.Int64
}

func (f *failingOnce) Submit(txn *offsetstore.Txn, done func(error)) {
	if slices.ContainsFunc(txn.Puts, func(p offsetstore.Put) bool { return p.Key.Partition == f.partition }) && f.nth.Add(-1) == 0 {
		go done(errors.New("no luck"))
		return
	}
	f.Store.Submit(txn, done)
}

// into publishes one event into a partition of a topic.
func into(t *testing.T, mesh pb.EventMeshClient, topic, partition, data string) {
	t.Helper()
	publish := func(topic, key string) string {
		res, err := mesh.Publish(context.Background(), &pb.PublishRequest{
			Topic: topic, PartitionKey: key, Events: []*pb.EventMeshFrame{{Data: []byte(data)}},
		})
		if err != nil || res.GetStatus().GetCode() != 0 {
			t.Fatal(res, err)
		}
		return res.GetEvents()[0].GetPartition()
	}
	for i := range 100 { // a topic apart tells where a key leads
		if key := fmt.Sprint(i); publish("where", key) == partition {
			if got := publish(topic, key); got != partition {
				t.Fatalf("key %s led to partition %s, then to %s", key, partition, got)
			}
			return
		}
	}
	t.Fatalf("no key leads to partition %s", partition)
}

// TestGrowthUnderFaults: a new partition whose subscribers could not all be noted
// at once is taken up later, once, by each of them.
func TestGrowthUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Embedded = false
		grow := &growing{Backend: Log(t, 2), topic: "t"}
		store := &failingOnce{Store: Store(t), partition: "1"}
		in := Start(t, Options{Backend: grow, Store: store})
		a := Open(t, in.Mesh(), open("a", Sub("t", broadcast)))
		b := Open(t, in.Mesh(), open("b", Sub("t", broadcast)))
		store.nth.Store(2)
		grow.grown.Store(true)
		<-time.After(time.Minute)
		into(t, in.Mesh(), "t", "1", "x")
		for _, s := range []*Stream{a, b} {
			if !s.Await(soon, 1) {
				t.Fatal("nothing comes")
			}
			synctest.Wait()
			n := 0
			for _, g := range s.Pending() {
				if g.Partition == "1" {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d deliveries of one record: %s", n, Show(s.Pending()))
			}
		}
	})
}

// TestGrowthWhileOpening: nothing of a partition that appears while a stream is
// opened is delivered before Opened, and all of it after.
func TestGrowthWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Embedded = false
		grow := &growing{Backend: Log(t, 2), topic: "t"}
		var faults *storagefault.Backend
		in := Start(t, Options{Backend: grow, Wrap: func(b storage.Backend) storage.Backend {
			faults = storagefault.New(b)
			return faults
		}})
		Publish(t, in.Mesh(), "t", "make it")
		into(t, in.Mesh(), "t", "1", "x")
		f := faults.Inject(storagefault.Fault{Op: storagefault.EnsureTopic, Topic: "u", Hang: true})
		raw, err := in.Mesh().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.CloseSend() })
		two := Sub("u", broadcast)
		two.Id = 2
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open("c", Sub("t", broadcast), two)}}); err != nil {
			t.Fatal(err)
		}
		<-f.Struck()
		grow.grown.Store(true)
		<-time.After(time.Minute)
		f.Remove()
		msg, err := raw.Recv()
		if err != nil || msg.GetOpened() == nil {
			t.Fatalf("first comes %v, %v", msg, err)
		}
		msg, err = raw.Recv()
		if err != nil || msg.GetDeliveries().GetRuns()[0].GetPartition() != "1" {
			t.Fatalf("then comes %v, %v", msg, err)
		}
	})
}

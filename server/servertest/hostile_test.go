package servertest_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// TestSubscriptionsAreBounded: the limit of a stream's subscriptions holds for
// Change as for Open.
func TestSubscriptionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Limits.SubscriptionsPerStream = 3 }})
		s := Open(t, in.Mesh(), open("c", Sub("t1", broadcast)))
		add := func(id uint32, topic string) *pb.Subscription {
			return &pb.Subscription{Id: id, Topic: topic, Mode: broadcast}
		}
		res := s.Change(&pb.Change{Add: []*pb.Subscription{add(2, "t2"), add(3, "t3"), add(4, "t4")}}).GetResults()
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
			if got := codes.Code(res[i].GetStatus().GetCode()); got != want {
				t.Errorf("subscription %d: %v, want %v", res[i].GetId(), res[i].GetStatus(), want)
			}
		}
		if st := s.Change(&pb.Change{Remove: []uint32{2}, Add: []*pb.Subscription{add(5, "t5")}}).GetResults(); st[1].GetStatus().GetCode() != 0 {
			t.Errorf("after one was removed: %v", st)
		}
	})
}

// TestChangeIsBounded: one Change names no more than a stream can have.
func TestChangeIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		for _, c := range []*pb.Change{
			{Pause: make([]uint32, 100_000)},
			{Resume: make([]uint32, 100_000)},
			{Remove: make([]uint32, 100_000)},
			{Add: make([]*pb.Subscription, 100_000)},
		} {
			for i := range c.GetAdd() {
				c.Add[i] = &pb.Subscription{}
			}
			s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Change{Change: c}})
			if err := s.End(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("100,000 ids: %v", err)
			}
		}
	})
}

// TestOpenIsBounded: what does not fit a stream is refused before it is unpacked.
func TestOpenIsBounded(t *testing.T) {
	in := Start(t, Options{})
	o := open("c")
	o.Subscriptions = make([]*pb.Subscription, 1<<20)
	empty := &pb.Subscription{}
	for i := range o.Subscriptions {
		o.Subscriptions[i] = empty
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := TryOpen(t, in.Mesh(), o)
	runtime.ReadMemStats(&after)
	if err := s.End(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a million subscriptions: %v", err)
	}
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 60 {
		t.Errorf("%d MiB were allocated for a message of 2 MiB", n)
	}
}

// TestWhoDoesNotReadIsEnded: a client that asks and asks and does not read has its
// stream ended, before its answers fill the memory.
func TestWhoDoesNotReadIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Embedded = false
		in := Start(t, Options{})
		raw, err := in.Mesh().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open("c", Sub("t", broadcast))}}); err != nil {
			t.Fatal(err)
		}
		ids := make([]uint32, 1000)
		for i := range ids {
			ids[i] = 7
		}
		for range 1000 { // each answer has some 70 KiB
			if err = raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Change{Change: &pb.Change{Pause: ids}}}); err != nil {
				break
			}
			synctest.Wait()
		}
		answers := 0
		for err = nil; err == nil && answers < 1000; answers++ {
			_, err = raw.Recv()
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("after %d answers: %v", answers, err)
		}
	})
}

// TestResumeOfABadEpoch: what a client says of epochs leaves room for resets.
func TestResumeOfABadEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		Publish(t, in.Mesh(), "t", Numbers(3)...)
		sub := Sub("t", broadcast)
		sub.Start = Earliest()
		o := open("c", sub)
		o.Resume = []*pb.Position{{Topic: "t", Subscriber: "client/c", Partition: "0", NextOffset: 1, Epoch: math.MaxUint64}}
		s := Open(t, in.Mesh(), o)
		s.Await(time.Second, 3)
		s.Take(len(s.Pending()))
		_, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest()})
		if err != nil {
			t.Fatal(err)
		}
		s.AckDurable(s.Take(3)...)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 3 {
			t.Errorf("three acks after a reset, then: %v", p)
		}
	})
}

// TestEndOfTheLogIsDoubtedAfresh: that the end of a log was hidden once, for a
// while, does not shorten the wait when it is hidden again.
func TestEndOfTheLogIsDoubtedAfresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var faults *storagefault.Backend
		in := Start(t, Options{Wrap: func(b storage.Backend) storage.Backend {
			faults = storagefault.New(b)
			return faults
		}})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		for i := range 3 {
			hidden := faults.Inject(storagefault.Fault{Op: storagefault.Poll, Topic: "t", Err: &storage.RangeError{
				Topic: "t", Partition: "0", Offset: int64(i + 1), Min: 0, Max: 0,
			}})
			Publish(t, in.Mesh(), "t", "x")
			<-time.After(35 * time.Second / 2)
			hidden.Remove()
			s.AckDurable(s.Take(1)...)
			<-time.After(time.Minute)
		}
		if n := in.Server.Metrics().Corrected.Load(); n != 0 {
			t.Errorf("%d corrections, though the end was never hidden for 30 s", n)
		}
	})
}

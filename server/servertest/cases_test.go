package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

const (
	broadcast   = pb.Mode_MODE_BROADCAST
	loadBalance = pb.Mode_MODE_LOAD_BALANCE
	durable     = pb.AckResult_STATUS_DURABLE
	unknown     = pb.AckResult_STATUS_UNKNOWN
	retry       = pb.AckResult_STATUS_RETRY
)

func open(client string, subs ...*pb.Subscription) *pb.Open {
	return &pb.Open{ClientId: client, Subscriptions: subs}
}

func seq(from, n int64) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = from + int64(i)
	}
	return list
}

func wantOffsets(t *testing.T, got []Got, want []int64) {
	t.Helper()
	if !slices.Equal(Offsets(got), want) {
		t.Fatalf("offsets %v, want %v", Offsets(got), want)
	}
}

func wantAttempts(t *testing.T, got []Got, attempt int32) {
	t.Helper()
	for _, g := range got {
		if g.Attempt != attempt {
			t.Fatalf("attempt %d, want %d: %s", g.Attempt, attempt, Show([]Got{g}))
		}
	}
}

// bubble runs a test with fake time, on a log in memory and on the embedded one.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	for _, Embedded = range []bool{true, false} {
		t.Run(map[bool]string{true: "embedded", false: "memory"}[Embedded], func(t *testing.T) { synctest.Test(t, fn) })
	}
}

// position is what Admin says of the one partition of the one subscriber.
func position(t *testing.T, in *Instance, topic, sub string) *pb.PartitionOffsets {
	t.Helper()
	res, err := in.Admin().GetOffsets(context.Background(), &pb.GetOffsetsRequest{Topic: topic, Subscriber: sub})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetOffsets()) != 1 {
		t.Fatalf("offsets of %s on %s: %v", sub, topic, res.GetOffsets())
	}
	return res.GetOffsets()[0]
}

// TestC03_HandoverIsNoProgress: a client that dies with frames in its transport
// buffers has finished none of them.
func TestC03_HandoverIsNoProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		mesh := in.Mesh()
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, mesh, "t", Numbers(50)...)
		s.Take(50)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 0 || p.GetInFlight() != 50 || p.GetLag() != 50 {
			t.Fatalf("before any ack: %v", p)
		}
		s.Break()
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got := s.Take(50)
		wantOffsets(t, got, seq(0, 50))
		wantAttempts(t, got, 2)
	})
}

// TestC15_OneConvention: a position is what comes next, across a clean restart.
func TestC15_OneConvention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		got := s.Take(20)
		s.AckDurable(got[:8]...)
		in.Stop()
		in = Start(t, o)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 8 {
			t.Fatalf("position %d after acks of 0..7", p.GetPosition())
		}
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got = s.Take(12)
		wantOffsets(t, got, seq(8, 12))
		s.AckDurable(got...)
		in.Stop()
		in = Start(t, o)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		s.Quiet(time.Minute)
	})
}

// TestC25_StaleIDs: an ack kept from before a restart touches nothing.
func TestC25_StaleIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "a")
		old := s.Take(1)[0]
		in.Stop()
		in = Start(t, o)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		again := s.Take(1)[0]
		if again.ID == old.ID {
			t.Fatalf("delivery id %d was used twice", old.ID)
		}
		s.Ack(old)
		if st := s.Outcome(old); st != unknown {
			t.Fatalf("ack of an id of another stream: %v", st)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 0 || p.GetInFlight() != 1 {
			t.Fatalf("a stale ack moved something: %v", p)
		}
		s.AckDurable(again)
	})
}

// TestC26_LateAck: an ack of an earlier holder finishes the record, and whoever
// holds it now is told DURABLE when it acks too.
func TestC26_LateAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		share := func(client string) *Stream {
			sub := Sub("t", loadBalance)
			sub.Share = "s"
			o := open(client, sub)
			o.AckTimeout = durationpb.New(time.Second)
			return Open(t, in.Mesh(), o)
		}
		c1 := share("c1")
		Publish(t, in.Mesh(), "t", "m")
		first := c1.Take(1)[0]
		c1.Change(&pb.Change{Pause: []uint32{1}})
		c2 := share("c2")
		second := c2.Take(1)[0]
		if second.Attempt != 2 {
			t.Fatalf("attempt %d after a timeout", second.Attempt)
		}
		c1.AckDurable(first)
		c2.AckDurable(second)
		if p := position(t, in, "t", "share/s"); p.GetPosition() != 1 || p.GetInFlight() != 0 || p.GetWaiting() != 0 {
			t.Fatalf("at the end: %v", p)
		}
		c1.Ack(first)
		if st := c1.Outcome(first); st != unknown {
			t.Fatalf("third ack: %v", st)
		}
		c2.Quiet(time.Hour)
	})
}

// TestC29_DeadlineStartsAtHandOver: with one slot and a slow handler nothing
// times out in a queue.
func TestC29_DeadlineStartsAtHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		one := int32(1)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight, o.AckTimeout = &one, durationpb.New(2*time.Second)
		s := Open(t, in.Mesh(), o)
		Publish(t, in.Mesh(), "t", Numbers(20)...)
		for i := range int64(20) {
			got := s.Take(1)
			wantOffsets(t, got, seq(i, 1))
			wantAttempts(t, got, 1)
			s.Quiet(1500 * time.Millisecond)
			s.AckDurable(got...)
		}
		s.Quiet(time.Minute)
	})
}

// TestC37_OrderOfReturn: what comes again comes in offset order.
func TestC37_OrderOfReturn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		s.Take(10)
		s.Break()
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got := s.Take(10)
		wantOffsets(t, got, seq(0, 10))
		wantAttempts(t, got, 2)
		in.Stop()
		in = Start(t, o)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got = s.Take(10)
		wantOffsets(t, got, seq(0, 10))
		wantAttempts(t, got, 3)
	})
}

// TestC61_NewStreamTakesOver: the second stream of a client gets the
// subscription, the first is told and ends.
func TestC61_NewStreamTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		mesh := in.Mesh()
		old := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, mesh, "t", Numbers(3)...)
		old.Take(3)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		got := s.Take(3)
		wantOffsets(t, got, seq(0, 3))
		old.Notice(pb.Notice_KIND_SUPERSEDED)
		if err := old.End(); status.Code(err) != codes.Aborted {
			t.Fatalf("the old stream ended with %v", err)
		}
		s.AckDurable(got...)
		Publish(t, mesh, "t", "next")
		wantOffsets(t, s.Take(1), seq(3, 1))
	})
}

// TestC61_LateEndOfOldStream: when the old stream's death is noticed after the
// new one is open, the new one keeps everything.
func TestC61_LateEndOfOldStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := Sub("t", loadBalance)
		sub.Share = "s"
		old := Open(t, in.Mesh(), open("c", sub))
		s := Open(t, in.Mesh(), open("c", sub))
		old.Break()
		Publish(t, in.Mesh(), "t", Numbers(5)...)
		got := s.Take(5)
		wantAttempts(t, got, 1)
		s.AckDurable(got...)
		s.Quiet(time.Hour)
	})
}

// TestC63_NamesDoNotCollide: names with separators in them own positions of
// their own; illegal and reserved ones are refused.
func TestC63_NamesDoNotCollide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		mesh := in.Mesh()
		pairs := [][2]string{{"a#b", "c"}, {"a", "b#c"}, {"a/b", "c|d"}, {"a:1", "1:a"}, {"日本", "日/本"}}
		for _, p := range pairs {
			s := Open(t, in.Mesh(), open(p[1], Sub(p[0], broadcast)))
			Publish(t, mesh, p[0], "x", "y")
			s.AckDurable(s.Take(2)[:1]...)
		}
		for _, p := range pairs {
			if got := position(t, in, p[0], "client/"+p[1]); got.GetPosition() != 1 {
				t.Errorf("topic %q client %q is at %d", p[0], p[1], got.GetPosition())
			}
		}
		for _, bad := range []string{"", "__mqcursor__", "a\x00b", string(make([]byte, 300)), "\xff"} {
			if bad == "\xff" {
				continue // protobuf refuses it before us
			}
			s := TryOpen(t, in.Mesh(), open(bad, Sub("t", broadcast)))
			if err := s.End(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("client %q: %v", bad, err)
			}
		}
		s := TryOpen(t, in.Mesh(), open("c", Sub("bad\ttopic", broadcast)))
		if st := s.Opened.GetResults()[0].GetStatus(); codes.Code(st.GetCode()) != codes.InvalidArgument {
			t.Errorf("illegal topic: %v", st)
		}
	})
}

// TestC78_IllegalExtensions: what CloudEvents does not allow is refused, event by
// event; the rest comes through byte by byte.
func TestC78_IllegalExtensions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		long := string(slices.Repeat([]byte("v"), 4096))
		good := map[string]string{"id": "1", "source": "s", "type": "x", "time": "2026-01-02T03:04:05.123456789Z", "ext1": long}
		bad := []map[string]string{
			{"my-ext": "v"},
			{"MyExt": "v"},
			{"event_source": "v"},
			{"": "v"},
			{string(slices.Repeat([]byte("n"), 257)): "v"},
			{"ext": long + "v"},
		}
		req := &pb.PublishRequest{Topic: "t"}
		for _, attrs := range bad {
			req.Events = append(req.Events, &pb.EventMeshFrame{Attributes: attrs})
		}
		data := []byte{0, 1, 2, 0xff, 0xfe}
		req.Events = append(req.Events, &pb.EventMeshFrame{Attributes: good, Data: data})
		res, err := in.Mesh().Publish(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		for i := range bad {
			if c := codes.Code(res.GetEvents()[i].GetStatus().GetCode()); c != codes.InvalidArgument {
				t.Errorf("illegal event %d: %v", i, c)
			}
		}
		if st := res.GetEvents()[len(bad)].GetStatus(); st.GetCode() != 0 {
			t.Fatalf("the legal event: %v", st)
		}
		first := s.Take(1)
		s.AckDurable(first...)
		got := first[0].Frame
		if fmt.Sprint(got.GetAttributes()) != fmt.Sprint(good) || string(got.GetData()) != string(data) {
			t.Fatalf("came as %v", got)
		}
		s.Quiet(time.Minute)
	})
}

// TestC79_StampsAreTheMeshs: a publisher cannot set what only the mesh stamps.
func TestC79_StampsAreTheMeshs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		for _, name := range []string{"empopck", "emmqoffset", "emmqpartition", "emdlqid", "emdlqanything", "emtosubscriber"} {
			res, err := in.Mesh().Publish(context.Background(), &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{Attributes: map[string]string{name: "1"}}}})
			if err != nil {
				t.Fatal(err)
			}
			if c := codes.Code(res.GetEvents()[0].GetStatus().GetCode()); c != codes.InvalidArgument {
				t.Errorf("%s: %v", name, c)
			}
		}
		s.Quiet(time.Minute)
	})
}

// TestC67_DrainIsBounded: clients that ignore everything do not hold up a stop.
func TestC67_DrainIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		var streams []*Stream
		for i := range 50 {
			streams = append(streams, Open(t, in.Mesh(), open(fmt.Sprint("c", i), Sub("t", broadcast))))
		}
		Publish(t, in.Mesh(), "t", "a", "b")
		held := streams[0].Take(2)
		begin := time.Now()
		stopped := make(chan struct{})
		go func() { defer close(stopped); in.Stop() }()
		streams[0].Notice(pb.Notice_KIND_DRAINING)
		streams[0].AckDurable(held[0])
		<-stopped
		if took := time.Since(begin); took > 15*time.Second {
			t.Fatalf("stopping took %v", took)
		}
		if err := streams[1].End(); status.Code(err) != codes.Unavailable {
			t.Errorf("a stream ended with %v", err)
		}
		in = Start(t, o)
		s := Open(t, in.Mesh(), open("c0", Sub("t", broadcast)))
		wantOffsets(t, s.Take(1), seq(1, 1))
	})
}

// TestC07_AckThatCannotBeStored: the client is told RETRY, nothing moves, and the
// same delivery can be acked once the store has healed.
func TestC07_AckThatCannotBeStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := Store(t)
		in := Start(t, Options{Store: store})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "a")
		got := s.Take(1)[0]
		store.FailWrites(errors.New("disk on fire"))
		s.Ack(got)
		if st := s.Outcome(got); st != retry {
			t.Fatalf("ack while the store fails: %v", st)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 0 || p.GetInFlight() != 1 {
			t.Fatalf("after a failed ack: %v", p)
		}
		store.FailWrites(nil)
		s.AckDurable(got)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 1 {
			t.Fatalf("after the second ack: %v", p)
		}
	})
}

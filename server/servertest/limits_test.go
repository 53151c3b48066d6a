package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestMemoryOfManyPartitions: the records in memory stay within memory.limit
// however many partitions wait for their clients, and all arrive when these read.
func TestMemoryOfManyPartitions(t *testing.T) {
	const partitions, records, size, limit = 200, 5000, 8000, 16 << 20
	in := Start(t, Options{
		Backend: Log(t, partitions),
		Config:  func(c *server.Config) { c.Memory.Limit = limit },
	})
	mesh := in.Mesh()
	padding := strings.Repeat("x", size)
	for i := range records / 50 {
		for k := range 5 {
			req := &pb.PublishRequest{Topic: "t", PartitionKey: fmt.Sprint(i, "/", k)}
			for range 10 {
				req.Events = append(req.Events, &pb.EventMeshFrame{Data: []byte(padding)})
			}
			if res, err := mesh.Publish(context.Background(), req); err != nil || res.GetStatus().GetCode() != 0 {
				t.Fatal(res, err)
			}
		}
	}
	one, thousand := int32(1), int32(1000)
	sub := Sub("t", broadcast)
	sub.Start = Earliest()
	op := open("c", sub)
	op.MaxInFlight = &one
	s := Open(t, mesh, op)
	held, m := s.Take(1), in.Server.Metrics()
	most := int64(0)
	look := func() { most = max(most, m.WindowBytes.Load()+m.QueuedBytes.Load()) }
	for reads := int64(-1); m.Reads.Load() != reads; { // until all wait
		reads = m.Reads.Load()
		for range 20 {
			look()
			<-time.After(10 * time.Millisecond)
		}
	}
	s.Change(&pb.Change{Window: &pb.Window{MaxInFlight: &thousand}})
	s.Ack(held...)
	for n := 1; n < records; n++ {
		s.Ack(s.Take(1)...)
		look()
	}
	t.Logf("at most %d KiB of %d MiB in memory, %d reads", most>>10, records*size>>20, m.Reads.Load())
	if most > limit {
		t.Errorf("%d bytes in memory, %d are allowed", most, limit)
	}
}

// wide opens a stream of a share on a connection that takes messages up to most
// bytes and no larger.
func wide(t *testing.T, in *Instance, client string, most int32, window int32) *Stream {
	t.Helper()
	op := open(client, shareSub("t", "s"))
	op.MaxMessageBytes, op.MaxInFlight = most, &window
	return Open(t, pb.NewEventMeshClient(in.Dial(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(int(most))))), op)
}

// TestShareOfUnequalLimits: what one stream of a share cannot take goes to one
// that can, as a first attempt, and holds nobody up while that one is busy; it is
// a dead letter only when nobody can.
func TestShareOfUnequalLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		small, large := wide(t, in, "small", 3000, 1000), wide(t, in, "large", 100_000, 1)
		synctest.Wait() // both have joined in each partition
		big := strings.Repeat("x", 5000)
		var data []string
		for i := range 200 {
			data = append(data, fmt.Sprint("m", i))
			if i%40 == 20 {
				data = append(data, big)
			}
		}
		Publish(t, in.Mesh(), "t", data...)
		if !small.Await(time.Second, 190) { // the other one holds what it has
			t.Fatalf("the stream of the small limit: %v", small.End())
		}
		bigs, smalls := 0, 0
		for bigs < 5 {
			got := large.Take(1)
			wantAttempts(t, got, 1)
			if got[0].Data() == big {
				bigs++
			} else {
				smalls++
			}
			large.AckDurable(got...)
		}
		got := small.Take(200 - smalls)
		wantAttempts(t, got, 1)
		small.AckDurable(got...)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Fatalf("%d dead letters", n)
		}

		Publish(t, in.Mesh(), "t", big)
		wantAttempts(t, large.Take(1), 1)
		if err := large.CloseSend(); err != nil { // gives it back: nobody can take it now
			t.Fatal(err)
		}
		list := untilLetters(t, in, "t", 1)
		if !strings.HasPrefix(list[0].GetReason(), "TOO_LARGE") {
			t.Errorf("reason %q", list[0].GetReason())
		}
		if p := position(t, in, "t", "share/s"); p.GetPosition() != int64(len(data)+1) {
			t.Errorf("floor at %d, want %d", p.GetPosition(), len(data)+1)
		}
	})
}

// TestMessagesWithinTheLimit: small records for a client of a small limit come in
// messages that it takes.
func TestMessagesWithinTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := wide(t, in, "c", 2000, 1000)
		Publish(t, in.Mesh(), "t", Numbers(500)...)
		s.AckDurable(s.Take(500)...)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// TestLargeRecordAfterARestart: what only one stream of a share can take goes to
// it as soon as it has room, though after a restart the other one, which cannot, is
// tried first.
func TestLargeRecordAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		for _, topic := range []string{"t", "where"} {
			if _, err := in.Admin().CreateTopic(t.Context(), &pb.CreateTopicRequest{Topic: topic, Partitions: 2}); err != nil {
				t.Fatal(err)
			}
		}
		large := wide(t, in, "large", 100_000, 1)
		into(t, in.Mesh(), "t", "0", strings.Repeat("x", 5000))
		got := large.Take(1)
		large.Nack(got...)
		large.Outcome(got[0])
		in.Stop()
		in = Start(t, o)
		large = wide(t, in, "large", 100_000, 1)
		into(t, in.Mesh(), "t", "1", "m")
		other := large.Take(1)
		wide(t, in, "small", 3000, 1000).Quiet(10 * time.Second)
		large.AckDurable(other...)
		again := large.Take(1)
		wantAttempts(t, again, 2)
		large.AckDurable(again...)
	})
}

// TestAckResultsWithinTheLimit: what a client of a small limit is told of many acks,
// and of many records finished above its position, it is told in messages that it
// takes.
func TestAckResultsWithinTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := wide(t, in, "c", 2000, 1000)
		Publish(t, in.Mesh(), "t", Numbers(1000)...)
		got := s.Take(1000)
		var every []Got
		for i := 1; i < len(got); i += 2 {
			every = append(every, got[i])
		}
		s.AckDurable(every...)
		if !s.Await(2*time.Second, 1) && s.Positions["0"] == nil {
			t.Errorf("no position was told: %v", s.End())
		}
		if n := s.LargestControl(); n > 2000 {
			t.Errorf("a message of %d bytes", n)
		}
	})
}

// TestPositionsWithinTheLimit: so it is with the positions of many partitions, at the
// end of a stream too.
func TestPositionsWithinTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const partitions, limit = 30, 12_000
		in := Start(t, Options{Config: func(c *server.Config) { c.Topics.Partitions = partitions }})
		topic := strings.Repeat("long", 60)
		op, window := open("c", shareSub(topic, "s")), int32(64*partitions)
		op.MaxMessageBytes, op.MaxInFlight = limit, &window
		s := Open(t, pb.NewEventMeshClient(in.Dial(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit)))), op)
		Publish(t, in.Mesh(), topic, Numbers(64*partitions)...)
		var every []Got
		for _, g := range s.Take(64 * partitions) {
			if g.Offset%2 == 1 {
				every = append(every, g)
			}
		}
		s.Ack(every...)
		clear(s.Positions)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Positions {
			if n := len(p.GetFinishedAhead()); n != 32 {
				t.Errorf("partition %s: %d ranges were told", p.GetPartition(), n)
			}
		}
		if len(s.Positions) != partitions {
			t.Errorf("%d positions were told", len(s.Positions))
		}
	})
}

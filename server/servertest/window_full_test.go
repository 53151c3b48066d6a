package servertest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestWindowAlmostFull: partitions for whose next record the rest of a stream's
// window is too small wait for an ack. They do not wake one another meanwhile, for
// that would go on as long as the client takes; in a bubble time would not pass.
func TestWindowAlmostFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Topics.Partitions = 4 }})
		for i := range 12 {
			req := &pb.PublishRequest{Topic: "t", PartitionKey: fmt.Sprint("k", i)}
			for range 4 {
				req.Events = append(req.Events, &pb.EventMeshFrame{Data: []byte(strings.Repeat("x", 300))})
			}
			if _, err := in.Mesh().Publish(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		sub := Sub("t", broadcast)
		sub.Start = Earliest()
		o, window := open("c", sub), int64(2000)
		o.MaxInFlightBytes = &window
		s := Open(t, in.Mesh(), o)
		seen := map[string]bool{}
		for range 48 {
			<-time.After(time.Second)
			got := s.Take(1)
			s.AckDurable(got...)
			seen[got[0].Partition] = true
		}
		if len(seen) < 2 {
			t.Errorf("the events were in partitions %v", seen)
		}
	})
}

// TestWindowAlmostFullOfAShare: a stream whose window has no room for the next
// record, though it has for many smaller ones, does not keep it from the others of
// the share.
func TestWindowAlmostFullOfAShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		sub := shareSub("t", "s")
		full, window := open("full", sub), int64(1500)
		full.MaxInFlightBytes = &window
		slow := Open(t, in.Mesh(), full)
		few, records := open("few", sub), int32(2)
		few.MaxInFlight = &records
		fast := Open(t, in.Mesh(), few)
		for range 40 {
			Publish(t, in.Mesh(), "t", strings.Repeat("x", 300))
		}
		begin := time.Now()
		for left := 40 - len(slow.Pending()); left > 0; left-- {
			fast.AckDurable(fast.Take(1)...)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the others of the share waited %v", took)
		}
	})
}

// TestWindowAlmostFullOfPops: so do the feeds of a log that hands records out.
func TestWindowAlmostFullOfPops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := popping(t, 1)
		var subs []*pb.Subscription
		for i := range 3 {
			sub := Sub(fmt.Sprint("t", i), broadcast)
			sub.Id = uint32(i + 1)
			subs = append(subs, sub)
		}
		o, window := open("c", subs...), int64(2000)
		o.MaxInFlightBytes = &window
		s := Open(t, p.in.Mesh(), o)
		for i := range 3 {
			for range 10 {
				Publish(t, p.in.Mesh(), fmt.Sprint("t", i), strings.Repeat("x", 300))
			}
		}
		for range 30 {
			<-time.After(time.Second)
			s.AckDurable(s.Take(1)...)
		}
	})
}

package servertest_test

import (
	"fmt"
	"strings"
	"testing"
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

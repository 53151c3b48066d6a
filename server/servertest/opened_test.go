package servertest_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestOpenedIsBounded: however many gaps a subscriber has, Opened is a message that
// its client can take: else it could never come back.
func TestOpenedIsBounded(t *testing.T) {
	const partitions, gaps = 16, 1000
	in := Start(t, Options{Config: func(c *server.Config) { c.Topics.Partitions = partitions }})
	mesh := in.Mesh()
	o := open("c", Sub("t", broadcast))
	o.MaxInFlight = proto.Int32(100_000)
	s := Open(t, mesh, o)
	for range 4 {
		Publish(t, mesh, "t", Numbers(2*partitions*gaps/4)...)
	}
	var odd []Got
	for _, g := range s.Take(2 * partitions * gaps) {
		if g.Offset%2 == 1 {
			odd = append(odd, g)
		}
	}
	s.AckDurable(odd...)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	s = Open(t, mesh, o)
	ranges := 0
	for _, p := range s.Opened.GetPositions() {
		ranges += len(p.GetFinishedAhead())
	}
	if n := len(s.Opened.GetPositions()); n != partitions || ranges > 10_000 {
		t.Errorf("%d positions with %d ranges, %d bytes", n, ranges, proto.Size(s.Opened))
	}
}

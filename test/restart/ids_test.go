//go:build long

package restart

import (
	"fmt"
	"path/filepath"
	"testing"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/tmpfs"
)

// TestC25_LateAck: an ack that was kept for a delivery of an earlier life
// finishes nothing.
func TestC25_LateAck(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", "a", "b")
	old := s.Take(2)
	s.AckDurable(old[0])
	m.crash()
	s = m.open("c", "t")
	b := s.Take(1)
	are(t, b, 2, 1)
	s.Ack(old[0], old[1])
	for _, g := range old {
		if st := s.Outcome(g); st != pb.AckResult_STATUS_UNKNOWN {
			t.Errorf("the ack of an earlier life is %v, not UNKNOWN", st)
		}
	}
	if n := m.position("t", "client/c"); n != 1 {
		t.Errorf("the position is %d, not 1", n)
	}
	s.AckDurable(b...)
}

// TestC25_UniqueIDs: delivery ids never repeat over 1,000 restarts.
func TestC25_UniqueIDs(t *testing.T) {
	const restarts = 1000
	data := filepath.Join(tmpfs.Mount(t, 300<<20), "data") // nothing is waited for on a disk
	seen := map[uint64]int{}
	for round := range restarts {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			in := Start(t, Options{Real: true, Config: func(c *server.Config) {
				c.Storage, c.Data = server.StorageEmbedded, data
				c.Retention.Size = 64 << 20
			}})
			mesh := in.Mesh()
			s := Open(t, mesh, &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{Sub("t", pb.Mode_MODE_BROADCAST)}})
			Publish(t, mesh, "t", "a", "b")
			got := s.Take(2)
			for _, g := range got {
				if before, ok := seen[g.ID]; ok {
					t.Fatalf("delivery id %d of life %d came in life %d already", g.ID, round, before)
				}
				seen[g.ID] = round
			}
			s.AckDurable(got...)
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

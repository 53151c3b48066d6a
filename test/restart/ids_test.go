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

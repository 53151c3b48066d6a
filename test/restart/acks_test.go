//go:build long

package restart

import (
	"math/rand/v2"
	"testing"

	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestC24_AckedIsStored: 1,000 records are acked one by one and the server is
// killed right after the answer to one of them, 50 times. What was answered
// DURABLE is stored, and the store opens every time.
func TestC24_AckedIsStored(t *testing.T) {
	const rounds, records = 50, 1000
	m := start(t)
	base := int64(0)
	for round := range rounds {
		n := 1 + rand.IntN(records)
		s := m.open("c", "t")
		m.publish("t", Numbers(n)...)
		for i, g := range s.Take(n) {
			if g.Offset != base+int64(i) || g.Attempt != 1 {
				t.Fatalf("round %d: delivery %d is %s", round, i, Show([]Got{g}))
			}
			s.AckDurable(g)
		}
		m.crash()
		base += int64(n)
		if p := m.position("t", "client/c"); p != base {
			t.Fatalf("round %d: %d acks were DURABLE and the position is %d", round, base, p)
		}
	}
}

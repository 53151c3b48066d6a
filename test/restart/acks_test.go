//go:build long

package restart

import (
	"math/rand/v2"
	"testing"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestAcksOutOfOrder: 9, 3 and 7 of 0 to 9 are acked. After kill -9 the others
// come again with attempt 2, what was never sent comes with attempt 1, and
// after another kill -9 they come with attempt 3, one at a time: they were in
// flight in two crashes.
func TestAcksOutOfOrder(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(10)...)
	got := s.Take(10)
	are(t, got, 1, upTo(0, 9)...)
	s.AckDurable(got[9], got[3], got[7])
	s.Change(&pb.Change{ChangeId: 1, Pause: []uint32{1}})
	m.publish("t", "a", "b", "c")
	if n := m.position("t", "client/c"); n != 0 {
		t.Fatalf("the position is %d, not 0", n)
	}
	m.crash()

	s = m.open("c", "t")
	again, fresh := split(s.Take(10))
	are(t, again, 2, 0, 1, 2, 4, 5, 6, 8)
	are(t, fresh, 1, 10, 11, 12)
	s.Quiet(quiet)
	m.crash()

	s = m.open("c", "t")
	var third, second []Got
	for range 10 {
		g := s.Take(1)
		s.AckDurable(g...)
		if g[0].Offset < 10 {
			third = append(third, g...)
		} else {
			second = append(second, g...)
		}
	}
	are(t, third, 3, 0, 1, 2, 4, 5, 6, 8)
	are(t, second, 2, 10, 11, 12)
	s.Quiet(quiet)
	if n := m.position("t", "client/c"); n != 13 {
		t.Fatalf("the position is %d, not 13", n)
	}
	m.crash()
	s = m.open("c", "t")
	s.Quiet(quiet)
}

// split divides deliveries into those that come again and those that come for
// the first time.
func split(got []Got) (again, fresh []Got) {
	for _, g := range got {
		if g.Attempt > 1 {
			again = append(again, g)
		} else {
			fresh = append(fresh, g)
		}
	}
	return again, fresh
}

// TestLatestSurvives: a subscriber that asked for no start and has acked
// nothing gets everything that was appended after its Opened, whatever crashes.
func TestLatestSurvives(t *testing.T) {
	m := start(t)
	m.publish("t", Numbers(5)...)
	for _, client := range []string{"idle", "busy"} {
		m.open(client, "t").Quiet(0)
	}
	m.crash()

	m.publish("t", "a", "b")
	s := m.open("busy", "t")
	are(t, s.Take(2), 1, 5, 6)
	m.crash()

	m.publish("t", "c")
	s = m.open("busy", "t")
	again, fresh := split(s.Take(3))
	are(t, again, 2, 5, 6)
	are(t, fresh, 1, 7)
	are(t, m.open("idle", "t").Take(3), 1, 5, 6, 7)
	m.open("new", "t").Quiet(quiet)
}

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

// TestC53_Continues: what is acked after a restart moves the position on, and
// nothing that was acked comes again.
func TestC53_Continues(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(100)...)
	s.AckDurable(s.Take(100)...)
	m.restart()

	s = m.open("c", "t")
	m.publish("t", Numbers(10)...)
	got := s.Take(10)
	are(t, got, 1, upTo(100, 109)...)
	s.AckDurable(got...)
	m.restart()

	if n := m.position("t", "client/c"); n != 110 {
		t.Fatalf("the position is %d, not 110", n)
	}
	s = m.open("c", "t")
	s.Quiet(quiet)
}

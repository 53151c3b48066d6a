package restart

import (
	"testing"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/site"
)

// AcksOutOfOrder: 9, 3 and 7 of 0 to 9 are acked. After kill -9 the others
// come again with attempt 2, what was never sent comes with attempt 1, and
// after another kill -9 they come with attempt 3, one at a time: they were in
// flight in two crashes.
func AcksOutOfOrder(t *testing.T, at site.Site) {
	m := startAt(t, at)
	s := m.open("c", m.topic)
	m.publish(m.topic, servertest.Numbers(10)...)
	got := s.Take(10)
	are(t, got, 1, upTo(0, 9)...)
	s.AckDurable(got[9], got[3], got[7])
	s.Change(&pb.Change{ChangeId: 1, Pause: []uint32{1}})
	m.publish(m.topic, "a", "b", "c")
	if n := m.position(m.topic, "client/c"); n != 0 {
		t.Fatalf("the position is %d, not 0", n)
	}
	m.crash()

	s = m.open("c", m.topic)
	again, fresh := split(s.Take(10))
	are(t, again, 2, 0, 1, 2, 4, 5, 6, 8)
	are(t, fresh, 1, 10, 11, 12)
	s.Quiet(quiet)
	m.crash()

	s = m.open("c", m.topic)
	var third, second []servertest.Got
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
	if n := m.position(m.topic, "client/c"); n != 13 {
		t.Fatalf("the position is %d, not 13", n)
	}
	m.crash()
	s = m.open("c", m.topic)
	s.Quiet(quiet)
}

// split divides deliveries into those that come again and those that come for
// the first time.
func split(got []servertest.Got) (again, fresh []servertest.Got) {
	for _, g := range got {
		if g.Attempt > 1 {
			again = append(again, g)
		} else {
			fresh = append(fresh, g)
		}
	}
	return again, fresh
}

// LatestSurvives: a subscriber that asked for no start and has acked
// nothing gets everything that was appended after its Opened, whatever crashes.
func LatestSurvives(t *testing.T, at site.Site) {
	m := startAt(t, at)
	m.publish(m.topic, servertest.Numbers(5)...)
	for _, client := range []string{"idle", "busy"} {
		m.open(client, m.topic).Quiet(0)
	}
	m.crash()

	m.publish(m.topic, "a", "b")
	s := m.open("busy", m.topic)
	are(t, s.Take(2), 1, 5, 6)
	m.crash()

	m.publish(m.topic, "c")
	s = m.open("busy", m.topic)
	again, fresh := split(s.Take(3))
	are(t, again, 2, 5, 6)
	are(t, fresh, 1, 7)
	are(t, m.open("idle", m.topic).Take(3), 1, 5, 6, 7)
	m.open("new", m.topic).Quiet(quiet)
}

// Continues: what is acked after a restart moves the position on, and
// nothing that was acked comes again.
func Continues(t *testing.T, at site.Site) {
	m := startAt(t, at)
	s := m.open("c", m.topic)
	m.publish(m.topic, servertest.Numbers(100)...)
	s.AckDurable(s.Take(100)...)
	m.restart()

	s = m.open("c", m.topic)
	m.publish(m.topic, servertest.Numbers(10)...)
	got := s.Take(10)
	are(t, got, 1, upTo(100, 109)...)
	s.AckDurable(got...)
	m.restart()

	if n := m.position(m.topic, "client/c"); n != 110 {
		t.Fatalf("the position is %d, not 110", n)
	}
	s = m.open("c", m.topic)
	s.Quiet(quiet)
}

// LateAck: an ack that was kept for a delivery of an earlier life
// finishes nothing.
func LateAck(t *testing.T, at site.Site) {
	m := startAt(t, at)
	s := m.open("c", m.topic)
	m.publish(m.topic, "a", "b")
	old := s.Take(2)
	s.AckDurable(old[0])
	m.crash()
	s = m.open("c", m.topic)
	b := s.Take(1)
	are(t, b, 2, 1)
	s.Ack(old[0], old[1])
	for _, g := range old {
		if st := s.Outcome(g); st != pb.AckResult_STATUS_UNKNOWN {
			t.Errorf("the ack of an earlier life is %v, not UNKNOWN", st)
		}
	}
	if n := m.position(m.topic, "client/c"); n != 1 {
		t.Errorf("the position is %d, not 1", n)
	}
	s.AckDurable(b...)
}

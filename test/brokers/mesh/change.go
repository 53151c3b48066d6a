package mesh

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
)

// named is n payloads that begin with prefix.
func named(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

// recreate deletes a topic and makes it again, and writes more to it than it
// had before, all through others.
func (s *suite) recreate(t *testing.T, topic string, data []string) {
	t.Helper()
	s.b.DeleteTopic(t, topic)
	s.b.CreateTopic(t, topic, 1)
	Start(t, s.at).Publish(topic, nil, data...)
}

// isNew wants exactly the events of the new topic, all of them, from its
// beginning.
func (s *suite) isNew(t *testing.T, st *servertest.Stream, data []string) {
	t.Helper()
	got := st.Take(len(data))
	if !slices.Equal(servertest.Data(got), data) {
		t.Fatalf("delivered of the new topic is %s", servertest.Show(got))
	}
	for i, g := range got {
		if !s.traits.Pops && (g.Offset != int64(i) || g.Attempt != 1) {
			t.Errorf("delivery %d is %s", i, servertest.Show([]servertest.Got{g}))
		}
	}
	st.AckDurable(got...)
	st.Quiet(time.Second)
}

// recreatedUnderReader: a topic is deleted and made again while a subscriber
// reads it. What it held in flight is gone, all of the new topic is delivered,
// and the client is told.
func (s *suite) recreatedUnderReader(t *testing.T) {
	topic := s.at.Topic(t, "again", 1)
	n := Start(t, s.at)
	st := n.Open("c", topic, servertest.Earliest())
	n.Publish(topic, nil, named("old", 10)...)
	st.AckDurable(st.Take(10)[:7]...)
	data := named("new", 30)
	s.recreate(t, topic, data)
	s.isNew(t, st, data)
	if !s.traits.Pops {
		st.Notice(pb.Notice_KIND_POSITION_CORRECTED)
		if next := n.Position(topic, "client/c", st.Opened.GetPositions()[0].GetPartition()); next != 30 {
			t.Errorf("the position is %d, not 30", next)
		}
	}
}

// recreatedWhileStopped: the same while no server runs, so that the topic has
// grown past the old position before it is read again.
func (s *suite) recreatedWhileStopped(t *testing.T) {
	topic := s.at.Topic(t, "again", 1)
	n := Start(t, s.at)
	st := n.Open("c", topic, servertest.Earliest())
	n.Publish(topic, nil, named("old", 10)...)
	st.AckDurable(st.Take(10)[:7]...)
	st.Break() // an orderly end waits for those that are there
	n.Term(20 * time.Second)
	data := named("new", 30)
	s.recreate(t, topic, data)
	n.Up()
	st = n.Open("c", topic, nil)
	if !s.traits.Pops {
		st.Notice(pb.Notice_KIND_POSITION_CORRECTED)
	}
	s.isNew(t, st, data)
	if !n.AwaitLogged("deleted and created again") {
		t.Errorf("the log does not tell:\n%s", n.Log())
	}
}

// retentionPassesPosition: the broker removes what a stored position stands on.
// Delivery goes on at the minimum, the client is told, and the log names the
// range.
func (s *suite) retentionPassesPosition(t *testing.T) {
	topic := s.at.Topic(t, "short", 1)
	n := Start(t, s.at)
	st := n.Open("c", topic, servertest.Earliest())
	n.Publish(topic, nil, named("old", 20)...)
	st.AckDurable(st.Take(20)[:5]...)
	st.Break() // an orderly end waits for those that are there
	n.Term(20 * time.Second)
	s.b.Expire(t, topic)
	n.Up()
	st = n.Open("c", topic, nil)
	if !s.traits.Pops {
		note := st.Notice(pb.Notice_KIND_POSITION_CORRECTED)
		t.Log(note.GetDetail())
		if !n.AwaitLogged("from=5") || !n.AwaitLogged("to=20") {
			t.Errorf("the log does not tell the range:\n%s", n.Log())
		}
	}
	n.Publish(topic, nil, "next")
	if got := st.Take(1); got[0].Data() != "next" {
		t.Errorf("delivered is %s", servertest.Show(got))
	}
}

// partitionsAreAdded: a topic gets more partitions while a subscriber reads it.
// All that is in the new ones comes, from their beginning, and what is published
// later too.
func (s *suite) partitionsAreAdded(t *testing.T) {
	const each = 200
	topic := s.at.Topic(t, "grows", 2)
	n := Start(t, s.at)
	st := n.Open("c", topic, nil)
	n.Publish(topic, nil, "first")
	st.AckDurable(st.Take(1)...)
	s.b.AddPartitions(t, topic, 4)
	other := Start(t, s.at)
	next := map[string]int64{}
	for round := range 2 {
		data := named(fmt.Sprint("r", round, "-"), each)
		other.Publish(topic, data, data...)
		got := st.Take(each)
		for _, g := range got {
			if want, seen := next[g.Partition]; seen && g.Offset != want && !s.traits.Pops {
				t.Errorf("partition %s: offset %d, not %d", g.Partition, g.Offset, want)
			}
			next[g.Partition] = g.Offset + 1
		}
		came := servertest.Data(got)
		slices.Sort(came)
		slices.Sort(data)
		if !slices.Equal(came, data) {
			t.Fatalf("round %d: what came is not what was published: %s", round, servertest.Show(got))
		}
		st.AckDurable(got...)
	}
	if len(next) != 4 {
		t.Errorf("events came from the partitions %v, not from four", next)
	}
}

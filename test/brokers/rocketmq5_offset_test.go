//go:build brokers

package brokers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
)

// TestRocketMQ5GroupOffset: the offset of an ordinary subscriber's group stands
// still from delivery to the client's ack, then moves. A broker shows that where
// it keeps what was popped in memory for a while (enablePopBufferMerge, which is
// off as it comes): else it notes what was popped elsewhere, and the offset moves
// at once. An ordered group's offset is looked at in TestRocketMQ5.
func TestRocketMQ5GroupOffset(t *testing.T) {
	r := startRocketMQ5(t, "enablePopBufferMerge=true", "popCkStayBufferTime=60000")
	topic, raw := r.topic(t, "plain", "NORMAL", 1), r.raw(t)
	n := r.node(t, "--rocketmq5.invisible", "60s")
	s := n.Open("c", topic, servertest.Earliest())
	before := r.groupAt(t, raw, topic, "c", 1)[0]
	want := names("m", 5)
	n.Publish(topic, nil, want...)
	got := take(t, s, 5)
	if came := sortedData(got); !slices.Equal(came, want) {
		t.Fatalf("delivered is %q", came)
	}
	still := func(when string) {
		t.Helper()
		s.Quiet(2 * time.Second)
		if at := r.groupAt(t, raw, topic, "c", 1)[0]; at != before {
			t.Errorf("%s the group is at %d, not %d", when, at, before)
		}
	}
	still("before any ack")
	first := slices.IndexFunc(got, func(g servertest.Got) bool { return g.Data() == want[0] })
	s.AckDurable(slices.Delete(slices.Clone(got), first, first+1)...)
	still("before the first is acked")
	s.AckDurable(got[first])
	servertest.Eventually(t, process.Patience, func() error {
		if at := r.groupAt(t, raw, topic, "c", 1)[0]; at != before+5 {
			return fmt.Errorf("the group is at %d, not %d", at, before+5)
		}
		return nil
	})
}

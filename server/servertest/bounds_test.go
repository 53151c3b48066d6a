package servertest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// TestUnknownBounds: what the log does not tell of one topic costs operators the
// bounds of its partitions, neither the positions on it nor what is known of others.
func TestUnknownBounds(t *testing.T) {
	long := strings.Repeat("é", 4000)
	for name, c := range map[string]struct {
		fault storagefault.Fault
		state pb.BoundsState
		why   string
	}{
		"failed":     {storagefault.Fault{Err: fmt.Errorf("no broker: %w", storage.ErrUnavailable)}, pb.BoundsState_BOUNDS_STATE_UNKNOWN, "no broker: log is unavailable"},
		"not told":   {storagefault.Fault{Err: storage.ErrUnknown}, pb.BoundsState_BOUNDS_STATE_UNKNOWN, "not known now"},
		"hangs":      {storagefault.Fault{Hang: true}, pb.BoundsState_BOUNDS_STATE_UNKNOWN, "deadline exceeded"},
		"long":       {storagefault.Fault{Err: fmt.Errorf("x%s", long)}, pb.BoundsState_BOUNDS_STATE_UNKNOWN, "é"},
		"gone":       {storagefault.Fault{Err: storage.ErrTopicNotFound}, pb.BoundsState_BOUNDS_STATE_ABSENT, ""},
		"known late": {storagefault.Fault{Delay: 2 * time.Second}, pb.BoundsState_BOUNDS_STATE_KNOWN, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log *storagefault.Backend
				in := Start(t, Options{Wrap: func(b storage.Backend) storage.Backend { log = storagefault.New(b); return log }})
				for _, topic := range []string{"away", "t"} {
					if _, err := in.Admin().CreateTopic(t.Context(), &pb.CreateTopicRequest{Topic: topic, Partitions: 2}); err != nil {
						t.Fatal(err)
					}
					s := Open(t, in.Mesh(), open("c", Sub(topic, broadcast)))
					Publish(t, in.Mesh(), topic, "x", "y")
					s.AckDurable(s.Take(2)[:1]...)
				}
				c.fault.Op, c.fault.Topic = storagefault.Bounds, "away"
				log.Inject(c.fault)
				begun := time.Now()
				list, err := in.Admin().ListTopics(t.Context(), &pb.ListTopicsRequest{})
				if err != nil {
					t.Fatal(err)
				}
				told := map[string]int64{}
				for _, topic := range list.GetTopics() {
					for _, p := range topic.GetPartitions() {
						told[topic.GetTopic()] += p.GetMaxOffset()
						checkBounds(t, topic.GetTopic(), p, c.state, c.why)
					}
				}
				if _, listed := told["away"]; told["t"] != 2 || listed != (c.why != "" || told["away"] == 2) {
					t.Errorf("listed: %v", told)
				}
				res, err := in.Admin().GetOffsets(t.Context(), &pb.GetOffsetsRequest{})
				if err != nil || len(res.GetOffsets()) != 4 {
					t.Fatal(res, err)
				}
				done := map[string]int64{}
				for _, o := range res.GetOffsets() {
					done[o.GetTopic()] += o.GetPosition()
					checkBounds(t, o.GetTopic(), o, c.state, c.why)
				}
				if done["away"] != 1 || done["t"] != 1 {
					t.Errorf("finished: %v", done)
				}
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// checkBounds sees what is said of the bounds of a partition.
func checkBounds(t *testing.T, topic string, p interface {
	GetBounds() pb.BoundsState
	GetBoundsError() string
	GetMaxOffset() int64
}, state pb.BoundsState, why string,
) {
	t.Helper()
	if topic != "away" {
		state, why = pb.BoundsState_BOUNDS_STATE_KNOWN, ""
	}
	got := p.GetBoundsError()
	if p.GetBounds() != state || !strings.Contains(got, why) || (got == "") != (why == "") || len(got) > 400 {
		t.Errorf("bounds of topic %s: %v, want %v because of %q", topic, p, state, why)
	}
	if state != pb.BoundsState_BOUNDS_STATE_KNOWN && p.GetMaxOffset() != 0 {
		t.Errorf("bounds of topic %s that are not known: %v", topic, p)
	}
}

// Package restart holds what must be there, and what must come again, after
// real servers are killed or stopped and started again.
package restart

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

// mesh is a server with clients of all its services.
type mesh struct {
	*process.Server
	t     *testing.T
	at    site.Site
	topic string // of one partition
	mesh  pb.EventMeshClient
	admin pb.AdminClient
}

// startAt starts a server on a directory of its own.
func startAt(t *testing.T, at site.Site, args ...string) *mesh {
	t.Helper()
	topic := at.Topic(t, "t", 1)
	s := at.Start(t, filepath.Join(t.TempDir(), "data"), 1, args...)
	return &mesh{Server: s, t: t, at: at, topic: topic, mesh: pb.NewEventMeshClient(s.Dial()), admin: pb.NewAdminClient(s.DialAdmin())}
}

// crash is kill -9 and a new start.
func (m *mesh) crash() {
	m.t.Helper()
	m.Kill()
	m.Up()
}

// restart is an orderly end and a new start.
func (m *mesh) restart() {
	m.t.Helper()
	m.Term(20 * time.Second)
	m.Up()
}

// open opens a stream of a broadcast subscriber that never times out.
func (m *mesh) open(client, topic string) *servertest.Stream {
	m.t.Helper()
	return m.openFor(client, topic, time.Hour)
}

// openFor opens a stream with an ack timeout.
func (m *mesh) openFor(client, topic string, timeout time.Duration) *servertest.Stream {
	m.t.Helper()
	return servertest.Open(m.t, m.mesh, &pb.Open{
		ClientId: client, AckTimeout: durationpb.New(timeout),
		Subscriptions: []*pb.Subscription{servertest.Sub(topic, pb.Mode_MODE_BROADCAST)},
	})
}

func (m *mesh) publish(topic string, data ...string) []*pb.PublishedEvent {
	m.t.Helper()
	return servertest.Publish(m.t, m.mesh, topic, data...)
}

// position is a subscriber's next offset in partition 0.
func (m *mesh) position(topic, subscriber string) int64 {
	m.t.Helper()
	res, err := m.admin.GetOffsets(m.t.Context(), &pb.GetOffsetsRequest{Topic: topic, Subscriber: subscriber})
	if err != nil {
		m.t.Fatal(err)
	}
	if len(res.GetOffsets()) != 1 {
		m.t.Fatalf("%s of %s has offsets %v, not those of one partition", subscriber, topic, res.GetOffsets())
	}
	return res.GetOffsets()[0].GetPosition()
}

// reset moves a subscriber.
func (m *mesh) reset(topic, subscriber string, to *pb.Start) {
	m.t.Helper()
	if _, err := m.admin.ResetOffset(m.t.Context(), &pb.ResetOffsetRequest{Topic: topic, Subscriber: subscriber, To: to}); err != nil {
		m.t.Fatal(err)
	}
}

// are sees that deliveries have the offsets, and all the attempt.
func are(t *testing.T, got []servertest.Got, attempt int32, offsets ...int64) {
	t.Helper()
	if !slices.Equal(servertest.Offsets(got), offsets) {
		t.Fatalf("delivered are offsets %v, not %v", servertest.Offsets(got), offsets)
	}
	for _, g := range got {
		if g.Attempt != attempt {
			t.Fatalf("offset %d came with attempt %d, not %d", g.Offset, g.Attempt, attempt)
		}
	}
}

// upTo lists the offsets from first to last.
func upTo(first, last int64) (list []int64) {
	for o := first; o <= last; o++ {
		list = append(list, o)
	}
	return list
}

// quiet is how long nothing may come where nothing may.
const quiet = time.Second

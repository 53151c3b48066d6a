//go:build linux && long

// Package disk fills the disk of real servers and frees it again.
package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/tmpfs"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// answer is how long a server on a full disk may take to say so.
const answer = 5 * time.Second

// mesh is a server on a small disk, and what was confirmed by it.
type mesh struct {
	*process.Server
	t     *testing.T
	disk  string
	mesh  pb.EventMeshClient
	admin pb.AdminClient
	data  []string // confirmed, by offset
}

// start starts a server with topics of one partition on a disk of its own.
func start(t *testing.T, size int64, args ...string) *mesh {
	t.Helper()
	disk := tmpfs.Mount(t, size)
	s := process.Start(t, filepath.Join(disk, "data"), append([]string{"--topics.partitions", "1"}, args...)...)
	return &mesh{Server: s, t: t, disk: disk, mesh: pb.NewEventMeshClient(s.Dial()), admin: pb.NewAdminClient(s.DialAdmin())}
}

func (m *mesh) open(client string) *Stream {
	m.t.Helper()
	sub := Sub("t", pb.Mode_MODE_BROADCAST)
	sub.Start = Earliest()
	return Open(m.t, m.mesh, &pb.Open{ClientId: client, AckTimeout: durationpb.New(time.Hour), Subscriptions: []*pb.Subscription{sub}})
}

// publish publishes one event, which must be confirmed.
func (m *mesh) publish(data string) {
	m.t.Helper()
	if err := m.tryPublish(data); err != nil {
		m.t.Fatalf("publish: %v\n%s", err, m.Log())
	}
}

// tryPublish publishes one event and keeps it if it is confirmed. It must be
// answered in time.
func (m *mesh) tryPublish(data string) error {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 4*answer)
	defer cancel()
	began := time.Now()
	res, err := m.mesh.Publish(ctx, &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{Data: []byte(data)}}})
	if took := time.Since(began); took > answer {
		m.t.Errorf("publish was answered after %v", took)
	}
	if err == nil {
		err = status.FromProto(res.GetStatus()).Err()
	}
	if err != nil {
		return err
	}
	if off := res.GetEvents()[0].GetOffset(); off != int64(len(m.data)) {
		m.t.Errorf("event is at offset %d, %d are confirmed", off, len(m.data))
	}
	m.data = append(m.data, data)
	return nil
}

// refused sees that an error says in time and clearly that the disk is full.
func (m *mesh) refused(what string, err error) {
	m.t.Helper()
	if err == nil {
		m.t.Fatalf("%s on a full disk succeeded", what)
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.ResourceExhausted {
		m.t.Errorf("%s on a full disk is %v, neither UNAVAILABLE nor RESOURCE_EXHAUSTED: %v", what, code, err)
	}
	if !regexp.MustCompile(`disk is full|no space|disk`).MatchString(err.Error()) {
		m.t.Errorf("%s on a full disk does not say why: %v", what, err)
	}
}

// alive sees that the process runs.
func (m *mesh) alive() {
	m.t.Helper()
	select {
	case <-m.Ended():
		m.t.Fatalf("the process has ended:\n%s", m.Log())
	default:
	}
}

func (m *mesh) awaitFull() {
	m.t.Helper()
	m.AwaitHealth(healthpb.HealthCheckResponse_NOT_SERVING, answer)
}

func (m *mesh) awaitHealed() {
	m.t.Helper()
	m.AwaitHealth(healthpb.HealthCheckResponse_SERVING, answer)
}

// retry sees that acks are answered RETRY, in time.
func (m *mesh) retry(s *Stream, got ...Got) {
	m.t.Helper()
	began := time.Now()
	s.Ack(got...)
	for _, g := range got {
		if st := s.Outcome(g); st != pb.AckResult_STATUS_RETRY {
			m.t.Errorf("an ack on a full disk is %v, not RETRY", st)
		}
	}
	if took := time.Since(began); took > answer {
		m.t.Errorf("acks were answered after %v", took)
	}
}

// complete sees that a new subscriber gets all that was ever confirmed.
func (m *mesh) complete(client string) {
	m.t.Helper()
	s := m.open(client)
	for i := range m.data {
		g := s.Take(1)[0]
		if g.Offset != int64(i) || g.Data() != m.data[i] {
			m.t.Fatalf("offset %d holds %.40q, confirmed was %.40q", g.Offset, g.Data(), m.data[i])
		}
		s.Ack(g)
	}
	if err := s.CloseSend(); err != nil {
		m.t.Error(err)
	}
}

// fill fills the disk with a file of somebody else's, all but left bytes.
func fill(t *testing.T, disk, name string, left int64) (free func()) {
	t.Helper()
	path := filepath.Join(disk, name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 64<<10)
	for {
		if _, now := tmpfs.Space(t, disk); now <= left {
			break
		}
		if _, err := f.Write(chunk); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	return func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

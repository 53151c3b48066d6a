//go:build linux && long

package disk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/server/tracecheck"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/tmpfs"
	"github.com/ackmesh/ackmesh/test/traffic"
)

// sizes of the disks.
var sizes = map[string]int64{"32MiB": 32 << 20, "64MiB": 64 << 20}

// TestC54_ForeignFile: a file of somebody else's fills the disk. Publishes and
// acks are refused in time, the process lives, and all heals when the file goes.
func TestC54_ForeignFile(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) { foreign(t, size) })
	}
}

func foreign(t *testing.T, size int64) {
	m := start(t, size)
	s := m.open("c")
	for i := range 20 {
		m.publish(fmt.Sprint("before ", i))
	}
	got := s.Take(20)
	s.AckDurable(got[:10]...)
	for range 2 {
		free := fill(t, m.disk, "foreign", 0)
		m.awaitFull()
		for range 10 {
			m.refused("publish", m.tryPublish("never"))
			m.retry(s, got[10], got[12], got[14])
		}
		m.refused("subscribe", m.trySubscribe("new"))
		m.alive()
		free()
		m.awaitHealed()
	}
	s.AckDurable(got[10], got[12], got[14]) // the same deliveries as were refused
	s.AckDurable(got[11], got[13])
	s.AckDurable(got[15:]...)
	m.publish("after")
	after := s.Take(1)
	if after[0].Data() != "after" || after[0].Attempt != 1 {
		t.Errorf("after the disk has healed came %s", Show(after))
	}
	s.AckDurable(after...)
	m.complete("all")
	m.Term(15 * time.Second)
}

// trySubscribe opens a stream of a new subscriber and returns why it does not
// stand. It must be answered in time.
func (m *mesh) trySubscribe(client string) error {
	m.t.Helper()
	began := time.Now()
	s := TryOpen(m.t, m.mesh, &pb.Open{ClientId: client, Subscriptions: []*pb.Subscription{Sub("t", pb.Mode_MODE_BROADCAST)}})
	if took := time.Since(began); took > answer {
		m.t.Errorf("subscribe was answered after %v", took)
	}
	if s.Opened == nil {
		return s.End()
	}
	defer s.Break()
	return status.FromProto(s.Opened.GetResults()[0].GetStatus()).Err()
}

// TestC54_OwnEvents: the disk is filled by what is published.
func TestC54_OwnEvents(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) { own(t, size) })
	}
}

func own(t *testing.T, size int64) {
	m := start(t, size, "--retention.size", "1GiB")
	s := m.open("c")
	m.publish("first")
	first := s.Take(1)
	_, room := tmpfs.Space(t, m.disk)
	free := fill(t, m.disk, "reserve", room-8<<20) // 8 MiB that are not the server's
	payload := strings.Repeat("x", 60_000)
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = m.tryPublish(fmt.Sprint(i, payload))
	}
	m.refused("publish", err)
	m.awaitFull()
	if _, left := tmpfs.Space(t, m.disk); left < 1<<20 {
		t.Errorf("only %d bytes were left when publishes were refused: there is no margin", left)
	}
	for range 5 {
		m.retry(s, first...)
		m.refused("publish", m.tryPublish("never"))
	}
	m.alive()
	t.Logf("%d events were confirmed", len(m.data))
	free()
	m.awaitHealed()
	s.AckDurable(first...)
	m.publish("after")
	m.complete("all")
	m.Term(15 * time.Second)
}

// TestC54_StopWhileFull: a server ends in time on a full disk; nothing that was
// confirmed is missing when it starts again, with room or without.
func TestC54_StopWhileFull(t *testing.T) {
	for name, end := range map[string]func(*mesh){
		"SIGTERM": func(m *mesh) {
			if err := m.Process().Signal(syscall.SIGTERM); err != nil {
				m.t.Fatal(err)
			}
			m.Wait(15 * time.Second) // what it could not save makes the exit code
		},
		"kill -9": func(m *mesh) { m.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, 32<<20)
			s := m.open("c")
			for i := range 50 {
				m.publish(fmt.Sprint(i))
			}
			got := s.Take(50)
			s.AckDurable(got[:20]...)
			free := fill(t, m.disk, "foreign", 0)
			m.awaitFull()
			m.retry(s, got[20])
			end(m)
			m.startWhileFull()
			free()
			m.Up()
			s = m.open("c")
			again := s.Take(30)
			if again[0].Offset != 20 || again[29].Offset != 49 {
				t.Errorf("after the restart came %s", Show(again))
			}
			s.AckDurable(again...)
			m.publish("after")
			m.complete("all")
			m.Term(15 * time.Second)
		})
	}
}

// startWhileFull starts the server on a full disk: it either says why it can
// not or comes up and serves no writes. It never dies of it.
func (m *mesh) startWhileFull() {
	m.t.Helper()
	m.Spawn()
	select {
	case <-m.Ended():
		if code := m.Wait(answer); code <= 0 {
			m.t.Errorf("the start on a full disk ended with code %d:\n%s", code, m.Log())
		}
		if !m.Logged("full") && !m.Logged("space") && !m.Logged("room") {
			m.t.Errorf("it is not told why it does not start:\n%s", m.Log())
		}
	case <-time.After(answer):
		m.refused("publish", m.tryPublish("never"))
		m.Kill()
	}
}

// TestFullUnderLoad: the disk is filled and freed five times while events are
// published, delivered and acked at full speed. Every promise holds.
func TestFullUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("SEED=%d", seed)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	disk := tmpfs.Mount(t, 64<<20)
	srv := process.Start(t, filepath.Join(disk, "data"))
	run := traffic.New(t, seed, 6, srv.Dial)
	run.Up()
	for _, share := range []string{"", "s"} {
		run.Subscribe(traffic.SubscriberConfig{Client: "c" + share, Topic: "t", Share: share})
	}
	if err := run.Await(ctx, func(c traffic.Counts) bool { return c.Streams == 2 && c.Opens == 0 }); err != nil {
		t.Fatal(err)
	}
	const events = 30_000
	done := run.Publish("p", traffic.PublisherConfig{
		Events: events, Topics: []traffic.Weight{{Topic: "t", Weight: 1}}, MaxBatch: 20, Pipeline: 8,
		Lag: 1000, Followers: map[string][]string{"t": {"client/c", "share/s"}},
	})
	for i := range 5 {
		if err := run.Await(ctx, func(c traffic.Counts) bool { return c.Published > events*(i+1)/7 }); err != nil {
			t.Fatalf("no progress: %v\n%s", err, srv.Log())
		}
		m := &mesh{Server: srv, t: t}
		free := fill(t, disk, "foreign", 0)
		m.awaitFull()
		m.alive()
		free()
		m.awaitHealed()
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("not all is published: %+v\n%s", run.Counts(), srv.Log())
	}
	if err := run.Await(ctx, func(c traffic.Counts) bool { return c.Acks == 0 }); err != nil {
		t.Fatalf("acks are not answered: %+v\n%s", run.Counts(), srv.Log())
	}
	run.Stop()
	srv.Term(15 * time.Second)
	if err := tracecheck.Check(run.Rec.Trace()); err != nil {
		t.Error(err)
	}
}

package servertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// restlessLog tells of records that are not there when asked to, as a log does
// that has lost its connection. Of a lite topic that has expired it knows nothing.
type restlessLog struct {
	*memory.Backend
	mu    sync.Mutex
	waits []func()
	away  bool
}

// setAway has reads fail, or not any more.
func (r *restlessLog) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

func (r *restlessLog) AwaitLite(parent, lite string, next int64, arrived func()) (stop func()) {
	r.mu.Lock()
	r.waits = append(r.waits, arrived)
	r.mu.Unlock()
	return r.Backend.AwaitLite(parent, lite, next, arrived)
}

func (r *restlessLog) PollLite(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
	r.mu.Lock()
	away := r.away
	r.mu.Unlock()
	if away {
		b.Reset()
		return storage.ErrUnavailable
	}
	err := r.Backend.PollLite(ctx, req, b)
	var rng *storage.RangeError
	if errors.As(err, &rng) && rng.Max == 0 {
		b.Start, b.Next = req.Start, req.Start
		return nil
	}
	return err
}

// ring wakes who waits, for nothing.
func (r *restlessLog) ring() {
	r.mu.Lock()
	waits := r.waits
	r.waits = nil
	r.mu.Unlock()
	for _, arrived := range waits {
		arrived()
	}
}

// TestLite_BegunAnewAfterLookingInVain: a lite topic that expired while nothing
// happened, and is longer than the position when it is read again, comes from its
// beginning, however lately it was last looked at in vain.
func TestLite_BegunAnewAfterLookingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &restlessLog{Backend: memory.New(memory.Options{})}
		defer func() { _ = log.Close() }()
		in := Start(t, Options{Backend: log})
		fillLites(t, in.Lite(), 1, 10)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		s.AckDurable(s.Take(10)...)
		<-time.After(time.Hour)
		if err := log.ExpireLite("chat", liteName(0)); err != nil {
			t.Fatal(err)
		}
		log.ring()
		<-time.After(5 * time.Second)
		fillLites(t, in.Lite(), 1, 15)
		if !s.Await(2*time.Minute, 15) {
			t.Fatalf("%d of 15 new events came", len(s.Pending()))
		}
		got := s.Take(15)
		wantLites(t, got, 1, 15)
		s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
		s.AckDurable(got...)
		s.Quiet(time.Hour)
		in.Stop()
	})
}

// TestLite_BegunAnewWhileAway: so does one that expired and began anew between a
// look at it and the end of a time in which the log could not be read.
func TestLite_BegunAnewWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &restlessLog{Backend: memory.New(memory.Options{})}
		defer func() { _ = log.Close() }()
		in := Start(t, Options{Backend: log})
		fillLites(t, in.Lite(), 1, 10)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		s.AckDurable(s.Take(10)...)
		log.setAway(true)
		log.ring()
		<-time.After(5 * time.Second)
		if err := log.ExpireLite("chat", liteName(0)); err != nil {
			t.Fatal(err)
		}
		fillLites(t, in.Lite(), 1, 15)
		log.setAway(false)
		if !s.Await(2*time.Minute, 15) {
			t.Fatalf("%d of 15 new events came", len(s.Pending()))
		}
		got := s.Take(15)
		wantLites(t, got, 1, 15)
		s.AckDurable(got...)
		in.Stop()
	})
}

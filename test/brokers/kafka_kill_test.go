//go:build brokers

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

func (k *kafkaBroker) killAmidEvents(t *testing.T) {
	l := k.open(t, kafka.Options{})
	killAmidEvents(t, l, k.topic(t, l, "kill", 3).Partitions, func() { k.kill(t); k.start(t) })
}

// killAmidEvents kills the broker and starts it, twice, while 40,000 events
// are written to a topic kill and read: every event that was told to be stored
// is read, at its place; none twice; each key in order.
func killAmidEvents(t *testing.T, l storage.Backend, partitions []string, restart func()) {
	const total, call = 40_000, 100 // whole servers have 100,000
	run := &killRun{l: l, places: map[string]string{}, ids: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	var readers, writers sync.WaitGroup
	for _, part := range partitions {
		readers.Go(func() { run.read(ctx, t, part) })
	}
	began := time.Now()
	for w := range 4 {
		writers.Go(func() { run.write(ctx, t, w, total/4, call) })
	}
	for _, share := range []int{total / 4, total / 2} {
		run.await(ctx, t, share)
		restart()
	}
	writers.Wait()
	run.await(ctx, t, total)
	cancel()
	readers.Wait()
	run.check(t, total)
	t.Logf("%d events written and read through two kills in %v", total, time.Since(began).Round(time.Second))
}

// killRun is what is written and read.
type killRun struct {
	l storage.Backend

	mu     sync.Mutex
	places map[string]string // of what was told to be stored
	ids    map[string]int    // what was read, how often
	wrong  []string
}

// write writes events, and again those that were told to have failed.
func (r *killRun) write(ctx context.Context, t *testing.T, writer, n, call int) {
	for first := 0; first < n && ctx.Err() == nil; first += call {
		var todo []int
		for i := range call {
			todo = append(todo, writer*n+first+i)
		}
		for len(todo) > 0 && ctx.Err() == nil {
			todo = r.attempt(ctx, t, writer, todo)
		}
	}
}

func (r *killRun) attempt(ctx context.Context, t *testing.T, writer int, todo []int) (failed []int) {
	events := make([]storage.Event, len(todo))
	for i, n := range todo {
		events[i] = storage.Event{Key: fmt.Sprint(writer), Frame: event(n)}
	}
	results, err := storage.AppendWait(ctx, r.l, "kill", events)
	if err != nil {
		if !errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
			t.Errorf("append: %v", err)
		}
		return todo
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range results {
		if res.Err != nil {
			failed = append(failed, todo[i])
			continue
		}
		r.places[fmt.Sprint(res.Partition, "/", res.Offset)] = fmt.Sprint(todo[i])
	}
	return failed
}

func (r *killRun) read(ctx context.Context, t *testing.T, part string) {
	b := new(storage.Batch)
	for ctx.Err() == nil {
		err := r.l.Poll(ctx, storage.PollRequest{Topic: "kill", Partition: part, Start: storage.Cursor, Wait: time.Second}, b)
		if err != nil && !errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
			t.Errorf("poll: %v", err)
			return
		}
		r.mu.Lock()
		for _, rec := range b.Records {
			id := logtest.ID(rec.Frame)
			r.ids[id]++
			if want, ok := r.places[fmt.Sprint(part, "/", rec.Offset)]; ok && want != id {
				r.wrong = append(r.wrong, fmt.Sprintf("%s/%d is %s, was told to be %s", part, rec.Offset, id, want))
			}
		}
		r.mu.Unlock()
	}
}

// await waits until so many events were read.
func (r *killRun) await(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		r.mu.Lock()
		have := len(r.ids)
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d events are read", have, n)
		case <-ticker.C:
		}
	}
}

func (r *killRun) check(t *testing.T, total int) {
	twice := 0
	for _, n := range r.ids {
		twice += n - 1
	}
	if len(r.ids) != total || len(r.places) != total || len(r.wrong) > 0 {
		t.Errorf("%d of %d events read, %d told to be stored, wrong: %v", len(r.ids), total, len(r.places), r.wrong)
	}
	if twice > 0 {
		t.Logf("%d events were written again after they had failed, and had not", twice)
	}
}

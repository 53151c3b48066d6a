package storagetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// fate is one call of Append and what was reported of it.
type fate struct {
	topic  string
	events []storage.Event

	refused error         // what Append returned
	first   chan struct{} // closed by the first report
	reports atomic.Int64
	crashed atomic.Bool

	mu      sync.Mutex
	results []storage.Appended
	err     error
}

// send calls Append and does not wait for the report.
func (c *env) send(topic string, events []storage.Event) *fate {
	c.Helper()
	f := c.newFate(topic, events)
	f.refused = c.bounded("Append", func(ctx context.Context) error { return f.send(ctx, c.b) })
	return f
}

// newFate prepares a call of Append. Only the case's own goroutine makes
// fates.
func (c *env) newFate(topic string, events []storage.Event) *fate {
	f := &fate{topic: topic, events: events, first: make(chan struct{})}
	c.fates = append(c.fates, f)
	return f
}

func (f *fate) send(ctx context.Context, b storage.Backend) error {
	return b.Append(ctx, f.topic, f.events, f.report)
}

func (f *fate) report(results []storage.Appended, err error) {
	f.mu.Lock()
	f.results, f.err = results, err
	f.mu.Unlock()
	if f.reports.Add(1) == 1 {
		close(f.first)
	}
}

// wait waits for the report and wants all events stored.
func (f *fate) wait(c *env) []storage.Appended {
	c.Helper()
	results, err := f.outcome(c)
	if err != nil {
		c.Fatalf("append to %q: %v", f.topic, err)
	}
	for i, r := range results {
		if r.Err != nil {
			c.Fatalf("append to %q, event %d: %v", f.topic, i, r.Err)
		}
	}
	return results
}

// outcome waits for the report, whatever it says.
func (f *fate) outcome(c *env) ([]storage.Appended, error) {
	c.Helper()
	if f.refused != nil {
		return nil, f.refused
	}
	f.await(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && len(f.results) != len(f.events) {
		c.Fatalf("append of %d events to %q was reported with %d results", len(f.events), f.topic, len(f.results))
	}
	return f.results, f.err
}

// await waits for the report.
func (f *fate) await(c *env) {
	c.Helper()
	late := time.NewTimer(c.h.Patience)
	defer late.Stop()
	select {
	case <-f.first:
	case <-late.C:
		c.Fatalf("append to %q was not reported within %v", f.topic, c.h.Patience)
	}
}

// check wants one report for what was accepted and none for what was refused.
// The backend is closed.
func (f *fate) check(c *env) {
	c.Helper()
	n := f.reports.Load()
	switch {
	case f.refused != nil && n > 0:
		c.Errorf("Append to %q returned %v and called done as well", f.topic, f.refused)
	case n > 1:
		c.Errorf("Append to %q called done %d times", f.topic, n)
	case f.refused == nil && n == 0 && !f.crashed.Load():
		c.Errorf("Append to %q never called done, not even by the end of Close", f.topic)
	}
}

// append appends events and waits.
func (c *env) append(topic string, events ...storage.Event) []storage.Appended {
	c.Helper()
	return c.send(topic, events).wait(c)
}

// stored is a record as it was appended.
type stored struct {
	partition string
	offset    int64
	frame     []byte
}

// fill appends n numbered events of one key, in calls of 20, and returns
// where they are.
func (c *env) fill(topic, key, writer string, n int) []stored {
	c.Helper()
	var sent []*fate
	for i := 0; i < n; i += 20 {
		var events []storage.Event
		for k := i; k < min(n, i+20); k++ {
			events = append(events, storage.Event{Key: key, Frame: numbered(writer, k)})
		}
		sent = append(sent, c.send(topic, events))
	}
	var list []stored
	for _, f := range sent {
		list = append(list, f.stored(c)...)
	}
	return list
}

// stored waits for the report and lists where the events are.
func (f *fate) stored(c *env) []stored {
	c.Helper()
	var list []stored
	for i, r := range f.wait(c) {
		list = append(list, stored{r.Partition, r.Offset, f.events[i].Frame})
	}
	return list
}

// byPartition divides records by partition and keeps their order.
func byPartition(list []stored) map[string][]stored {
	parts := map[string][]stored{}
	for _, s := range list {
		parts[s.partition] = append(parts[s.partition], s)
	}
	return parts
}

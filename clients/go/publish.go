package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Defaults of PublishConfig.
const (
	DefaultMaxBatchEvents   = 64
	DefaultMaxBatchBytes    = 48 << 10
	DefaultMaxInFlightBytes = 4 << 20
	DefaultPublishTimeout   = time.Minute
)

// PublishConfig tunes publishing. Zero values mean the defaults.
type PublishConfig struct {
	// MaxBatchEvents and MaxBatchBytes bound one request: 1 to 10,000 events, and
	// 1 KiB to 8 MiB. A larger event goes alone. Where the server takes less, that
	// is the bound. Nothing is held back to fill a batch while the connection is
	// idle.
	MaxBatchEvents, MaxBatchBytes int
	// MaxInFlightBytes bounds the events taken and not answered, at least 1. At the
	// limit publishing blocks. A single larger event counts as that many. The
	// default keeps a server near by busy; more helps where the answer takes longer
	// than about 20 ms, and else only makes the answers later.
	MaxInFlightBytes int64
	// Timeout is how long an event is tried, over reconnects and repeated sends,
	// before its Result tells an error and its fate is open. Keep it below the
	// mesh's two minutes of recognising repeats.
	Timeout time.Duration
}

func (p PublishConfig) withDefaults() PublishConfig {
	def(&p.MaxBatchEvents, DefaultMaxBatchEvents)
	def(&p.MaxBatchBytes, DefaultMaxBatchBytes)
	def(&p.MaxInFlightBytes, DefaultMaxInFlightBytes)
	def(&p.Timeout, DefaultPublishTimeout)
	return p
}

func (p *PublishConfig) validate() error {
	switch {
	case p.MaxBatchEvents < 1 || p.MaxBatchEvents > 10_000:
		return fmt.Errorf("ackmesh: PublishConfig.MaxBatchEvents %d: give 1 to 10,000", p.MaxBatchEvents)
	case p.MaxBatchBytes < 1<<10 || p.MaxBatchBytes > 8<<20:
		return fmt.Errorf("ackmesh: PublishConfig.MaxBatchBytes %d: give 1 KiB to 8 MiB", p.MaxBatchBytes)
	case p.MaxInFlightBytes < 1:
		return fmt.Errorf("ackmesh: PublishConfig.MaxInFlightBytes %d: give at least 1", p.MaxInFlightBytes)
	case p.Timeout < 0:
		return errors.New("ackmesh: PublishConfig.Timeout is negative")
	}
	return nil
}

// Result says what became of a published event.
type Result struct {
	// Partition and Offset say where it stands, if Err is nil.
	Partition string
	Offset    int64
	// ID is its attribute id: the event's own, or the one that was filled in.
	ID string
	// Err is nil when the event is durable. Otherwise status.Code tells why; after
	// UNAVAILABLE, DEADLINE_EXCEEDED and ErrClosed its fate is open. After
	// RESOURCE_EXHAUSTED it was not stored: it is larger than the server takes, or
	// came too fast for a rate limit for all of PublishConfig.Timeout.
	Err error
}

// Publish publishes events to a topic and waits until each is durable or has
// failed. Events that are bad do not keep the others back. The results are in the
// order of the events; the error is the first of theirs, wrapped, or nil if all
// are durable. When ctx ends first, there are no results, and the fate of the
// events is open.
//
// Calls from several goroutines share requests. Events of one call and key stay in
// order, unless the server asks to repeat one of them.
func (c *Client) Publish(ctx context.Context, topic string, events ...*Event) ([]Result, error) {
	if err := checkName("topic", topic); err != nil {
		return nil, err
	}
	w := &pubWait{results: make([]Result, len(events)), done: make(chan struct{})}
	w.left.Store(int32(len(events)) + 1)
	for i, e := range events {
		if err := c.pub.add(ctx, topic, e, pubItem{wait: w, index: i}); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			w.set(i, Result{Err: err})
		}
	}
	w.finish()
	select {
	case <-w.done:
		return w.results, firstError(w.results)
	case <-ctx.Done():
		return nil, fmt.Errorf("ackmesh: publish to %q: %w before the answer, its fate is open", topic, ctx.Err())
	}
}

func firstError(results []Result) error {
	failed := 0
	var first error
	for i := range results {
		if results[i].Err != nil {
			if failed++; failed == 1 {
				first = results[i].Err
			}
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(results) == 1:
		return first
	}
	return fmt.Errorf("ackmesh: %d of %d events failed, the first: %w", failed, len(results), first)
}

// pubWait collects the results of one Publish call.
type pubWait struct {
	results []Result
	left    atomic.Int32 // results to come, and one for the call itself
	done    chan struct{}
}

func (w *pubWait) set(i int, r Result) {
	w.results[i] = r
	w.finish()
}

func (w *pubWait) finish() {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}

// PublishAsync takes an event and returns; done, which may be nil, is called
// exactly once with the result. It blocks only at PublishConfig.MaxInFlightBytes,
// until ctx ends. On error the event was not taken and done is not called.
//
// done runs on a goroutine of the publisher, one call after another: it must be quick,
// and must not wait for other publishes, nor publish itself.
func (c *Client) PublishAsync(ctx context.Context, topic string, e *Event, done func(Result)) error {
	if err := checkName("topic", topic); err != nil {
		return err
	}
	return c.pub.add(ctx, topic, e, pubItem{done: done})
}

// Flush waits until every event taken before the call is answered, or ctx ends.
func (c *Client) Flush(ctx context.Context) error {
	select {
	case <-c.pub.flush():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// env is what a case works with: the test, the harness and an open backend.
type env struct {
	T
	h     *Harness
	b     storage.Backend
	fates []*fate
}

// newEnv opens a backend. At the end it is closed, and every append of the
// case must have been reported as promised.
func newEnv(t T, h *Harness) *env {
	c := &env{T: t, h: h}
	t.Cleanup(c.finish)
	c.b = h.Open(t)
	return c
}

func (c *env) finish() {
	if c.b == nil {
		return
	}
	if err := c.bounded("Close", func(context.Context) error { return c.b.Close() }); err != nil {
		c.Errorf("Close: %v", err)
	}
	for _, f := range c.fates {
		f.check(c)
	}
}

// reopen closes the backend and opens its log again.
func (c *env) reopen() {
	c.Helper()
	c.b = c.h.Reopen(c.T, c.b)
}

// crash kills the backend and opens its log again. Appends under way may then
// stay unreported.
func (c *env) crash() {
	c.Helper()
	for _, f := range c.fates {
		f.crashed.Store(true)
	}
	c.b = c.h.CrashReopen(c.T, c.b)
}

// bounded runs f with a context that ends after the patience, and reports it
// when f does not end then.
func (c *env) bounded(what string, f func(ctx context.Context) error) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), c.h.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	late := time.NewTimer(2 * c.h.Patience)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		c.Fatalf("%s has not returned after %v, %v after its context ended", what, 2*c.h.Patience, c.h.Patience)
		return nil
	}
}

// must is bounded and wants no error.
func (c *env) must(what string, f func(ctx context.Context) error) {
	c.Helper()
	if err := c.bounded(what, f); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// wantErr is bounded and wants one of these errors.
func (c *env) wantErr(what string, f func(ctx context.Context) error, wanted ...error) {
	c.Helper()
	err := c.bounded(what, f)
	if !slices.ContainsFunc(wanted, func(w error) bool { return errors.Is(err, w) }) {
		c.Errorf("%s: error is %v, want one that is %v", what, err, wanted)
	}
}

// eventually wants f to become nil within the patience.
func (c *env) eventually(what string, f func() error) {
	c.Helper()
	deadline := time.Now().Add(c.h.Patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: after %v still: %v", what, c.h.Patience, err)
		}
		c.pause(pause)
	}
}

// pause waits: between looks at a broker, or for what must not come.
func (c *env) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Context().Done():
	}
}

var (
	topicRun     = time.Now().UnixNano()
	topicCounter atomic.Int64
)

// topicName makes a name that no other case uses.
func topicName() string {
	return fmt.Sprintf("storagetest-%x-%d", topicRun, topicCounter.Add(1))
}

// topic makes a topic of a name of its own.
func (c *env) topic(partitions int) storage.Topic {
	c.Helper()
	return c.topicNamed(topicName(), partitions)
}

func (c *env) topicNamed(name string, partitions int) (t storage.Topic) {
	c.Helper()
	if c.h.MakeTopic != nil {
		c.h.MakeTopic(c.T, c.b, name, partitions)
	} else {
		c.must("CreateTopic", func(ctx context.Context) error {
			_, err := need[storage.TopicAdmin](c).CreateTopic(ctx, name, storage.TopicConfig{Partitions: partitions})
			return err
		})
	}
	c.eventually("Topic after it was made", func() (err error) {
		t, err = c.describe(name)
		return err
	})
	if len(t.Partitions) != partitions {
		c.Fatalf("topic %q was made with %d partitions and has %q", name, partitions, t.Partitions)
	}
	return t
}

// describe is Topic.
func (c *env) describe(name string) (t storage.Topic, err error) {
	c.Helper()
	err = c.bounded("Topic", func(ctx context.Context) (err error) {
		t, err = c.b.Topic(ctx, name)
		return err
	})
	return t, err
}

// need finds a capability that the harness declares.
func need[C any](c *env) C {
	c.Helper()
	capability, ok := storage.As[C](c.b)
	if !ok {
		c.Fatalf("the backend is declared to have %T and has not", &capability)
	}
	return capability
}

// bounds is Bounder.Bounds.
func (c *env) bounds(topic, partition string) (low, high int64) {
	c.Helper()
	c.must("Bounds", func(ctx context.Context) (err error) {
		low, high, err = need[storage.Bounder](c).Bounds(ctx, topic, partition)
		return err
	})
	return low, high
}

// seek is Seek.
func (c *env) seek(topic, partition string, next int64) {
	c.Helper()
	c.must("Seek", func(ctx context.Context) error { return c.b.Seek(ctx, topic, partition, next) })
}

// wantCursor wants the pull offset to be known and at next.
func (c *env) wantCursor(topic, partition string, next int64) {
	c.Helper()
	if got, ok := c.b.Cursor(topic, partition); !ok || got != next {
		c.Errorf("Cursor of %q/%q is %d, %v, want %d, true", topic, partition, got, ok, next)
	}
}

package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// source publishes from one client, and counts.
type source struct {
	client Client
	topic  string
	maker  *Maker

	sent    int64        // by the publishing goroutine
	durable atomic.Int64 // answered
	failed  atomic.Int64
	first   atomic.Pointer[error]

	mu   sync.Mutex
	late Histogram // from publishing to the answer, of one event in sampleEvery
}

// sampleEvery is how many publishes there are to one whose latency is kept.
const sampleEvery = 16

func newSource(c Client, topic, name string, size int) *source {
	return &source{client: c, topic: topic, maker: NewMaker(name, size)}
}

// send publishes one event with a time stamp.
func (s *source) send(ctx context.Context, at time.Duration) error {
	s.sent++
	done := s.answered
	if s.sent%sampleEvery == 0 {
		done = func(err error) {
			s.mu.Lock()
			s.late.Add(now() - at)
			s.mu.Unlock()
			s.answered(err)
		}
	}
	return s.client.Publish(ctx, s.topic, s.maker.Next(at), done)
}

func (s *source) answered(err error) {
	if err != nil {
		s.failed.Add(1)
		s.first.CompareAndSwap(nil, &err)
		return
	}
	s.durable.Add(1)
}

// settled waits until everything sent is answered.
func (s *source) settled(r *run) error {
	err := r.await("answers to publishes", func() (bool, error) {
		return s.durable.Load()+s.failed.Load() >= s.sent, nil
	})
	if err != nil {
		return err
	}
	if n := s.failed.Load(); n > 0 {
		return fmt.Errorf("%d publishes failed, the first: %w", n, *s.first.Load())
	}
	return nil
}

// sources connects n publishing clients.
func (r *run) sources(n int, topic string) ([]*source, error) {
	var list []*source
	for i := range n {
		name := fmt.Sprintf("publisher-%d", i)
		c, err := r.connect(name)
		if err != nil {
			return nil, err
		}
		list = append(list, newSource(c, topic, name, r.spec.Size))
	}
	return list, nil
}

// each runs f for every source at once and returns the first error.
func each(list []*source, f func(*source) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, s := range list {
		wg.Go(func() { errs[i] = f(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// publish publishes from all clients as fast as they may.
func (r *run) publish() error {
	topic, err := r.topic("publish")
	if err != nil {
		return err
	}
	list, err := r.sources(r.spec.Clients, topic)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- each(list, func(s *source) error {
			for ctx.Err() == nil {
				if err := s.send(r.ctx, now()); err != nil {
					return err
				}
			}
			return s.settled(r)
		})
	}()
	if err := r.sleep(r.spec.Warmup); err != nil {
		return err
	}
	err = r.measure("publish", r.spec.Duration, func() (n int64) {
		for _, s := range list {
			n += s.durable.Load()
		}
		return n
	}, func() *Histogram { return answers(list) })
	stop()
	return errors.Join(err, <-ended)
}

// answers sums up how long publishes took.
func answers(list []*source) *Histogram {
	all := &Histogram{}
	for _, s := range list {
		s.mu.Lock()
		all.Merge(&s.late)
		s.mu.Unlock()
	}
	return all
}

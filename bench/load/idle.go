package load

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// openers is how many connections are opened at once.
const openers = 16

// idle opens many subscriptions, each a stream of its own, and reads the
// server's memory; then one event for each topic shows that all of them live.
func (r *run) idle() error {
	topics := make([]string, r.spec.PerConnection)
	for i := range topics {
		topics[i] = fmt.Sprintf("idle-%d", i)
		if err := r.d.MakeTopic(r.ctx, topics[i]); err != nil {
			return err
		}
	}
	var got atomic.Int64
	began := time.Now()
	if err := r.openIdle(topics, &got); err != nil {
		return err
	}
	streams := int64(r.spec.Connections * len(topics))
	open := Phase{Name: "open", Events: streams, Seconds: time.Since(began).Seconds()}
	open.Rate = float64(streams) / open.Seconds
	r.result.Phases = append(r.result.Phases, open)
	if err := r.measure("idle", r.spec.Settle, func() int64 { return 0 }, func() *Histogram { return &Histogram{} }); err != nil {
		return err
	}
	return r.wakeIdle(topics, streams, &got)
}

// openIdle opens the connections and their subscriptions.
func (r *run) openIdle(topics []string, got *atomic.Int64) error {
	clients := make([]Client, r.spec.Connections)
	errs := make([]error, openers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for k := range openers {
		wg.Go(func() {
			for errs[k] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(clients) {
					return
				}
				clients[i], errs[k] = r.openOne(i, topics, got)
			}
		})
	}
	wg.Wait()
	for _, c := range clients {
		if c != nil {
			r.clients = append(r.clients, c)
		}
	}
	return errors.Join(errs...)
}

func (r *run) openOne(i int, topics []string, got *atomic.Int64) (Client, error) {
	name := fmt.Sprintf("device-%d", i)
	c, err := r.d.Connect(r.ctx, name)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	for _, t := range topics {
		_, err := c.Subscribe(r.ctx, t, Sub{Name: name}, func(m *Message) { touch(m); got.Add(1) })
		if err != nil {
			return c, fmt.Errorf("subscribe %s to %s: %w", name, t, err)
		}
	}
	return c, nil
}

// wakeIdle sends one event to each topic and waits until all have it.
func (r *run) wakeIdle(topics []string, streams int64, got *atomic.Int64) error {
	m, err := r.startMeter("wake")
	if err != nil {
		return err
	}
	for i, t := range topics {
		list, err := r.sources(1, t)
		if err != nil {
			return err
		}
		list[0].maker = NewMaker(fmt.Sprintf("wake-%d", i), r.spec.Size)
		if err := list[0].send(r.ctx, now()); err != nil {
			return err
		}
	}
	if err := r.await("one event for each idle stream", func() (bool, error) { return got.Load() >= streams, nil }); err != nil {
		return err
	}
	p, err := m.stop(streams, &Histogram{})
	r.result.Phases = append(r.result.Phases, p)
	return err
}

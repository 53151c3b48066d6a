package load

import (
	"context"
	"errors"
	"time"
)

// pollEvery is how often a publisher that may not go on looks again.
const pollEvery = 200 * time.Microsecond

// flow publishes from one client to subscribers that are there.
type flow struct {
	r       *run
	src     *source
	to      *sinks
	per     int64 // deliveries of one event
	arrived func() int64
}

// newFlow makes a topic, its subscribers and a publisher.
func (r *run) newFlow(topic string, sub func(int) Sub, everyone bool) (*flow, error) {
	topic, err := r.topic(topic)
	if err != nil {
		return nil, err
	}
	to, err := r.subscribe(r.spec.Clients, topic, sub)
	if err != nil {
		return nil, err
	}
	list, err := r.sources(1, topic)
	if err != nil {
		return nil, err
	}
	f := &flow{r: r, src: list[0], to: to, per: 1, arrived: to.handled}
	if everyone {
		f.per, f.arrived = int64(r.spec.Clients), to.slowest
	}
	return f, nil
}

// full publishes until ctx ends, with at most Window events unfinished.
func (f *flow) full(ctx context.Context) error {
	for ctx.Err() == nil {
		if f.src.sent-f.arrived() >= int64(f.r.spec.Window) {
			if err := f.r.sleep(pollEvery); err != nil {
				return err
			}
			continue
		}
		for range 16 {
			if err := f.src.send(f.r.ctx, now()); err != nil {
				return err
			}
		}
	}
	return f.drain()
}

// paced publishes at a steady rate for a time. An event is stamped with the
// time at which it was due where the publisher is late, so that a stall counts
// for all that had to wait.
func (f *flow) paced(rate float64, length time.Duration) error {
	const onTime = time.Millisecond
	begin := now()
	for n := 0; ; {
		at := now()
		if at-begin >= length {
			return f.drain()
		}
		for ; ; n++ {
			due := begin + time.Duration(float64(n)/rate*float64(time.Second))
			if due > at {
				break
			}
			stamp := now()
			if stamp-due > onTime {
				stamp = due
			}
			if err := f.src.send(f.r.ctx, stamp); err != nil {
				return err
			}
		}
		if err := f.r.sleep(min(pollEvery, time.Duration(float64(time.Second)/rate))); err != nil {
			return err
		}
	}
}

// drain waits until all that was published is answered and handled.
func (f *flow) drain() error {
	if err := f.src.settled(f.r); err != nil {
		return err
	}
	return f.r.await("deliveries", func() (bool, error) { return f.to.handled() >= f.src.sent*f.per, nil })
}

// peak measures the flow at full speed, after a warm-up.
func (f *flow) peak(name string, phase int) error {
	f.to.phase.Store(int32(phase))
	ctx, stop := context.WithCancel(f.r.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.full(ctx) }()
	err := f.r.sleep(f.r.spec.Warmup)
	if err == nil {
		err = f.r.measure(name, f.r.spec.Duration, f.to.handled, func() *Histogram { return &Histogram{} })
	}
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	last := &f.r.result.Phases[len(f.r.result.Phases)-1]
	last.Latency = f.to.latency(phase).Latency()
	return nil
}

// steady measures the flow at a rate.
func (f *flow) steady(name string, phase int, rate float64) error {
	f.to.phase.Store(int32(phase))
	before := f.to.handled()
	m, err := f.r.startMeter(name)
	if err != nil {
		return err
	}
	if err := f.paced(rate, f.r.spec.Duration); err != nil {
		return err
	}
	p, err := m.stop(f.to.handled()-before, f.to.latency(phase))
	f.r.result.Phases = append(f.r.result.Phases, p)
	return err
}

// live measures latency while idle, throughput, and latency at half of it.
func (r *run) live() error {
	f, err := r.newFlow("live", r.share, false)
	if err != nil {
		return err
	}
	if err := f.steady("idle", 0, r.spec.IdleRate); err != nil {
		return err
	}
	if err := f.peak("peak", 1); err != nil {
		return err
	}
	half := r.result.Phases[len(r.result.Phases)-1].Rate / 2
	if err := f.steady("half", 2, half); err != nil {
		return err
	}
	return f.to.stop(r.ctx)
}

// fanOut measures deliveries to many subscribers that all get everything.
func (r *run) fanOut() error {
	f, err := r.newFlow("fan-out", everyone, true)
	if err != nil {
		return err
	}
	if err := f.peak("fan-out", 0); err != nil {
		return err
	}
	return f.to.stop(r.ctx)
}

package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// sink is one subscriber: it touches what it gets and counts.
type sink struct {
	sub   Subscription
	count atomic.Int64
	phase *atomic.Int32
	late  [phases]Histogram // written by the handler only
	sum   uint64            // of what was touched
	_     [64]byte          // from the next one's counters
}

// phases is how many phases a load tells apart in latencies.
const phases = 3

func (s *sink) handle(m *Message) {
	s.late[s.phase.Load()].Add(now() - sentAt(m.Data))
	s.sum += touch(m)
	s.count.Add(1)
}

// sinks are the subscribers of a load.
type sinks struct {
	list  []*sink
	phase atomic.Int32
}

// subscribe connects n subscribers, each on a connection of its own.
func (r *run) subscribe(n int, topic string, sub func(i int) Sub) (*sinks, error) {
	all := &sinks{}
	for i := range n {
		s := &sink{phase: &all.phase}
		want := sub(i)
		c, err := r.connect(want.Name)
		if err != nil {
			return nil, err
		}
		if s.sub, err = c.Subscribe(r.ctx, topic, want, s.handle); err != nil {
			return nil, fmt.Errorf("subscribe %s: %w", want.Name, err)
		}
		all.list = append(all.list, s)
	}
	return all, nil
}

// share names the members of a share.
func (r *run) share(i int) Sub {
	return Sub{Name: fmt.Sprintf("worker-%d%s", i, r.spec.Run), Share: "workers" + r.spec.Run}
}

// everyone names subscribers that get every event each.
func everyone(i int) Sub { return Sub{Name: fmt.Sprintf("reader-%d", i)} }

// handled is how many events all have handled together.
func (a *sinks) handled() (n int64) {
	for _, s := range a.list {
		n += s.count.Load()
	}
	return n
}

// slowest is how many the slowest has handled.
func (a *sinks) slowest() int64 {
	low := a.list[0].count.Load()
	for _, s := range a.list[1:] {
		low = min(low, s.count.Load())
	}
	return low
}

// latency sums up a phase that is over: everything sent in it is handled.
func (a *sinks) latency(phase int) *Histogram {
	all := &Histogram{}
	for _, s := range a.list {
		all.Merge(&s.late[phase])
	}
	return all
}

// stop ends all subscriptions, their acks confirmed.
func (a *sinks) stop(ctx context.Context) error {
	errs := make([]error, 0, len(a.list))
	for _, s := range a.list {
		errs = append(errs, s.sub.Stop(ctx))
	}
	return errors.Join(errs...)
}

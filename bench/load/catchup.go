package load

import "sync"

// catchUp stores events, then has a share read and ack them all. It ends when
// the server has nothing unfinished for the share, by what it knows durably.
func (r *run) catchUp() error {
	const topic = "catch-up"
	if err := r.d.MakeTopic(r.ctx, topic); err != nil {
		return err
	}
	n := r.spec.Backlog / 8 * 8
	if err := r.fill(topic, n); err != nil {
		return err
	}
	member := func(i int) Sub {
		s := share(i)
		s.Beginning = true
		return s
	}
	m, err := r.startMeter("catch-up")
	if err != nil {
		return err
	}
	all, err := r.subscribe(r.spec.Clients, topic, member)
	if err != nil {
		return err
	}
	err = r.await("reading all", func() (bool, error) { return all.handled() >= int64(n), nil })
	if err != nil {
		return err
	}
	if err := r.confirmed(all, topic, member(0)); err != nil {
		return err
	}
	p, err := m.stop(int64(n), &Histogram{})
	r.result.Phases = append(r.result.Phases, p)
	return err
}

// confirmed ends the subscriptions and waits until nothing is unfinished.
func (r *run) confirmed(all *sinks, topic string, sub Sub) error {
	errs := make([]error, len(all.list))
	var wg sync.WaitGroup
	for i, s := range all.list {
		wg.Go(func() { errs[i] = s.sub.Stop(r.ctx) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return r.await("all acks", func() (bool, error) {
		left, err := r.d.Unfinished(r.ctx, topic, sub)
		return left == 0, err
	})
}

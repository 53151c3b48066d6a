package load

import "errors"

// fillers is how many clients store events at once.
const fillers = 8

// stored is how many events Fill and CatchUp store.
func (s *Spec) stored() int { return s.Backlog / fillers * fillers }

// catchUp stores events, then has a share read and ack them all. It ends when
// the server has nothing unfinished for the share, by what it knows durably.
func (r *run) catchUp() error {
	topic, err := r.topic("catch-up")
	if err != nil {
		return err
	}
	if r.spec.Topic == "" {
		if err := r.fill(topic); err != nil {
			return err
		}
	}
	member := func(i int) Sub {
		s := r.share(i)
		s.Beginning = true
		return s
	}
	read := reading{r: r, n: int64(r.spec.stored())}
	if !r.spec.FromFirst {
		if err := read.begin(); err != nil {
			return err
		}
	}
	if read.all, err = r.subscribe(r.spec.Clients, topic, member); err != nil {
		return err
	}
	if err := read.through(); err != nil {
		return err
	}
	if !r.spec.Unconfirmed {
		if err := r.finished(topic, member(0)); err != nil {
			return err
		}
	}
	p, err := read.m.stop(read.n-read.before, &Histogram{})
	r.result.Phases = append(r.result.Phases, p)
	return errors.Join(err, read.all.stop(r.ctx))
}

// reading is a catch-up under way.
type reading struct {
	r      *run
	n      int64 // events that are stored
	all    *sinks
	m      meter
	before int64 // handled when the clock began
}

func (c *reading) begin() (err error) {
	c.m, err = c.r.startMeter("catch-up")
	return err
}

// through waits until all events are handled.
func (c *reading) through() error {
	if c.r.spec.FromFirst {
		err := c.r.await("the first event", func() (bool, error) {
			c.before = c.all.handled()
			return c.before > 0, nil
		})
		if err != nil {
			return err
		}
		if err := c.begin(); err != nil {
			return err
		}
	}
	return c.r.await("reading all", func() (bool, error) { return c.all.handled() >= c.n, nil })
}

// finished waits until nothing is unfinished. The subscriptions stand meanwhile:
// a log that wants acks of its own gets them while somebody is there.
func (r *run) finished(topic string, sub Sub) error {
	return r.await("all acks", func() (bool, error) {
		left, err := r.d.Unfinished(r.ctx, topic, sub)
		return left == 0, err
	})
}

// storeOnly stores events and measures that.
func (r *run) storeOnly() error {
	topic, err := r.topic("fill")
	if err != nil {
		return err
	}
	m, err := r.startMeter("fill")
	if err != nil {
		return err
	}
	if err := r.fill(topic); err != nil {
		return err
	}
	p, err := m.stop(int64(r.spec.stored()), &Histogram{})
	r.result.Phases = append(r.result.Phases, p)
	return err
}

// fill stores the events of a backlog.
func (r *run) fill(topic string) error {
	list, err := r.sources(fillers, topic)
	if err != nil {
		return err
	}
	return each(list, func(s *source) error {
		for range r.spec.stored() / fillers {
			if err := s.send(r.ctx, now()); err != nil {
				return err
			}
		}
		return s.settled(r)
	})
}

package tracecheck

import (
	"errors"

	"github.com/ackmesh/ackmesh/offset"
)

// Breaches of what holds for acks and positions.
var (
	ErrBrokeAckFinal          = errors.New("a record came again after DURABLE")
	ErrBrokeRemembered        = errors.New("an ack that was DURABLE is forgotten")
	ErrBrokeMonotone          = errors.New("a position went down")
	ErrBrokeNoSkip            = errors.New("a position passed a record that nobody acked")
	ErrBrokeBrokerAfterClient = errors.New("the broker was told before the client acked")
)

// maxAhead is how many ranges a position has at most; more are cut off.
const maxAhead = 1000

// isFinal tells whether e is the DURABLE of an ack.
func (w *walk) isFinal(e *Event) bool {
	return e.Kind == Answer && e.Status == Durable && !w.sent[e.Delivery].nacked
}

// AckFinal checks that a record whose ack was answered DURABLE never comes to the
// subscriber again in its epoch, whatever crashes.
func AckFinal(t *Trace) error {
	final := map[record]int{}
	return t.each(func(w *walk, e *Event) error {
		switch {
		case w.isFinal(e):
			final[w.sent[e.Delivery].record] = w.at
		case e.Kind == Delivered:
			r := w.sent[e.Delivery].record
			if at, ok := final[r]; ok {
				return broke(ErrBrokeAckFinal, w.at, "%s, DURABLE by event %d: %s", r, at+1, e)
			}
		}
		return nil
	})
}

// Remembered checks that what was answered DURABLE before an Open was sent is finished in
// the positions of its Opened.
func Remembered(t *Trace) error {
	m := memory{final: map[place]*offset.Set{}, atOpen: map[int32]map[place]*offset.Set{}}
	return t.each(func(w *walk, e *Event) error {
		switch {
		case w.isFinal(e):
			d := w.sent[e.Delivery]
			m.add(d.place, d.off)
		case e.Kind == Open:
			m.opening(e.Stream, e.Subscriber())
		case e.Kind == Opened:
			return m.opened(w, e)
		}
		return nil
	})
}

// memory is what was answered DURABLE and not yet seen below a position.
type memory struct {
	final  map[place]*offset.Set
	atOpen map[int32]map[place]*offset.Set
}

func (m *memory) add(p place, off int64) {
	if m.final[p] == nil {
		m.final[p] = &offset.Set{}
	}
	m.final[p].Add(offset.Range{First: off, Last: off})
}

// opening keeps what is known when an Open is sent.
func (m *memory) opening(stream int32, sub string) {
	known := map[place]*offset.Set{}
	for p, set := range m.final {
		if p.sub == sub {
			known[p] = offset.NewSet(set.Ranges())
		}
	}
	m.atOpen[stream] = known
}

func (m *memory) opened(w *walk, e *Event) error {
	known := m.atOpen[e.Stream]
	delete(m.atOpen, e.Stream)
	for _, pos := range e.Positions() {
		p := place{w.streams[e.Stream].sub, pos.Partition, pos.Epoch}
		if known[p] == nil {
			continue
		}
		for _, r := range known[p].Ranges() {
			if off, ok := pos.lacks(r); ok {
				return broke(ErrBrokeRemembered, w.at, "%s is not finished in %s", record{p, off}, e)
			}
		}
	}
	return nil
}

// lacks finds an offset of r that is not finished in the position.
func (p Position) lacks(r offset.Range) (off int64, ok bool) {
	r.First = max(r.First, p.Next)
	for _, a := range p.Ahead {
		if r.Len() > 0 && a.First <= r.First && a.Last >= r.First {
			r.First = a.Last + 1
		}
	}
	if n := len(p.Ahead); n >= maxAhead && r.First > p.Ahead[n-1].Last {
		return 0, false
	}
	return r.First, r.Len() > 0
}

// Monotone checks that what a stream is told of a partition never goes down, and is never
// below what anyone was told before the stream was opened.
func Monotone(t *Trace) error {
	type key struct {
		sub, partition string
	}
	type told struct {
		Position
		at int
	}
	latest := map[key]told{}
	floor := map[int32]map[key]told{} // of each stream
	return t.each(func(w *walk, e *Event) error {
		if e.Kind == Open {
			floor[e.Stream] = map[key]told{}
			for k, p := range latest {
				if k.sub == e.Subscriber() {
					floor[e.Stream][k] = p
				}
			}
		}
		for _, pos := range e.Positions() {
			k := key{w.streams[e.Stream].sub, pos.Partition}
			if f, ok := floor[e.Stream][k]; ok && pos.below(f.Position) {
				return broke(ErrBrokeMonotone, w.at, "partition %s of %s was at %d in epoch %d by event %d: %s",
					k.partition, k.sub, f.Next, f.Epoch, f.at+1, e)
			}
			floor[e.Stream][k] = told{pos, w.at}
			if l, ok := latest[k]; !ok || l.below(pos) {
				latest[k] = told{pos, w.at}
			}
		}
		return nil
	})
}

func (p Position) below(q Position) bool {
	return p.Epoch < q.Epoch || (p.Epoch == q.Epoch && p.Next < q.Next)
}

// NoSkip checks that a position never lies above a record that exists, and never has one
// among its finished, unless an ack of it was sent before, or it is a dead
// letter. It holds for subscribers without a filter and records that do not
// expire.
func NoSkip(t *Trace) error {
	s := skips{exist: existing(t), seen: map[place]*offset.Set{}}
	return t.each(func(w *walk, e *Event) error {
		switch e.Kind {
		case Ack:
			d := w.sent[e.Delivery]
			s.of(d.place).Add(offset.Range{First: d.off, Last: d.off})
		case Dead:
			for p, set := range s.seen {
				if p.sub == e.Subscriber() && p.partition == e.Partition {
					set.Add(offset.Range{First: e.Offset, Last: e.Offset})
				}
			}
		}
		for _, pos := range e.Positions() {
			if err := s.check(w, e, pos); err != nil {
				return err
			}
		}
		return nil
	})
}

// existing are the records that anyone was told of, by partition.
func existing(t *Trace) map[string]*offset.Set {
	all := map[string]*offset.Set{}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != Published && e.Kind != Delivered {
			continue
		}
		if all[e.Partition] == nil {
			all[e.Partition] = &offset.Set{}
		}
		all[e.Partition].Add(offset.Range{First: e.Offset, Last: e.Offset})
	}
	return all
}

// skips knows what positions may pass.
type skips struct {
	exist map[string]*offset.Set
	// seen are the offsets that were acked, and those below the first position.
	seen map[place]*offset.Set
}

func (s *skips) of(p place) *offset.Set {
	if s.seen[p] == nil {
		s.seen[p] = &offset.Set{}
	}
	return s.seen[p]
}

func (s *skips) check(w *walk, e *Event, pos Position) error {
	p := place{w.streams[e.Stream].sub, pos.Partition, pos.Epoch}
	if s.seen[p] == nil { // where it begins
		s.of(p).Add(offset.Range{First: 0, Last: pos.Next - 1})
	}
	passed := append([]offset.Range{{First: 0, Last: pos.Next - 1}}, pos.Ahead...)
	for _, r := range passed {
		if off, ok := s.unseen(p, r); ok {
			return broke(ErrBrokeNoSkip, w.at, "%s is finished in %s", record{p, off}, e)
		}
	}
	return nil
}

// unseen finds a record in r that exists and was not acked.
func (s *skips) unseen(p place, r offset.Range) (off int64, ok bool) {
	exist := s.exist[p.partition]
	if exist == nil {
		return 0, false
	}
	for _, x := range exist.Ranges() {
		x = offset.Range{First: max(x.First, r.First), Last: min(x.Last, r.Last)}
		for x.Len() > 0 {
			end := s.of(p).EndOf(x.First)
			if end == x.First {
				return x.First, true
			}
			x.First = end
		}
	}
	return 0, false
}

// BrokerAfterClient checks that the broker is told that a record is finished only after an
// ack of it was sent, and not while the last answer to it was a failure.
func BrokerAfterClient(t *Trace) error {
	type key struct {
		sub, partition string
		off            int64
	}
	acked := map[key]bool{}
	return t.each(func(w *walk, e *Event) error {
		switch e.Kind {
		case Ack, Answer:
			d := w.sent[e.Delivery]
			acked[key{d.sub, d.partition, d.off}] = e.Kind == Ack || e.Status == Durable
		case Dead:
			acked[key{e.Subscriber(), e.Partition, e.Offset}] = true
		case BrokerAck:
			if !acked[key{e.Subscriber(), e.Partition, e.Offset}] {
				return broke(ErrBrokeBrokerAfterClient, w.at, "%s", e)
			}
		}
		return nil
	})
}

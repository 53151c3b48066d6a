package tracecheck

import (
	"errors"
	"strings"
)

// CheckEvents holds a trace against what can be promised on a log that hands
// records out: what comes again may be at another offset of another partition,
// so only the event says which record it is, and positions are not told. Every
// subscriber of a topic gets each confirmed event that was first sent after its
// first Opened (ErrBrokeComplete); an event does not come again once as many
// acks of it were DURABLE as it may be in the log (ErrBrokeAckFinal): once, and
// once more for each attempt at it that ended without an answer. UniqueIDs and
// Bounded hold as ever.
//
// The name of a partition is to be that of its topic and, behind the last
// slash, its own. An Opened is to have a position in some partition of each
// topic that its stream is subscribed to.
func CheckEvents(t *Trace) error {
	if err := wellFormed(t); err != nil {
		return err
	}
	return errors.Join(completeEvents(t), finalEvents(t), UniqueIDs(t), Bounded(t))
}

// Unfinished names the first confirmed event that a subscriber of its topic is
// to get, as CheckEvents has it, and of which no ack was DURABLE; nil: none.
func Unfinished(t *Trace) error {
	e := newEvents(t)
	return e.every(t, func(at int, id uint64, s *follower) error {
		if s.final[id] > 0 {
			return nil
		}
		return broke(ErrBrokeComplete, at, "event %d is not finished by %s", id, s.name)
	})
}

func completeEvents(t *Trace) error {
	e := newEvents(t)
	return e.every(t, func(at int, id uint64, s *follower) error {
		if s.got[id] {
			return nil
		}
		return broke(ErrBrokeComplete, at, "event %d never came to %s, which was opened by event %d", id, s.name, s.openedAt+1)
	})
}

// events is what a trace says of events, wherever they lie.
type events struct {
	sentAt    map[uint64]int // when an event was first sent
	followers map[string]*follower
	order     []*follower // by their first Opened
}

// follower is one subscriber.
type follower struct {
	name     string
	openedAt int
	topics   map[string]bool
	got      map[uint64]bool // delivered, or a dead letter
	final    map[uint64]int  // acks that were DURABLE
}

func newEvents(t *Trace) *events {
	v := &events{sentAt: map[uint64]int{}, followers: map[string]*follower{}}
	ids := map[uint64]uint64{}                 // of deliveries
	at := map[string]map[int64]uint64{}        // of places, for Dead
	_ = t.each(func(w *walk, e *Event) error { // never fails
		switch e.Kind {
		case Publish:
			if _, again := v.sentAt[e.ID]; !again {
				v.sentAt[e.ID] = w.at
			}
		case Opened:
			v.opened(w, e)
		case Delivered:
			ids[e.Delivery] = e.ID
			if at[e.Partition] == nil {
				at[e.Partition] = map[int64]uint64{}
			}
			at[e.Partition][e.Offset] = e.ID
			if f := v.followers[w.streams[e.Stream].sub]; f != nil {
				f.got[e.ID] = true
			}
		case Answer:
			if f := v.followers[w.sent[e.Delivery].sub]; f != nil && w.isFinal(e) {
				f.final[ids[e.Delivery]]++
			}
		case Dead:
			if f := v.followers[e.Subscriber()]; f != nil {
				id := at[e.Partition][e.Offset]
				f.got[id] = true
				f.final[id]++
			}
		}
		return nil
	})
	return v
}

func (v *events) opened(w *walk, e *Event) {
	name := w.streams[e.Stream].sub
	f := v.followers[name]
	if f == nil {
		f = &follower{name: name, openedAt: w.at, topics: map[string]bool{}, got: map[uint64]bool{}, final: map[uint64]int{}}
		v.followers[name] = f
		v.order = append(v.order, f)
	}
	for _, p := range e.Positions() {
		f.topics[topicOf(p.Partition)] = true
	}
}

// topicOf is the topic of a partition's name.
func topicOf(partition string) string {
	return partition[:max(strings.LastIndexByte(partition, '/'), 0)]
}

// every calls fn with each confirmed event and each subscriber that is to get
// it, until fn returns an error.
func (v *events) every(t *Trace, fn func(at int, id uint64, f *follower) error) error {
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != Published {
			continue
		}
		for _, f := range v.order {
			if f.topics[topicOf(e.Partition)] && v.sentAt[e.ID] > f.openedAt {
				if err := fn(i, e.ID, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// finalEvents is AckFinal by events.
func finalEvents(t *Trace) error {
	copies := map[uint64]int{} // beyond the first
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind == Unpublished {
			copies[e.ID]++
		}
	}
	type key struct {
		sub string
		id  uint64
	}
	ids, final := map[uint64]uint64{}, map[key]int{}
	return t.each(func(w *walk, e *Event) error {
		switch {
		case w.isFinal(e):
			final[key{w.sent[e.Delivery].sub, ids[e.Delivery]}]++
		case e.Kind == Delivered:
			ids[e.Delivery] = e.ID
			k := key{w.sent[e.Delivery].sub, e.ID}
			if n := final[k]; n > copies[e.ID] {
				return broke(ErrBrokeAckFinal, w.at, "%d acks of event %d by %s were DURABLE, and it may be in the log %d times: %s",
					n, e.ID, k.sub, copies[e.ID]+1, e)
			}
		}
		return nil
	})
}

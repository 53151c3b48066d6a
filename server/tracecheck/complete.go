package tracecheck

import (
	"errors"

	"github.com/ackmesh/ackmesh/offset"
)

// Breaches of what holds for records.
var (
	ErrBrokeComplete = errors.New("a confirmed event was not delivered")
	ErrBrokeFaithful = errors.New("a record is not what was published there")
	ErrBrokeOnce     = errors.New("an event is in the log twice")
)

// Complete checks that at the end of the trace every subscriber has got, or has as a dead
// letter, each confirmed event that was first sent after its first Opened, and
// each that lies at or above where that Opened told it to begin. Partitions
// that a later Opened tells of for the first time count from their beginning.
func Complete(t *Trace) error {
	w := newWants(t)
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != Published {
			continue
		}
		for _, s := range w.subs {
			if s.wants(e, w.sentAt[e.ID]) && !s.got[e.Partition].Contains(e.Offset) {
				return broke(ErrBrokeComplete, i, "event %d at offset %d of partition %s never came to %s, which was opened by event %d",
					e.ID, e.Offset, e.Partition, s.name, s.openedAt+1)
			}
		}
	}
	return nil
}

// wants is who wants what.
type wants struct {
	subs   []*wanting
	sentAt map[uint64]int // when an event was first sent
}

// wanting is one subscriber.
type wanting struct {
	name     string
	openedAt int
	start    map[string]int64
	got      map[string]*offset.Set
}

func newWants(t *Trace) *wants {
	w := &wants{sentAt: map[uint64]int{}}
	by := map[string]*wanting{}
	_ = t.each(func(k *walk, e *Event) error { // never fails
		switch e.Kind {
		case Publish:
			if _, again := w.sentAt[e.ID]; !again {
				w.sentAt[e.ID] = k.at
			}
		case Opened:
			name := k.streams[e.Stream].sub
			if by[name] == nil {
				by[name] = &wanting{name: name, openedAt: k.at, start: map[string]int64{}, got: map[string]*offset.Set{}}
				w.subs = append(w.subs, by[name])
			}
			by[name].learn(e.Positions(), by[name].openedAt == k.at)
		case Delivered:
			by[k.streams[e.Stream].sub].take(e)
		case Dead:
			by[e.Subscriber()].take(e)
		}
		return nil
	})
	return w
}

// learn notes where the subscriber begins.
func (s *wanting) learn(list []Position, first bool) {
	for _, p := range list {
		if _, known := s.start[p.Partition]; known {
			continue
		}
		s.got[p.Partition] = &offset.Set{}
		s.start[p.Partition] = 0
		if first {
			s.start[p.Partition] = p.Next
		}
	}
}

func (s *wanting) take(e *Event) {
	if s == nil {
		return // nobody who was told that it is open
	}
	set := s.got[e.Partition]
	if set == nil {
		set = &offset.Set{}
		s.got[e.Partition] = set
	}
	set.Add(offset.Range{First: e.Offset, Last: e.Offset})
}

// wants tells whether the subscriber is to get a confirmed event.
func (s *wanting) wants(e *Event, sentAt int) bool {
	start, ours := s.start[e.Partition]
	return ours && (e.Offset >= start || sentAt > s.openedAt)
}

// Faithful checks that what is delivered was published before, and a partition has at an
// offset what was confirmed or delivered there before, never another event.
func Faithful(t *Trace) error {
	type spot struct {
		partition string
		off       int64
	}
	published, at := map[uint64]bool{}, map[spot]uint64{}
	return t.each(func(w *walk, e *Event) error {
		switch e.Kind {
		case Publish:
			published[e.ID] = true
		case Published, Delivered:
			if !published[e.ID] {
				return broke(ErrBrokeFaithful, w.at, "event %d was never published: %s", e.ID, e)
			}
			s := spot{e.Partition, e.Offset}
			if id, ok := at[s]; ok && id != e.ID {
				return broke(ErrBrokeFaithful, w.at, "it was event %d before: %s", id, e)
			}
			at[s] = e.ID
		}
		return nil
	})
}

// Once checks that an event that is published again because its first attempt was not
// answered has one place in the log. It holds for repeats within the window in
// which the log knows them.
func Once(t *Trace) error {
	type spot struct {
		partition string
		off       int64
	}
	at := map[uint64]spot{}
	return t.each(func(w *walk, e *Event) error {
		if e.Kind != Published && e.Kind != Delivered {
			return nil
		}
		s := spot{e.Partition, e.Offset}
		if first, ok := at[e.ID]; ok && first != s {
			return broke(ErrBrokeOnce, w.at, "it is at offset %d of partition %s too: %s", first.off, first.partition, e)
		}
		at[e.ID] = s
		return nil
	})
}

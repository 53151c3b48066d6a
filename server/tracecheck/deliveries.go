package tracecheck

import (
	"errors"
	"strings"
)

// Breaches of what holds for deliveries.
var (
	ErrBrokeOrdered      = errors.New("first deliveries are out of order")
	ErrBrokeAttemptsRise = errors.New("attempts do not rise")
	ErrBrokeUniqueIDs    = errors.New("a delivery id was used again")
	ErrBrokeBounded      = errors.New("more than is allowed was delivered")
	ErrBrokeExclusive    = errors.New("a share has a record on two streams at once")
)

// seen is what was seen of something last.
type seen struct {
	at     int
	stream *stream
	num    int64
}

// follows tells whether what comes on stream s was sent after l: it was opened
// after l was received, or it is the stream of l.
func (l seen) follows(s *stream) bool { return l.stream == s || s.openedBy > l.at }

// lost tells whether the power was lost between l and what comes on stream s.
func (l seen) lost(s *stream) bool { return l.stream != nil && l.stream.powers < s.powers }

// Ordered checks that of each partition a stream gets first deliveries (attempt 1) in
// offset order, and so does a subscriber of kind client over all its streams.
// After a loss of power first deliveries may begin anew lower: what is below
// the high mark is known only as far as it was synced.
func Ordered(t *Trace) error {
	type key struct {
		place
		stream int32 // 0: of the subscriber
	}
	last := map[key]seen{}
	return t.each(func(w *walk, e *Event) error {
		if e.Kind != Delivered || e.Attempt != 1 {
			return nil
		}
		d := w.sent[e.Delivery]
		keys := []key{{d.place, e.Stream}}
		if strings.HasPrefix(d.sub, "client/") {
			keys = append(keys, key{d.place, 0})
		}
		for _, k := range keys {
			l, ok := last[k]
			if ok && !l.lost(d.stream) && l.num >= e.Offset && l.follows(d.stream) {
				return broke(ErrBrokeOrdered, w.at, "offset %d came before, by event %d: %s", l.num, l.at+1, e)
			}
			if !ok || l.num < e.Offset || l.lost(d.stream) {
				last[k] = seen{w.at, d.stream, e.Offset}
			}
		}
		return nil
	})
}

// AttemptsRise checks that each further delivery of a record to a subscriber has a higher
// attempt than all before it, and none has attempt 2 or more unless a stream of
// the subscriber has ended before, or the record was given back. After a loss
// of power a record that was delivered once may come as attempt 1 again: the
// high mark is not synced; later attempts are.
func AttemptsRise(t *Trace) error {
	last, nacked := map[record]seen{}, map[record]bool{}
	return t.each(func(w *walk, e *Event) error {
		if e.Kind == Nack {
			nacked[w.sent[e.Delivery].record] = true
		}
		if e.Kind != Delivered {
			return nil
		}
		d := w.sent[e.Delivery]
		l, again := last[d.record]
		attempt := int64(e.Attempt)
		forgotten := l.num == 1 && l.lost(d.stream)
		switch {
		case attempt < 1:
			return broke(ErrBrokeAttemptsRise, w.at, "attempts begin at 1: %s", e)
		case attempt > 1 && w.ends[d.sub] == 0 && !nacked[d.record]:
			return broke(ErrBrokeAttemptsRise, w.at, "no stream of %s has ended yet: %s", d.sub, e)
		case again && !forgotten && (attempt == l.num || attempt < l.num && l.follows(d.stream)):
			return broke(ErrBrokeAttemptsRise, w.at, "attempt %d came by event %d: %s", l.num, l.at+1, e)
		}
		if !again || attempt > l.num || forgotten {
			last[d.record] = seen{w.at, d.stream, attempt}
		}
		return nil
	})
}

// UniqueIDs checks that no delivery id is ever used again, not after a restart either.
func UniqueIDs(t *Trace) error {
	used := map[uint64]int{}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != Delivered {
			continue
		}
		if at, ok := used[e.Delivery]; ok {
			return broke(ErrBrokeUniqueIDs, i, "used by event %d: %s", at+1, e)
		}
		used[e.Delivery] = i
	}
	return nil
}

// Bounded checks that no record is delivered more often than MaxAttempts, none after it
// became a dead letter and none becomes one twice; and what is neither acked
// nor given back on a stream is within the stream's window.
func Bounded(t *Trace) error {
	b := bounds{max: t.MaxAttempts, dead: map[grave]int{}, flying: map[*stream]int{}, answers: map[uint64]bool{}}
	return t.each(func(w *walk, e *Event) error {
		switch e.Kind {
		case Delivered:
			return b.delivered(w, e)
		case Ack, Nack:
			b.answered(w, e)
		case Dead:
			g := grave{e.Subscriber(), e.Partition, e.Offset}
			if at, ok := b.dead[g]; ok {
				return broke(ErrBrokeBounded, w.at, "it was dead by event %d: %s", at+1, e)
			}
			b.dead[g] = w.at
		}
		return nil
	})
}

// grave is a dead letter.
type grave struct {
	sub, partition string
	off            int64
}

type bounds struct {
	max     int32
	dead    map[grave]int
	flying  map[*stream]int
	answers map[uint64]bool // deliveries that were acked or nacked
}

func (b *bounds) delivered(w *walk, e *Event) error {
	d := w.sent[e.Delivery]
	b.flying[d.stream]++
	switch at, dead := b.dead[grave{d.sub, d.partition, d.off}]; {
	case dead:
		return broke(ErrBrokeBounded, w.at, "it was dead by event %d: %s", at+1, e)
	case b.max > 0 && e.Attempt > b.max:
		return broke(ErrBrokeBounded, w.at, "%d attempts are allowed: %s", b.max, e)
	case d.stream.window > 0 && b.flying[d.stream] > d.stream.window:
		return broke(ErrBrokeBounded, w.at, "%d are in flight in a window of %d: %s", b.flying[d.stream], d.stream.window, e)
	}
	return nil
}

// answered frees a slot of the window, once for each delivery.
func (b *bounds) answered(w *walk, e *Event) {
	if !b.answers[e.Delivery] {
		b.answers[e.Delivery] = true
		b.flying[w.sent[e.Delivery].stream]--
	}
}

// Exclusive checks that a record of a share is in flight on one stream at a time.
func Exclusive(t *Trace) error {
	holder := map[record]*sent{}
	return t.each(func(w *walk, e *Event) error {
		if e.Kind != Delivered {
			return nil
		}
		d := w.sent[e.Delivery]
		if !strings.HasPrefix(d.sub, "share/") || d.stream.closed {
			return nil
		}
		h := holder[d.record]
		if h != nil && h.stream != d.stream && !h.stream.closed && !h.answered {
			return broke(ErrBrokeExclusive, w.at, "stream %d holds it with attempt %d: %s", h.stream.id, h.attempt, e)
		}
		holder[d.record] = d
		return nil
	})
}

package tracecheck

import (
	"errors"
	"fmt"
)

// record is a record as one subscriber gets it, in one epoch.
type record struct {
	place
	off int64
}

// place is a partition as one subscriber has it, in one epoch.
type place struct {
	sub, partition string
	epoch          uint64
}

// stream is what a trace says of a stream up to some event.
type stream struct {
	id       int32
	sub      string
	window   int
	openedBy int  // index of its Open
	powers   int  // losses of power before it
	closed   bool // by Closed, or by a Down
}

// sent is a delivery that was received.
type sent struct {
	record
	stream   *stream
	attempt  int32
	answered bool // an ack or nack of it was sent
	nacked   bool // a nack was
}

// walk goes through a trace and keeps what all promises need.
type walk struct {
	at      int
	streams map[int32]*stream
	sent    map[uint64]*sent
	powers  int            // losses of power up to now
	ends    map[string]int // streams that have ended, by subscriber
}

// each calls fn for every event, after the walk has taken it in. It ends with
// the first error that fn returns.
func (t *Trace) each(fn func(w *walk, e *Event) error) error {
	w := &walk{streams: map[int32]*stream{}, sent: map[uint64]*sent{}, ends: map[string]int{}}
	for i := range t.Events {
		w.at = i
		e := &t.Events[i]
		w.take(e)
		if err := fn(w, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) take(e *Event) {
	switch e.Kind {
	case Open:
		w.streams[e.Stream] = &stream{id: e.Stream, sub: e.Subscriber(), window: e.Window(), openedBy: w.at, powers: w.powers}
	case Delivered:
		s := w.streams[e.Stream]
		w.sent[e.Delivery] = &sent{record: record{place{s.sub, e.Partition, e.Epoch}, e.Offset}, stream: s, attempt: e.Attempt}
	case Ack, Nack:
		d := w.sent[e.Delivery]
		d.answered, d.nacked = true, d.nacked || e.Kind == Nack
	case Closed:
		w.close(w.streams[e.Stream])
	case Down:
		for _, s := range w.streams {
			w.close(s)
		}
		if e.Status == PowerLost {
			w.powers++
		}
	}
}

func (w *walk) close(s *stream) {
	if !s.closed {
		s.closed = true
		w.ends[s.sub]++
	}
}

// ErrMalformed says that the trace is not one that clients can have recorded.
var ErrMalformed = errors.New("trace is malformed")

// wellFormed sees that every event names streams and deliveries that there are.
func wellFormed(t *Trace) error {
	streams, deliveries := map[int32]bool{}, map[uint64]int32{}
	for i := range t.Events {
		e := &t.Events[i]
		var fault string
		switch e.Kind {
		case Publish, Published, Unpublished, Up, Dead, BrokerAck:
		case Down:
			if e.Status < Killed || e.Status > Stopped {
				fault = "an end of an unknown kind"
			}
		case Open:
			if streams[e.Stream] {
				fault = "stream opened twice"
			}
			streams[e.Stream] = true
		case Opened, Positions, Delivered, Closed:
			if !streams[e.Stream] {
				fault = "stream that was not opened"
			}
		case Ack, Nack, Answer:
			if on, ok := deliveries[e.Delivery]; !ok || on != e.Stream {
				fault = "delivery that did not come on the stream"
			}
		default:
			fault = "unknown kind"
		}
		if fault != "" {
			return broke(ErrMalformed, i, "%s: %s", fault, e)
		}
		if e.Kind == Delivered {
			deliveries[e.Delivery] = e.Stream
		}
	}
	return nil
}

// broke says which promise an event breaks, and how.
func broke(promise error, at int, format string, args ...any) error {
	return fmt.Errorf("event %d: %w: %s", at+1, promise, fmt.Sprintf(format, args...))
}

// String names the record.
func (r record) String() string {
	return fmt.Sprintf("offset %d of partition %s for %s in epoch %d", r.off, r.partition, r.sub, r.epoch)
}

// Package tracecheck holds what a mesh promises against what its clients saw.
//
// Clients record into one Trace: what they send before they send it, what they
// receive after they received it. So in the order of the trace whatever was
// received before something was sent also happened before it. Check holds the
// trace against each promise; every promise is a function and an error of its
// own.
//
// What a client cannot see cannot be held against the mesh: two frames that
// cross on different streams may be recorded in either order. The promises are
// read so that no such crossing breaks them, with one exception: a delivery
// that times out while its ack is under way. Traces are to be made with an ack
// timeout that is not reached, or checked without AckFinal and Exclusive.
package tracecheck

import (
	"sync"

	"github.com/ackmesh/ackmesh/offset"
)

// Kind says what happened.
type Kind uint8

// The kinds of Event, with the fields that each has.
const (
	// Publish: event ID is about to be sent, for the first time or again.
	Publish Kind = 1 + iota
	// Published: ID is durable at Partition, Offset.
	Published
	// Unpublished: an attempt at ID ended without its being confirmed.
	Unpublished
	// Open: an Open is about to be sent on Stream, for Subscriber. Window
	// bounds the deliveries in flight; 0: unknown.
	Open
	// Opened came on Stream, with Positions.
	Opened
	// Positions came on Stream.
	Positions
	// Delivered: Delivery of the record at Partition, Offset, in Epoch, with
	// Attempt, came on Stream. ID is the event that it carries.
	Delivered
	// Ack of Delivery is about to be sent on Stream.
	Ack
	// Nack of Delivery is about to be sent on Stream.
	Nack
	// Answer to the ack or nack of Delivery came on Stream, with Status.
	Answer
	// Closed: Stream has ended, or is about to be ended by its client. Frames
	// that were under way may still be recorded after it.
	Closed
	// Down: the instance is about to be ended, by How.
	Down
	// Up: the instance serves again.
	Up
	// Dead: the record at Partition, Offset became a dead letter of Subscriber.
	Dead
	// BrokerAck: the broker was told that Subscriber has finished the record
	// at Partition, Offset.
	BrokerAck
)

// Status is the fate of an ack or nack, with the numbers of the wire.
type Status uint8

// The fates.
const (
	Durable Status = 1 + iota
	Retry
	Unknown
	Stale
	Fenced
)

// How says how an instance ended, in the Status of a Down.
type How = Status

// The ways to end.
const (
	// Killed: the process died; what it had written is there.
	Killed How = 1 + iota
	// PowerLost: the machine died; what was synced is there.
	PowerLost
	// Stopped: it ended in order.
	Stopped
)

// Position is what a client was told of a subscriber in a partition.
type Position struct {
	Partition string
	Next      int64
	Epoch     uint64
	Ahead     []offset.Range
}

// Event is one thing that a client did or saw.
type Event struct {
	Kind    Kind
	Status  Status
	Attempt int32
	Stream  int32
	// Partition names a partition within the trace: where there are several
	// topics, the topic is to be part of it.
	Partition string
	Offset    int64
	Delivery  uint64
	Epoch     uint64
	// ID is the publisher's own number of an event.
	ID   uint64
	more *more
}

// more is what few events have.
type more struct {
	subscriber string
	window     int
	positions  []Position
}

// Subscriber that an Open, a Dead or a BrokerAck is of, as in client/NAME or
// share/NAME.
func (e *Event) Subscriber() string {
	if e.more == nil {
		return ""
	}
	return e.more.subscriber
}

// Window of an Open; 0: unknown.
func (e *Event) Window() int {
	if e.more == nil {
		return 0
	}
	return e.more.window
}

// Positions of an Opened or a Positions.
func (e *Event) Positions() []Position {
	if e.more == nil {
		return nil
	}
	return e.more.positions
}

// Trace is what clients did and saw, in order.
type Trace struct {
	// MaxAttempts is the most deliveries that a record may have; 0: unknown.
	MaxAttempts int32
	Events      []Event
}

// Recorder records a trace. Its methods may be called concurrently and do not
// block for long.
type Recorder struct {
	mu      sync.Mutex
	trace   Trace
	streams int32
	names   map[string]string
}

// NewRecorder begins a trace; maxAttempts as in Trace.
func NewRecorder(maxAttempts int32) *Recorder {
	return &Recorder{trace: Trace{MaxAttempts: maxAttempts}, names: map[string]string{}}
}

// Trace is what was recorded up to now. It shares memory with the recorder,
// which only ever adds to it.
func (r *Recorder) Trace() *Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.trace.Events)
	return &Trace{MaxAttempts: r.trace.MaxAttempts, Events: r.trace.Events[:n:n]}
}

// Len is how many events were recorded up to now.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.trace.Events)
}

// Add records events, in order and with nothing between them.
func (r *Recorder) Add(events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		e.Partition = r.name(e.Partition)
		r.trace.Events = append(r.trace.Events, e)
	}
}

// name keeps one copy of each name.
func (r *Recorder) name(s string) string {
	if n, ok := r.names[s]; ok {
		return n
	}
	r.names[s] = s
	return s
}

// Open records an Open and returns the number of its stream.
func (r *Recorder) Open(subscriber string, window int) (stream int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	r.trace.Events = append(r.trace.Events, Event{Kind: Open, Stream: r.streams, more: &more{subscriber: subscriber, window: window}})
	return r.streams
}

// Opened records that a stream is open.
func (r *Recorder) Opened(stream int32, positions []Position) {
	r.Add(Event{Kind: Opened, Stream: stream, more: &more{positions: positions}})
}

// Positions records that positions came on a stream.
func (r *Recorder) Positions(stream int32, positions []Position) {
	if len(positions) > 0 {
		r.Add(Event{Kind: Positions, Stream: stream, more: &more{positions: positions}})
	}
}

// Of records a Dead or a BrokerAck.
func (r *Recorder) Of(kind Kind, subscriber, partition string, off int64) {
	r.Add(Event{Kind: kind, Partition: partition, Offset: off, more: &more{subscriber: subscriber}})
}

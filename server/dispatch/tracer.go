package dispatch

import (
	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// Tracer follows the deliveries of events that carry a trace context, the
// attribute traceparent. It is called concurrently and must not block.
type Tracer interface {
	// Delivered tells of deliveries that were put on a stream. The slice is
	// the caller's.
	Delivered(list []Traced)
	// Answered tells what became of the deliveries first+i for the bits i of
	// mask. Most of them are not followed.
	Answered(first, mask uint64, fate Fate)
}

// Traced is a delivery of an event with a trace context.
type Traced struct {
	ID                                   uint64
	Parent, State                        string // traceparent and tracestate
	Topic, Partition, Subscriber, Client string
	Offset                               int64
	Attempt                              int32
}

// Fate is what became of a delivery.
type Fate uint8

// The fates.
const (
	// FateAck: its ack has come; FateDurable or FateRetry follows.
	FateAck Fate = iota
	// FateDurable: the ack is on the disk.
	FateDurable
	// FateRetry: the ack could not be stored.
	FateRetry
	// FateNacked: the client gave it back.
	FateNacked
	// FateTimeout: its ack deadline passed.
	FateTimeout
	// FateReturned: its stream or subscription ended.
	FateReturned
	// FateStale: a reset of the position went before.
	FateStale
)

// String is the fate as a word.
func (f Fate) String() string {
	return [...]string{"ack", "durable", "retry", "nacked", "timeout", "returned", "stale"}[min(f, FateStale)]
}

// trace passes what became of deliveries on to the tracer, if there is one.
func (d *Dispatcher) trace(first, mask uint64, fate Fate) {
	if d.cfg.Tracer != nil && mask != 0 {
		d.cfg.Tracer.Answered(first, mask, fate)
	}
}

// traced notes the record that was encoded last, if it carries a trace context.
func (e *encoder) traced(rec *storage.Record, attempt int32) {
	v := frame.View(rec.Frame)
	parent, ok := v.Attr("traceparent")
	if !ok {
		return
	}
	state, _ := v.Attr("tracestate")
	e.traces = append(e.traces, Traced{
		ID: uint64(len(e.offs) - 1), Parent: string(parent), State: string(state),
		Topic: e.p.key.Topic, Partition: e.p.key.Partition, Subscriber: e.p.sub.name, Client: e.a.b.s.cfg.ClientID,
		Offset: rec.Offset, Attempt: attempt,
	})
}

// followed tells the tracer of the batch that was sent with ids from first on.
func (l *loop) followed(e *encoder, first uint64) {
	if len(e.traces) == 0 {
		return
	}
	for i := range e.traces {
		e.traces[i].ID += first
	}
	l.d.cfg.Tracer.Delivered(e.traces)
	clear(e.traces)
	e.traces = e.traces[:0]
}

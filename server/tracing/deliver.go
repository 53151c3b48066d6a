package tracing

import (
	"context"
	"math/bits"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/ackmesh/ackmesh/server/dispatch"
)

// maxOpen bounds the deliveries that are followed at a time. Beyond it the oldest
// is given up.
const maxOpen = 100_000

// delivery is one that is under way.
type delivery struct {
	ctx  context.Context
	sent trace.Span // from when it was put on its stream until its answer; nil: ended
	ack  trace.Span // from when the ack came until it is durable; nil: none
}

// deliveries are those under way, by id.
type deliveries struct {
	max   int
	mu    sync.Mutex
	byID  map[uint64]*delivery
	order []uint64 // ids, oldest first; some have ended
}

// Delivered begins a span for each delivery.
func (t *Tracing) Delivered(list []dispatch.Traced) {
	for i := range list {
		d := &list[i]
		ctx, span := t.tracer.Start(within(context.Background(), d.Parent, d.State), "deliver "+d.Topic,
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				keySystem.String("ackmesh"), keyOperation.String("process"), keyDestination.String(d.Topic), keyPartition.String(d.Partition),
				keySubscriber.String(d.Subscriber), keyClient.String(d.Client), keyOffset.Int64(d.Offset), keyAttempt.Int(int(d.Attempt))))
		if !span.IsRecording() { // not sampled
			span.End()
			continue
		}
		if old := t.open.add(d.ID, &delivery{ctx: ctx, sent: span}); old != nil {
			old.end("given up")
		}
	}
}

// Answered ends, or goes on with, the spans of deliveries.
func (t *Tracing) Answered(first, mask uint64, fate dispatch.Fate) {
	for ; mask != 0; mask &= mask - 1 {
		id := first + uint64(bits.TrailingZeros64(mask))
		if fate == dispatch.FateAck {
			t.acked(id)
			continue
		}
		if d := t.open.take(id, fate == dispatch.FateRetry); d != nil {
			d.end(fate.String())
		}
	}
}

// acked ends the span of a delivery and begins that of its ack.
func (t *Tracing) acked(id uint64) {
	t.open.mu.Lock()
	defer t.open.mu.Unlock()
	d := t.open.byID[id]
	if d == nil || d.ack != nil {
		return
	}
	if d.sent != nil {
		d.sent.SetAttributes(keyFate.String(dispatch.FateAck.String()))
		d.sent.End()
		d.sent = nil
	}
	_, d.ack = t.tracer.Start(d.ctx, "ack", trace.WithSpanKind(trace.SpanKindInternal))
}

// add notes a delivery and returns the oldest if there are too many.
func (l *deliveries) add(id uint64, d *delivery) (given *delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[id] = d
	l.order = append(l.order, id)
	for len(l.byID) > l.max {
		oldest := l.order[0]
		l.order = l.order[1:]
		if given = l.byID[oldest]; given != nil {
			delete(l.byID, oldest)
			return given
		}
	}
	if len(l.order) > 2*len(l.byID)+1024 {
		l.compact()
	}
	return nil
}

// compact drops the ids of what has ended.
func (l *deliveries) compact() {
	kept := make([]uint64, 0, len(l.byID))
	for _, id := range l.order {
		if l.byID[id] != nil {
			kept = append(kept, id)
		}
	}
	l.order = kept
}

// take removes a delivery whose spans end, for good or (keep) until its ack comes
// again; nil: it is not followed. What it returns is the caller's.
func (l *deliveries) take(id uint64, keep bool) *delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.byID[id]
	if d == nil {
		return nil
	}
	if keep {
		out := *d
		d.sent, d.ack = nil, nil
		return &out
	}
	delete(l.byID, id)
	return d
}

func (l *deliveries) endAll() {
	l.mu.Lock()
	list := l.byID
	l.byID, l.order = map[uint64]*delivery{}, nil
	l.mu.Unlock()
	for _, d := range list {
		d.end("stopped")
	}
}

// end ends what is open of a delivery's spans. All but acks that are durable are
// failures.
func (d *delivery) end(fate string) {
	for _, span := range []trace.Span{d.sent, d.ack} {
		if span == nil {
			continue
		}
		span.SetAttributes(keyFate.String(fate))
		if fate != dispatch.FateDurable.String() {
			span.SetStatus(codes.Error, fate)
		}
		span.End()
	}
}

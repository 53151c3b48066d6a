package ackmesh

import (
	"iter"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/clients/go/internal/ledger"
	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// Batch is deliveries that arrived together. Stream.Recv hands it over to the
// caller, who may work on its deliveries in any order and from any goroutine.
type Batch struct {
	sess    *session
	entries []*ledger.Entry // of its deliveries, in their order
	buf     mem.Buffer
	ds      []Delivery

	next atomic.Int32 // the next delivery to be claimed by a handler
	refs atomic.Int32 // deliveries not finished, and workers that look at the batch
}

// run is what the deliveries of one partition and subscription share.
type run struct {
	sub   *subState
	part  *progress.Partition
	epoch uint64
}

// Delivery is one event, sent once. What it returns as bytes is part of the
// received message and good until the handler returns, or Batch.Release; strings
// are copies. Clone it to keep it longer.
type Delivery struct {
	item  wire.Item
	run   run
	sess  *session
	entry *ledger.Entry
	index int // in entry
}

// Len is the number of deliveries.
func (b *Batch) Len() int { return len(b.ds) }

// At returns the i-th delivery.
func (b *Batch) At(i int) *Delivery { return &b.ds[i] }

// All ranges over the deliveries in the order of their arrival, which is that of
// the log for each partition.
func (b *Batch) All() iter.Seq2[int, *Delivery] {
	return func(yield func(int, *Delivery) bool) {
		for i := range b.ds {
			if !yield(i, &b.ds[i]) {
				return
			}
		}
	}
}

// Ack acks every delivery that was not acked or nacked yet, and returns how many
// that were; 0 if the stream that they came on has ended. It does not block.
func (b *Batch) Ack() int {
	if b.sess.ended.Load() {
		return 0
	}
	total := 0
	for _, e := range b.entries {
		n := e.AckAll()
		b.sess.acked(e, n)
		total += n
	}
	return total
}

// Release gives the batch's memory back to be used again. Neither the batch nor
// its deliveries may be touched afterwards. A batch that is not released is left to
// the garbage collector.
func (b *Batch) Release() {
	b.buf.Free()
	clear(b.ds)
	clear(b.entries)
	b.ds, b.entries = b.ds[:0], b.entries[:0]
	b.sess, b.buf = nil, nil
	batches.Put(b)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// claim returns the next delivery for a handler, or nil.
func (b *Batch) claim() *Delivery {
	if i := int(b.next.Add(1)) - 1; i < len(b.ds) {
		d := &b.ds[i]
		d.entry.Begin(1)
		return d
	}
	return nil
}

// claimRest takes all that is not claimed and returns its index range.
func (b *Batch) claimRest() (from, to int) {
	n := len(b.ds)
	return min(int(b.next.Swap(int32(n))), n), n
}

// unref counts references down and releases the batch with the last.
func (b *Batch) unref(n int) {
	if n > 0 && b.refs.Add(int32(-n)) == 0 {
		b.Release()
	}
}

// DeliveryID is the delivery's id: never used again, and good on its stream only.
func (d *Delivery) DeliveryID() uint64 { return d.item.ID }

// Topic is the event's topic.
func (d *Delivery) Topic() string { return d.run.part.Topic() }

// Partition is the partition that holds the event.
func (d *Delivery) Partition() string { return d.run.part.Name() }

// Offset is where the event stands in its partition.
func (d *Delivery) Offset() int64 { return d.item.Offset }

// Attempt is 1 for the first delivery of the event to the subscriber, then one
// more each time.
func (d *Delivery) Attempt() int { return int(d.item.Attempt) }

// Ref names the delivery.
func (d *Delivery) Ref() Ref {
	return Ref{Topic: d.Topic(), Partition: d.Partition(), Offset: d.item.Offset, DeliveryID: d.item.ID}
}

// Data is the payload.
func (d *Delivery) Data() []byte { return d.item.Data }

// Attr returns an attribute, and whether the event has it.
func (d *Delivery) Attr(name string) (string, bool) {
	v, ok := d.item.Attr(name)
	return string(v), ok
}

// AttrBytes is Attr without a copy.
func (d *Delivery) AttrBytes(name string) ([]byte, bool) { return d.item.Attr(name) }

// Attributes ranges over the attributes in the order of the message. A name that a
// publisher wrote twice comes twice; the last counts.
func (d *Delivery) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		wire.EachAttr(d.item.Frame, func(name, value []byte) bool { return yield(wellKnown(name), string(value)) })
	}
}

// AttributesBytes is Attributes without copies.
func (d *Delivery) AttributesBytes() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { wire.EachAttr(d.item.Frame, yield) }
}

// Map returns the attributes as a new map.
func (d *Delivery) Map() map[string]string {
	m := make(map[string]string, 12)
	for name, value := range d.Attributes() {
		m[name] = value
	}
	return m
}

// Head returns the frame's type, flags and sequence number, 0 where they were not
// set. Type 0 is that of events.
func (d *Delivery) Head() (frameType, flags, seq uint32) { return wire.Head(d.item.Frame) }

// Clone returns a copy that stays good, and that can be acked in place of d.
func (d *Delivery) Clone() *Delivery {
	c := *d
	c.item.Frame = append([]byte(nil), d.item.Frame...)
	// The copy of a frame that was checked is one that can be checked.
	_ = c.item.Check()
	return &c
}

// Ack acks the delivery and reports whether that counts: not if it was acked or
// nacked before, nor if its stream has ended, when the event comes again. It does
// not block; the ack is sent soon and confirmed later.
func (d *Delivery) Ack() bool {
	if d.entry == nil || d.sess.ended.Load() || !d.entry.Ack(d.index) {
		return false
	}
	d.sess.acked(d.entry, 1)
	return true
}

// Nack gives the delivery back for the reason err, which may be nil, and reports
// whether that counts, as Ack does. RetryAfter and DeadLetter say more than that.
func (d *Delivery) Nack(err error) bool {
	if d.entry == nil {
		return false
	}
	return d.sess.nack(d.entry, d.index, nackOf(err))
}

// Ended reports whether the stream that the delivery came on has ended. It cannot
// be acked then, and the event comes again, here or elsewhere.
func (d *Delivery) Ended() bool { return d.sess == nil || d.sess.ended.Load() }

// wellKnown is string(name) without an allocation for the usual names.
func wellKnown(name []byte) string {
	switch string(name) {
	case AttrID:
		return AttrID
	case AttrSource:
		return AttrSource
	case AttrType:
		return AttrType
	case AttrSubject:
		return AttrSubject
	case AttrTime:
		return AttrTime
	case AttrDataContentType:
		return AttrDataContentType
	case AttrPartitionKey:
		return AttrPartitionKey
	case AttrTraceParent:
		return AttrTraceParent
	}
	return string(name)
}

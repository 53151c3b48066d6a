package ackmesh

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// pubBatch is a PublishRequest in the making, then under way.
type pubBatch struct {
	topic   string
	bytes   *[]byte // from pool; in buf once sealed
	items   []pubItem
	age     uint64 // its place among all, which a repeat and a part keep
	full    bool
	expires time.Time
	tries   int
	due     time.Time // not to be sent before
	last    error     // what the last answer said
	open    bool      // it was sent, and may have been stored
	flushes []*flushWait

	hopeless error // its one event is too large to be sent

	// Once sealed.
	id  uint64
	buf mem.Buffer
}

// pubItem is an event of a batch and who waits for it.
type pubItem struct {
	done  func(Result)
	wait  *pubWait
	index int // in wait

	at, size int   // where its frame stands in the batch
	weight   int64 // what it takes of the room
}

// tell hands the result over.
func (it *pubItem) tell(r Result) {
	switch {
	case it.wait != nil:
		it.wait.set(it.index, r)
	case it.done != nil:
		it.done(r)
	}
}

// wanted reports whether anyone takes the result.
func (it *pubItem) wanted() bool { return it.wait != nil || it.done != nil }

// idRoom is room for the request's id at the end.
const idRoom = 11

// topicFieldSize is room for the topic, and the request's id.
func topicFieldSize(topic string) int { return len(topic) + 16 }

func newBatch(topic string, capacity int, expires time.Time) *pubBatch {
	b := &pubBatch{topic: topic, bytes: pool.Get(capacity), expires: expires}
	*b.bytes = wire.AppendTopic((*b.bytes)[:0], topic)
	return b
}

// fits reports whether a frame may join a request of at most so many bytes and events.
func (b *pubBatch) fits(frameSize, bytes, events int) bool {
	return len(b.items) < events && len(*b.bytes)+wire.EventFieldSize(frameSize) <= bytes
}

// size is how large the request is, or will be, on the wire.
func (b *pubBatch) size() int {
	if b.buf != nil {
		return len(*b.bytes)
	}
	return len(*b.bytes) + idRoom
}

func (b *pubBatch) add(f *wire.Frame, size int, it pubItem) {
	*b.bytes = wire.AppendEvent(*b.bytes, f, size)
	it.at, it.size = len(*b.bytes)-size, size
	b.items = append(b.items, it)
}

// eventID is the attribute id of one of its events.
func (b *pubBatch) eventID(it pubItem) string {
	id, _ := wire.Attr((*b.bytes)[it.at:it.at+it.size], AttrID)
	return string(id)
}

// readd moves an event of another batch here.
func (b *pubBatch) readd(from *pubBatch, it pubItem) {
	frame := (*from.bytes)[it.at : it.at+it.size]
	*b.bytes = wire.AppendEventBytes(*b.bytes, frame)
	it.at = len(*b.bytes) - it.size
	b.items = append(b.items, it)
}

// seal ends the making.
func (b *pubBatch) seal(id uint64) {
	b.id = id
	*b.bytes = wire.AppendRequestID(*b.bytes, id)
	b.buf = mem.NewBuffer(b.bytes, pool)
}

// free gives the bytes back. What gRPC still holds of them stays until it is done.
func (b *pubBatch) free() {
	if b.buf != nil {
		b.buf.Free()
	} else {
		pool.Put(b.bytes)
	}
	b.bytes, b.buf = nil, nil
}

// flushWait is a Flush that waits for batches.
type flushWait struct {
	left atomic.Int64
	done chan struct{}
}

func (w *flushWait) finish() {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}

// Package ledger keeps account of the deliveries of one stream: which are still
// held, acked, sent, confirmed. There is one entry for each stretch of deliveries
// that came together, of one partition and with consecutive ids, with bits for its
// deliveries; nothing is kept per delivery. Stretches come in any order of ids:
// the server numbers them before it queues them.
//
// Settling, the hot path of the handlers, takes no lock. Everything else is done
// under the owner's lock. The package has no goroutine and reads no clock.
//
// The life of a delivery:
//
//	held ─ Ack ─► settled, acked ─ Collect ─► open ─ Apply(Durable) ─► done
//	     │                                     │ ▲
//	     │                          Apply(Retry) │ CollectRetry
//	     │                                     ▼ │
//	     │                                     retry
//	     ├ Nack ─► settled, open, nacked ─ Apply(any but Retry) ─► done
//	     └ Drop ─► settled, done
package ledger

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// word is the state of 64 deliveries. Bits of settled and acked are set once and
// never cleared; settled is set before acked.
type word struct {
	settled, acked atomic.Uint64
	// The rest is under the owner's lock.
	seen   uint64 // acked and collected
	open   uint64 // sent, not answered
	retry  uint64 // answered with Retry, to be sent again
	nacked uint64 // what is open or retry is a nack
}

// Entry is the account of a stretch of deliveries.
type Entry struct {
	part    *progress.Partition
	epoch   uint64
	n       int
	first   uint64
	offset  int64   // of the first
	offsets []int64 // nil: consecutive from offset
	words   []word
	queued  atomic.Bool // in a list of entries with acks to collect

	begun    atomic.Int32 // so many, from the first on, the application has taken
	looks    []look       // when that was seen to have grown
	settled  int          // so many were settled at the last look
	overdue  int          // so many, from the first on, were taken too long ago
	waiting  time.Time    // since when the rest waits for its turn while nothing moves
	extended time.Time    // when the deadline of what is held was last moved
	decided  int          // settled, and under the lock

	oneWord [1]word
}

// look says that at a time the first begun deliveries of an entry were taken.
type look struct {
	begun int
	at    time.Time
}

// New begins an entry with its first delivery, received at now; the deadlines of
// what it holds begin to run then. Up to n deliveries will follow it by Append.
func New(part *progress.Partition, epoch uint64, now time.Time, n int, id uint64, offset int64) *Entry {
	e := &Entry{part: part, epoch: epoch, n: 1, first: id, offset: offset, waiting: now, extended: now}
	e.words = e.oneWord[:]
	if n >= 64 {
		e.words = make([]word, n/64+1)
	}
	return e
}

// Append adds a delivery. It returns false if the id does not follow on the last
// one: then it belongs into an entry of its own.
func (e *Entry) Append(id uint64, offset int64) bool {
	if id != e.first+uint64(e.n) || e.n == 64*len(e.words) {
		return false
	}
	switch {
	case e.offsets != nil:
		e.offsets = append(e.offsets, offset)
	case offset != e.offset+int64(e.n):
		e.offsets = append(e.allOffsets(), offset)
	}
	e.n++
	return true
}

func (e *Entry) allOffsets() []int64 {
	offsets := make([]int64, e.n, 2*e.n+2)
	for i := range offsets {
		offsets[i] = e.offset + int64(i)
	}
	return offsets
}

// Len is the number of deliveries.
func (e *Entry) Len() int { return e.n }

// ID is the delivery id of index i.
func (e *Entry) ID(i int) uint64 { return e.first + uint64(i) }

// last is the highest id.
func (e *Entry) last() uint64 { return e.ID(e.n - 1) }

// Part is the partition that the deliveries are of.
func (e *Entry) Part() *progress.Partition { return e.part }

// Offset is the offset of index i.
func (e *Entry) Offset(i int) int64 {
	if e.offsets != nil {
		return e.offsets[i]
	}
	return e.offset + int64(i)
}

// Finished tells the partition that the deliveries with index from to to-1 were
// acked durably.
func (e *Entry) Finished(from, to int) {
	if e.offsets == nil {
		e.part.Finished(e.epoch, e.Offset(from), e.Offset(to-1))
		return
	}
	for i := from; i < to; i++ {
		e.part.Finished(e.epoch, e.Offset(i), e.Offset(i))
	}
}

// Begin says that the application has taken n more deliveries, in their order. Any
// goroutine may call it.
func (e *Entry) Begin(n int) { e.begun.Add(int32(n)) }

// look notes how far the application is with the entry, and reports whether that is
// further than at the last look.
func (e *Entry) look(now time.Time) bool {
	begun, settled, before := int(e.begun.Load()), e.settledCount(), e.overdue
	if n := len(e.looks); n > 0 {
		before = e.looks[n-1].begun
	}
	if begun > before {
		e.looks = append(e.looks, look{begun, now})
	}
	moved := begun > before || settled > e.settled
	e.settled = settled
	return moved
}

// due is the mask of what is held of word k, without what was taken before oldest,
// and without what waits if it has waited since before that.
func (e *Entry) due(k int, oldest time.Time) uint64 {
	for len(e.looks) > 0 && e.looks[0].at.Before(oldest) {
		e.overdue = e.looks[0].begun
		e.looks = e.looks[1:]
	}
	end := e.n
	if e.waiting.Before(oldest) {
		end = e.overdue
		if n := len(e.looks); n > 0 {
			end = e.looks[n-1].begun
		}
	}
	return e.held(k) & between(e.overdue-64*k, end-64*k)
}

// Settled reports whether the delivery's fate was decided. Any goroutine may ask.
func (e *Entry) Settled(i int) bool { return e.words[i/64].settled.Load()&(1<<(i%64)) != 0 }

// Ack settles one delivery as acked, and reports whether it was not settled
// before. Any goroutine may call it. The caller then has the entry collected.
func (e *Entry) Ack(i int) bool {
	w, bit := &e.words[i/64], uint64(1)<<(i%64)
	if w.settled.Or(bit)&bit != 0 {
		return false
	}
	w.acked.Or(bit)
	return true
}

// AckAll settles all that is not settled as acked, and returns how many that
// are. Any goroutine may call it.
func (e *Entry) AckAll() int {
	acked := 0
	for k := range e.words {
		w, all := &e.words[k], valid(e.n, k)
		if fresh := all &^ w.settled.Or(all); fresh != 0 {
			w.acked.Or(fresh)
			acked += bits.OnesCount64(fresh)
		}
	}
	return acked
}

// Enqueue reports whether the caller must put the entry into its list of entries
// to collect; false if it is there already.
func (e *Entry) Enqueue() bool { return !e.queued.Load() && e.queued.CompareAndSwap(false, true) }

// valid is the mask of the bits of word k that stand for deliveries.
func valid(n, k int) uint64 {
	if left := n - 64*k; left < 64 {
		return 1<<left - 1
	}
	return ^uint64(0)
}

// held is what the application still has, or has acked in vain so far.
func (e *Entry) held(k int) uint64 {
	w := &e.words[k]
	return valid(e.n, k)&^w.settled.Load() | w.retry
}

// settledCount is how many deliveries are settled.
func (e *Entry) settledCount() int {
	n := 0
	for k := range e.words {
		n += bits.OnesCount64(e.words[k].settled.Load())
	}
	return n
}

// done reports whether nothing can happen to the entry any more.
func (e *Entry) done() bool {
	if e.decided < e.n {
		return false
	}
	for k := range e.words {
		if e.words[k].open|e.words[k].retry != 0 {
			return false
		}
	}
	return true
}

// appendRanges appends the ids of the bits of mask in word k, joined to the last
// range where they follow on it.
func (e *Entry) appendRanges(dst []wire.Range, k int, mask uint64) []wire.Range {
	stretches(mask, 64*k, func(from, to int) {
		dst = join(dst, wire.Range{First: e.ID(from), Last: e.ID(to - 1)})
	})
	return dst
}

func join(dst []wire.Range, r wire.Range) []wire.Range {
	if n := len(dst); n > 0 && dst[n-1].Last+1 == r.First {
		dst[n-1].Last = r.Last
		return dst
	}
	return append(dst, r)
}

// stretches calls f for each run of ones in mask, bits from to to-1, base added.
func stretches(mask uint64, base int, f func(from, to int)) {
	for mask != 0 {
		from := bits.TrailingZeros64(mask)
		to := from + bits.TrailingZeros64(^(mask >> from))
		f(base+from, base+to)
		if to == 64 {
			return
		}
		mask &= ^uint64(0) << to
	}
}

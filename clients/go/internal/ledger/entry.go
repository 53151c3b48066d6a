// Package ledger keeps account of the deliveries of one stream: which are still
// held, acked, sent, confirmed. There is one entry for each received batch, with
// bits for its deliveries; nothing is kept per delivery.
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
	"slices"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// Run is a stretch of an entry's deliveries from one partition to one
// subscription: those with index Start to End-1.
type Run struct {
	Start, End int
	Epoch      uint64
	Part       *progress.Partition
	first      int64
	offsets    []int64 // nil: consecutive from first
}

// Offset is the offset of the delivery with index i of the entry.
func (r *Run) Offset(i int) int64 {
	if r.offsets != nil {
		return r.offsets[i-r.Start]
	}
	return r.first + int64(i-r.Start)
}

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

// Entry is the account of one batch. Make it with a Builder.
type Entry struct {
	n      int
	first  uint64
	ids    []uint64 // nil: consecutive from first
	runs   []Run
	words  []word
	queued atomic.Bool // in a list of entries with acks to collect

	received time.Time
	extended time.Time // when the deadline of what is held was last moved
	decided  int       // settled, and under the lock

	oneWord [1]word
	oneRun  [1]Run
}

// Len is the number of deliveries.
func (e *Entry) Len() int { return e.n }

// ID is the delivery id of index i.
func (e *Entry) ID(i int) uint64 {
	if e.ids != nil {
		return e.ids[i]
	}
	return e.first + uint64(i)
}

// last is the highest id.
func (e *Entry) last() uint64 { return e.ID(e.n - 1) }

// Runs are the entry's runs, in order.
func (e *Entry) Runs() []Run { return e.runs }

// RunOf is the run of index i.
func (e *Entry) RunOf(i int) *Run {
	for k := range e.runs {
		if i < e.runs[k].End {
			return &e.runs[k]
		}
	}
	return nil
}

// index returns the lowest index whose id is at least id; n if there is none.
func (e *Entry) index(id uint64) int {
	if e.ids != nil {
		i, _ := slices.BinarySearch(e.ids, id)
		return i
	}
	if id <= e.first {
		return 0
	}
	return int(min(id-e.first, uint64(e.n)))
}

// Find returns the index of an id.
func (e *Entry) Find(id uint64) (int, bool) {
	i := e.index(id)
	return i, i < e.n && e.ID(i) == id
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

// Builder makes an entry, delivery by delivery.
type Builder struct{ e *Entry }

// Build begins an entry of n deliveries, n > 0, received at now. The deadlines of
// what it holds begin to run then.
func Build(n int, now time.Time) Builder {
	e := &Entry{received: now, extended: now}
	e.words, e.runs = e.oneWord[:], e.oneRun[:0]
	if n > 64 {
		e.words = make([]word, (n+63)/64)
	}
	return Builder{e}
}

// Run begins a run.
func (b Builder) Run(epoch uint64, part *progress.Partition) {
	e := b.e
	e.runs = append(e.runs, Run{Start: e.n, End: e.n, Epoch: epoch, Part: part})
}

// Item adds a delivery to the current run. It returns false if the id is not
// above the one before it, which no server sends. No more items may be added than
// Build was told.
func (b Builder) Item(id uint64, off int64) bool {
	e := b.e
	switch {
	case e.n == 0:
		e.first = id
	case id <= e.last():
		return false
	case e.ids != nil:
		e.ids = append(e.ids, id)
	case id != e.first+uint64(e.n):
		e.ids = append(allIDs(e), id)
	}
	e.n++
	e.runs[len(e.runs)-1].add(off)
	return true
}

func allIDs(e *Entry) []uint64 {
	ids := make([]uint64, e.n, 64*len(e.words))
	for i := range ids {
		ids[i] = e.first + uint64(i)
	}
	return ids
}

func (r *Run) add(off int64) {
	n := r.End - r.Start
	r.End++
	switch {
	case n == 0:
		r.first = off
	case r.offsets != nil:
		r.offsets = append(r.offsets, off)
	case off != r.first+int64(n):
		r.offsets = make([]int64, n, 2*n+2)
		for i := range r.offsets {
			r.offsets[i] = r.first + int64(i)
		}
		r.offsets = append(r.offsets, off)
	}
}

// Entry returns what was built.
func (b Builder) Entry() *Entry { return b.e }

// appendRanges appends the ids of the bits of mask in word k.
func (e *Entry) appendRanges(dst []wire.Range, k int, mask uint64) []wire.Range {
	for mask != 0 {
		from := bits.TrailingZeros64(mask)
		to := from + bits.TrailingZeros64(^(mask >> from))
		dst = e.appendIDs(dst, 64*k+from, 64*k+to)
		if to == 64 {
			break
		}
		mask &= ^uint64(0) << to
	}
	return dst
}

// appendIDs appends the ids of indexes from to to-1, joined to the last range
// where they follow on it.
func (e *Entry) appendIDs(dst []wire.Range, from, to int) []wire.Range {
	if e.ids == nil {
		return join(dst, wire.Range{First: e.ID(from), Last: e.ID(to - 1)})
	}
	for i := from; i < to; i++ {
		dst = join(dst, wire.Range{First: e.ids[i], Last: e.ids[i]})
	}
	return dst
}

func join(dst []wire.Range, r wire.Range) []wire.Range {
	if n := len(dst); n > 0 && dst[n-1].Last+1 == r.First {
		dst[n-1].Last = r.Last
		return dst
	}
	return append(dst, r)
}

// Finished tells the partition that the deliveries with index from to to-1 of the
// entry, all of this run, were acked durably.
func (r *Run) Finished(from, to int) {
	if r.offsets == nil {
		r.Part.Finished(r.Epoch, r.Offset(from), r.Offset(to-1))
		return
	}
	for i := from; i < to; i++ {
		r.Part.Finished(r.Epoch, r.Offset(i), r.Offset(i))
	}
}

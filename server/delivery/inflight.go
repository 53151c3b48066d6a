package delivery

import (
	"iter"
	"math/bits"
	"sort"
	"time"

	"github.com/ackmesh/ackmesh/offset"
)

// stream is what is known of an attached stream.
type stream struct {
	id      StreamID
	timeout time.Duration
	table   table
	out     int // bits outstanding in its batches
}

// batch is what one Sent covered. A delivery's bit is in at most one of out,
// late and pend; a batch without any bit is recycled.
type batch struct {
	stream *stream // nil once it is detached
	id     StreamID
	first  uint64
	base   int64
	offs   []int64 // empty: the offsets are base, base+1, …
	out    uint64  // outstanding
	late   uint64  // timed out: an ack still counts
	pend   uint64  // acked or nacked, not durable yet
	nacked uint64  // which of pend are nacked
	again  bool    // of Next: its offsets have records
	listed bool    // among the late ones
	handed int64   // when it was handed over; -1: not yet
	timer  alarm   // deadline of timer.mask
	parts  []*alarm
}

// offset of delivery i.
func (b *batch) offset(i int) int64 {
	if len(b.offs) == 0 {
		return b.base + int64(i)
	}
	return b.offs[i]
}

// fill sets the offsets.
func (b *batch) fill(offs []int64) {
	b.base, b.offs = offs[0], b.offs[:0]
	if offs[len(offs)-1] != b.base+int64(len(offs)-1) {
		b.offs = append(b.offs, offs...)
	}
}

// each yields the offsets of a mask with their bits.
func (b *batch) each(mask uint64) iter.Seq2[uint64, int64] {
	return func(yield func(uint64, int64) bool) {
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros64(mask)
			if !yield(1<<i, b.offset(i)) {
				return
			}
		}
	}
}

// runs yields the ranges of offsets of a mask with their bits.
func (b *batch) runs(mask uint64) iter.Seq2[uint64, offset.Range] {
	return func(yield func(uint64, offset.Range) bool) {
		for mask != 0 {
			run, r := b.run(mask)
			mask &^= run
			if !yield(run, r) {
				return
			}
		}
	}
}

// run is the first run of mask: adjacent bits with adjacent offsets.
func (b *batch) run(mask uint64) (uint64, offset.Range) {
	i := bits.TrailingZeros64(mask)
	n := bits.TrailingZeros64(^(mask >> i))
	first := b.offset(i)
	if len(b.offs) > 0 {
		for k := 1; k < n; k++ {
			if b.offs[i+k] != first+int64(k) {
				n = k
			}
		}
	}
	return lowBits(n) << i, offset.Range{First: first, Last: first + int64(n) - 1}
}

// lowBits has the n lowest bits set.
func lowBits(n int) uint64 { return ^uint64(0) >> (64 - n) } // n is 1 to 64

// table holds a stream's batches by their first id, which only rises.
type table struct {
	slots []slot // sorted by first; those below head are free
	head  int
	dead  int // free slots, those below head too
}

type slot struct {
	first uint64
	b     *batch
}

// find returns the batch that begins with first; nil: none.
func (t *table) find(first uint64) *batch {
	if i := t.search(first); i < len(t.slots) && t.slots[i].first == first {
		return t.slots[i].b
	}
	return nil
}

// search is the place of first; the ends, where most is asked for, come first.
func (t *table) search(first uint64) int {
	n := len(t.slots)
	switch {
	case t.head == n || first > t.slots[n-1].first:
		return n
	case first <= t.slots[t.head].first:
		return t.head
	case first == t.slots[n-1].first:
		return n - 1
	}
	return t.head + sort.Search(n-t.head, func(i int) bool { return t.slots[t.head+i].first >= first })
}

// add puts b behind all others.
func (t *table) add(b *batch) {
	if t.dead >= 32 && t.dead >= len(t.slots)/2 {
		t.compact()
	}
	t.slots = append(t.slots, slot{b.first, b})
}

// drop takes b out.
func (t *table) drop(b *batch) {
	t.slots[t.search(b.first)].b = nil
	t.dead++
	for t.head < len(t.slots) && t.slots[t.head].b == nil {
		t.head++
	}
}

func (t *table) compact() {
	kept := t.slots[:0]
	for _, s := range t.slots[t.head:] {
		if s.b != nil {
			kept = append(kept, s)
		}
	}
	clear(t.slots[len(kept):])
	t.slots, t.head, t.dead = kept, 0, 0
}

// each yields the batches in order of their ids.
func (t *table) each(yield func(*batch) bool) {
	for _, s := range t.slots[t.head:] {
		if s.b != nil && !yield(s.b) {
			return
		}
	}
}

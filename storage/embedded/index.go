package embedded

import (
	"encoding/binary"
	"sort"
)

// runRef says where a run is: first offset, number of records, time of append
// in ms, position and size of its entry in the segment log.
type runRef struct {
	first, time, pos int64
	count, size      int
}

// end is the offset behind the run.
func (r runRef) end() int64 { return r.first + int64(r.count) }

// index lists the runs of one partition in order, packed: a run costs about 8
// bytes. The zero value is empty. Offsets, times and positions never fall.
type index struct{ blocks []block }

// block is up to blockRuns runs: the first and last as they are, those behind
// the first also as differences to the one before.
type block struct {
	head, tail runRef
	n          int
	packed     []byte
}

const blockRuns = 128

// add puts a run at the end.
func (x *index) add(r runRef) {
	n := len(x.blocks)
	if n == 0 || x.blocks[n-1].n == blockRuns {
		x.blocks = append(x.blocks, block{head: r, tail: r, n: 1})
		return
	}
	b := &x.blocks[n-1]
	b.packed = packRun(b.packed, b.tail, r)
	b.tail = r
	b.n++
}

func packRun(to []byte, last, r runRef) []byte {
	to = binary.AppendUvarint(to, uint64(r.first-last.end()))
	to = binary.AppendUvarint(to, uint64(r.time-last.time))
	to = binary.AppendUvarint(to, uint64(r.pos-last.pos))
	to = binary.AppendUvarint(to, uint64(r.count))
	return binary.AppendUvarint(to, uint64(r.size))
}

// unpackRun reads a run behind last and returns what is left; ok is false
// where the bytes are none.
func unpackRun(from []byte, last runRef) (r runRef, rest []byte, ok bool) {
	var v [5]uint64
	for i := range v {
		x, n := binary.Uvarint(from)
		if n <= 0 {
			return r, nil, false
		}
		v[i], from = x, from[n:]
	}
	r = runRef{first: last.end() + int64(v[0]), time: last.time + int64(v[1]), pos: last.pos + int64(v[2]), count: int(v[3]), size: int(v[4])}
	return r, from, true
}

// iter walks over runs. It is valid while the index does not change.
type iter struct {
	x    *index
	b, i int
	rest []byte
	cur  runRef
}

// at starts at the first run of block b.
func (x *index) at(b int) iter {
	it := iter{x: x, b: b}
	if b < len(x.blocks) {
		it.cur, it.rest = x.blocks[b].head, x.blocks[b].packed
	}
	return it
}

// run is the present run; ok is false behind the last.
func (it *iter) run() (r runRef, ok bool) { return it.cur, it.b < len(it.x.blocks) }

// next moves on by one run.
func (it *iter) next() {
	it.i++
	if it.i == it.x.blocks[it.b].n {
		*it = it.x.at(it.b + 1)
		return
	}
	it.cur, it.rest, _ = unpackRun(it.rest, it.cur) // packed by add: always whole
}

// seek finds the first run that ends behind an offset.
func (x *index) seek(offset int64) iter {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].tail.end() > offset })
	return x.until(b, func(r runRef) bool { return r.end() > offset })
}

// seekTime finds the first run of a time or later.
func (x *index) seekTime(ms int64) iter {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].tail.time >= ms })
	return x.until(b, func(r runRef) bool { return r.time >= ms })
}

// seekPos finds the first run at a position or behind it.
func (x *index) seekPos(pos int64) iter {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].tail.pos >= pos })
	return x.until(b, func(r runRef) bool { return r.pos >= pos })
}

func (x *index) until(b int, found func(runRef) bool) iter {
	it := x.at(b)
	for {
		r, ok := it.run()
		if !ok || found(r) {
			return it
		}
		it.next()
	}
}

// trim forgets runs that end at or below an offset, where that frees memory.
func (x *index) trim(min int64) {
	n := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].tail.end() > min })
	if n > 0 {
		x.blocks = append([]block(nil), x.blocks[n:]...)
	}
}

// first is the oldest run kept.
func (x *index) first() (runRef, bool) {
	it := x.at(0)
	return it.run()
}

// before is the last run that begins below an offset.
func (x *index) before(offset int64) (r runRef, ok bool) {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].head.first >= offset }) - 1
	if b < 0 {
		return r, false
	}
	it := x.at(b)
	for i := 0; i < x.blocks[b].n; i++ {
		if it.cur.first >= offset {
			break
		}
		r = it.cur
		it.next()
	}
	return r, true
}

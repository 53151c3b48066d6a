package kafka

import (
	"sync"
	"time"
)

// pieceBytes is how much of an answer lies in one piece of memory. It is what
// the mesh reads at once, so that a piece that is full can become its batch.
const pieceBytes = 256 << 10

// piece is a part of an answer: memory, and the records whose bytes lie in it.
// Each has one owner: the answer that is being read, then the chunk, then whoever
// takes its memory as that of a batch and gives that of the batch for it.
type piece struct {
	buf  []byte
	recs []rec

	bytes  int64 // of all keys and values
	frames int   // bytes of values that are frames
	framed int   // how many are
}

// span is a part of a piece's memory; a length below 0: there is none, which
// is not the same as an empty one.
type span struct{ at, n int32 }

// rec is one record as it lies in Kafka, its bytes as parts of a piece.
type rec struct {
	offset, time int64 // ms since 1970
	epoch        int32 // of the leader that took it; -1: unknown
	framed       bool  // the value is a valid frame
	plain        bool  // with no attribute of the mesh's own
	key, value   span
	headers      span // as in a record batch: the names and values alone, all checked
}

func (r *rec) size() int64 { return int64(max(r.key.n, 0)) + int64(max(r.value.n, 0)) }

// of returns the bytes of a span; nil: there is none.
func (p *piece) of(s span) []byte {
	if s.n < 0 {
		return nil
	}
	return p.buf[s.at : s.at+s.n : s.at+s.n]
}

func (p *piece) add(r rec) {
	p.recs = append(p.recs, r)
	p.bytes += r.size()
	if r.framed {
		p.framed++
		p.frames += int(r.value.n)
	}
}

// keep leaves the first n records.
func (p *piece) keep(n int) {
	recs := p.recs[:n]
	p.recs, p.bytes, p.frames, p.framed = p.recs[:0], 0, 0, 0
	for _, r := range recs {
		p.add(r)
	}
}

// recsKept bounds the list of records that is kept with unused memory.
const recsKept = 4096

var unusedPieces = sync.Pool{New: func() any { return new(piece) }}

// newPiece returns a piece of n bytes at least, with any content. Small ones are
// made to measure: thousands of partitions may have one.
func newPiece(n int) *piece {
	if n <= pieceBytes/8 || n > pieceBytes {
		return &piece{buf: make([]byte, n)}
	}
	p, _ := unusedPieces.Get().(*piece)
	if p.buf == nil {
		p.buf = make([]byte, pieceBytes)
	}
	return p
}

// free gives a piece back, of which nothing may be used any more.
func (p *piece) free() {
	if cap(p.buf) != pieceBytes {
		p.buf = nil
	}
	p.buf = p.buf[:cap(p.buf)]
	p.recs = p.recs[:0]
	if cap(p.recs) > recsKept {
		p.recs = nil
	}
	p.bytes, p.frames, p.framed = 0, 0, 0
	unusedPieces.Put(p)
}

// becomes tells whether a piece may become a batch as it is: it holds nothing
// but frames, not too many, and is well filled, for a batch keeps all of it.
func (p *piece) becomes(maxRecords, maxBytes int) bool {
	return len(p.buf) == pieceBytes && p.framed == len(p.recs) && len(p.recs) <= maxRecords &&
		p.frames <= maxBytes && p.frames >= pieceBytes/2
}

// chunk is what one fetch brought, or the rest of it.
type chunk struct {
	start  int64    // where it begins
	pieces []*piece // with records that are not taken yet, in order
	taken  int      // records of the first piece that are
	next   int64    // where reading goes on behind it: there is nothing in between
	end    int64    // of the partition, as far as records may be read
	size   int64    // bytes of keys and values that are not taken
	began  time.Time
}

// take moves on behind n records, all of the first piece.
func (c *chunk) take(n int) {
	p := c.pieces[0]
	for i := range p.recs[c.taken : c.taken+n] {
		c.size -= p.recs[c.taken+i].size()
	}
	if c.taken += n; c.taken == len(p.recs) {
		c.pieces, c.taken = c.pieces[1:], 0
	}
	c.start = c.next
	if len(c.pieces) > 0 {
		c.start = c.pieces[0].recs[c.taken].offset
	}
}

// cut leaves the first n records of a chunk of which nothing is taken.
func (c *chunk) cut(n int) {
	c.size = 0
	for i, p := range c.pieces {
		if n == 0 {
			rest := chunk{pieces: c.pieces[i:]}
			rest.free()
			c.pieces = c.pieces[:i]
			return
		}
		if n < len(p.recs) {
			p.keep(n)
		}
		n -= len(p.recs)
		c.size += p.bytes
	}
}

// free gives back what is left.
func (c *chunk) free() {
	for _, p := range c.pieces {
		p.free()
	}
	c.pieces = nil
}

package kafka

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ackmesh/ackmesh/frame"
)

const (
	// entryHead is offset and length, which each batch and each message of the
	// older forms begins with; magicAt is where the number of its form is.
	entryHead = 12
	magicAt   = 16
	// batchHead is the length of a batch before its records; the checksum is of
	// what follows checkedFrom.
	batchHead   = 61
	checkedFrom = 21
	// minRecord is the length of the shortest record.
	minRecord = 7
)

// Bits of a batch's attributes.
const (
	bitsCodec         = 7
	bitLogAppendTime  = 8
	bitTransactional  = 16
	bitControl        = 32
	unknownSinceEpoch = -62135596800000 // ms; what a batch without a time has always been given
)

// abortions reads the transactions that were aborted within the answer; where
// they are wanted it returns them, by their first offset.
func (d *decoder) abortions(wanted bool) (list []abortion) {
	for n := d.length(); n > 0 && d.s.err == nil; n-- {
		a := abortion{producer: d.s.int64(), first: d.s.int64()}
		if wanted {
			list = append(list, a)
		}
		d.tags()
	}
	slices.SortStableFunc(list, func(a, b abortion) int { return cmp.Compare(a.first, b.first) })
	return list
}

// records reads n bytes of batches, or messages of the older forms. The last one
// may be there in part; it comes whole with the next fetch, as do those behind
// very much that was compressed.
func (d *decoder) records(n int) {
	s := d.s
	if n > s.remaining() {
		s.fail("records end early")
		return
	}
	for behind := s.remaining() - n; s.err == nil; {
		d.soundRecs, d.soundNext = d.recs, d.next
		left := s.remaining() - behind
		if left <= magicAt || d.grown >= inflatedAll {
			s.skip(left)
			return
		}
		head := s.peek(magicAt + 1)
		if head == nil {
			return
		}
		size, magic := int(int32(binary.BigEndian.Uint32(head[8:]))), head[magicAt]
		switch {
		case size < 0:
			s.fail("a batch has the length %d", size)
		case size > left-entryHead:
			s.skip(left)
			return
		case magic == 2:
			d.batch(size)
		case magic < 2:
			d.message(size)
		default:
			s.fail("a batch is of the unknown form %d", magic)
		}
		d.res.damage = s.err
	}
}

// header is what a batch says of all its records.
type header struct {
	base, first, latest int64 // offset and times
	epoch               int32
	attributes          uint16
	producer            int64
	count               int // of records
	sum                 uint32
}

func (h *header) codec() int         { return int(h.attributes & bitsCodec) }
func (h *header) is(bit uint16) bool { return h.attributes&bit != 0 }

// batch reads one batch, whose length follows its offset and length. What was
// aborted is left out as KIP-98 says: the broker lists the transactions that
// were aborted within the answer, and the marker that ends one of them ends the
// leaving out.
func (d *decoder) batch(size int) {
	s := d.s
	if size < batchHead-entryHead {
		s.fail("a batch has the length %d", size)
		return
	}
	b := s.peek(batchHead)
	if b == nil {
		return
	}
	h := header{
		base: int64(binary.BigEndian.Uint64(b)), epoch: int32(binary.BigEndian.Uint32(b[12:])),
		attributes: binary.BigEndian.Uint16(b[21:]),
		first:      since(binary.BigEndian.Uint64(b[27:])), latest: since(binary.BigEndian.Uint64(b[35:])),
		producer: int64(binary.BigEndian.Uint64(b[43:])), count: int(int32(binary.BigEndian.Uint32(b[57:]))),
		sum: binary.BigEndian.Uint32(b[17:]),
	}
	last := h.base + int64(int32(binary.BigEndian.Uint32(b[23:])))
	if last < h.base || h.base < 0 {
		s.fail("a batch goes from %d to %d", h.base, last)
		return
	}
	s.r += checkedFrom
	s.startSum(size + entryHead - checkedFrom)
	s.r += batchHead - checkedFrom
	d.begin(last)
	d.within(&h, size+entryHead-batchHead)
	d.sound(&h)
	d.next = max(d.next, last+1)
}

// sound compares the checksum of a batch that is read to its end.
func (d *decoder) sound(h *header) bool {
	if s := d.s; s.err == nil && s.sum != h.sum {
		s.fail("the batch at offset %d has the checksum %08x, not %08x", h.base, s.sum, h.sum)
	}
	return d.s.err == nil
}

// since is a time in ms since 1970.
func since(ms uint64) int64 {
	if int64(ms) < 0 {
		return unknownSinceEpoch
	}
	return int64(ms)
}

// begin notes the aborted transactions that begin up to an offset.
func (d *decoder) begin(last int64) {
	for len(d.aborted) > 0 && d.aborted[0].first <= last {
		if d.aborting == nil {
			d.aborting = map[int64]bool{}
		}
		d.aborting[d.aborted[0].producer] = true
		d.aborted = d.aborted[1:]
	}
}

// within reads the n bytes of a batch that hold its records.
func (d *decoder) within(h *header, n int) {
	leftOut := h.is(bitTransactional) && d.aborting[h.producer] && !h.is(bitControl)
	switch {
	case leftOut:
		d.s.skip(n)
	case h.codec() != 0 && n > 0:
		d.inflate(h, n)
	default:
		d.plain(h, n)
	}
}

// plain reads records that are not compressed, where they lie.
func (d *decoder) plain(h *header, n int) {
	s := d.s
	if h.count < 0 || h.count > n/minRecord {
		s.fail("a batch of %d bytes has %d records", n, h.count)
		return
	}
	behind := s.remaining() - n
	for range h.count {
		head := s.peek(min(5, s.remaining()-behind))
		size, k := varint(head)
		if s.err != nil || k <= 0 || size < 0 || size > int64(s.remaining()-behind-k) {
			s.fail("a record is longer than its batch")
			return
		}
		if !s.need(k + int(size)) {
			return
		}
		if !d.record(h, s.p, s.r+k, int(size)) {
			s.fail("a record of the batch at offset %d cannot be read", h.base)
			return
		}
		s.r += k + int(size)
	}
	if s.remaining() != behind {
		s.fail("a batch goes on behind its records")
	}
}

// record takes in the record that is n bytes of a piece; false: it is none.
func (d *decoder) record(h *header, p *piece, at, n int) bool {
	var r rec
	times, offsets, ok := r.parse(p.buf, at, n)
	if !ok {
		return false
	}
	if h.is(bitControl) {
		d.marker(h, p.of(r.key))
		return true
	}
	r.offset, r.time, r.epoch = h.base+offsets, h.first+times, h.epoch
	if h.is(bitLogAppendTime) {
		r.time = h.latest
	}
	if r.offset >= d.start {
		d.put(p, r)
	}
	return true
}

// marker takes in the end of a transaction. Its key is version and type, both
// 16 bits; type 0 is an abort.
func (d *decoder) marker(h *header, key []byte) {
	if len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0 {
		delete(d.aborting, h.producer)
	}
}

// put takes in a record that is wanted.
func (d *decoder) put(p *piece, r rec) {
	if value := p.of(r.value); value != nil {
		_, own, err := frame.ParseOwn(value)
		r.framed, r.plain = err == nil, err == nil && !own
	}
	if d.copies && p != d.out {
		from := p
		p = d.room(int(max(r.key.n, 0)) + int(max(r.value.n, 0)) + int(max(r.headers.n, 0)))
		r.key, r.value, r.headers = d.copy(from, r.key), d.copy(from, r.value), d.copy(from, r.headers)
	}
	p.add(r)
	d.recs++
}

// copy copies a part of another piece into out.
func (d *decoder) copy(from *piece, s span) span {
	if s.n < 0 {
		return s
	}
	to := span{at: int32(d.used), n: s.n}
	d.used += copy(d.out.buf[d.used:], from.of(s))
	return to
}

// room makes room for n bytes in out.
func (d *decoder) room(n int) *piece {
	if d.out == nil || len(d.out.buf)-d.used < n {
		d.flush()
		d.out = newPiece(max(n, pieceBytes))
	}
	return d.out
}

// copied has all records from here on lie in pieces of their own.
func (d *decoder) copied() {
	if s := d.s; !d.copies && len(s.p.recs) > 0 {
		s.turn(max(s.w-s.r, 1))
	}
	d.copies = true
}

// parse reads a record that is n bytes of buf: where its parts are, and what it
// adds to the batch's time and offset.
func (r *rec) parse(buf []byte, at, n int) (times, offsets int64, ok bool) {
	c := cursor{b: buf[:at+n], at: at + 1, ok: n > 0} // behind attributes, which mean nothing
	times, offsets = c.varint(), c.varint()
	r.key, r.value = c.bytes(), c.bytes()
	count := c.varint()
	r.headers = span{at: int32(c.at), n: int32(len(c.b) - c.at)}
	if count < 0 || count > int64(r.headers.n) {
		return 0, 0, false
	}
	for ; count > 0 && c.ok; count-- {
		if name := c.bytes(); name.n < 0 {
			return 0, 0, false
		}
		c.bytes()
	}
	return times, offsets, c.ok && c.at == len(c.b) && offsets >= 0
}

// cursor reads the parts of a record. Behind its end it is not ok.
type cursor struct {
	b  []byte
	at int
	ok bool
}

func (c *cursor) varint() int64 {
	v, k := varint(c.b[min(c.at, len(c.b)):])
	if k <= 0 {
		c.ok = false
		return 0
	}
	c.at += k
	return v
}

// bytes reads what has its length before it; -1 is none.
func (c *cursor) bytes() span {
	n := c.varint()
	if n < -1 {
		c.ok = false
	}
	return c.take(n)
}

// take reads n bytes; below 0: there are none.
func (c *cursor) take(n int64) span {
	if n > int64(len(c.b)-c.at) {
		c.ok = false
	}
	if !c.ok || n < 0 {
		return span{n: -1}
	}
	s := span{at: int32(c.at), n: int32(n)}
	c.at += int(n)
	return s
}

// varint reads a number with its sign in the lowest bit, and tells how many
// bytes it has; 0 or less: there is none.
func varint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	if len(b) > 1 && b[1] < 0x80 {
		u := uint64(b[0]&0x7f) | uint64(b[1])<<7
		return int64(u>>1) ^ -int64(u&1), 2
	}
	return binary.Varint(b)
}

package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// message is what was written in one of the two forms before Kafka 0.11.
type message struct {
	offset, time int64
	magic        byte
	attributes   byte
	key, value   span
}

// oldHead is the length of the shortest message behind its offset and length.
const oldHead = 14

// message reads one message, or a compressed set of them, of so many bytes
// behind its offset and length. The offset of a compressed set is that of its
// last message; from version 1 on those within it are relative.
func (d *decoder) message(size int) {
	d.copied()
	s := d.s
	b := s.peek(entryHead + size)
	if b == nil {
		return
	}
	m, ok := parseMessage(s.p.buf, s.r, entryHead+size)
	if !ok {
		s.fail("a message cannot be read")
		return
	}
	s.r += entryHead + size
	if m.attributes&bitsCodec == 0 || m.value.n < 0 {
		d.putMessage(s.p, &m)
		return
	}
	buf := scratch.Get().(*bytes.Buffer)
	defer giveScratch(buf)
	if err := inflate(buf, int(m.attributes&bitsCodec), s.p.of(m.value), maxInflated); err != nil {
		s.fail("the messages up to offset %d, compression %d, cannot be read: %v", m.offset, m.attributes&bitsCodec, err)
		return
	}
	d.grown += buf.Len()
	d.set(&m, &piece{buf: buf.Bytes()})
}

// set takes in the messages of a compressed set, which are all of a piece.
func (d *decoder) set(outer *message, p *piece) {
	var inner []message
	for at := 0; len(p.buf)-at >= entryHead+oldHead; {
		size := int(int32(binary.BigEndian.Uint32(p.buf[at+8:])))
		if size < 0 || size > len(p.buf)-at-entryHead {
			break // the last one is there in part
		}
		m, ok := parseMessage(p.buf, at, entryHead+size)
		if !ok || m.attributes&bitsCodec != 0 {
			d.s.fail("a message of the set up to offset %d cannot be read", outer.offset)
			return
		}
		inner = append(inner, m)
		at += entryHead + size
	}
	base := int64(0)
	if n := len(inner); n > 0 && inner[n-1].magic >= 1 {
		base = outer.offset - inner[n-1].offset
	}
	for i := range inner {
		m := &inner[i]
		m.offset += base
		if (m.attributes|outer.attributes)&bitLogAppendTime != 0 {
			m.time = outer.time
		}
		d.putMessage(p, m)
	}
}

func (d *decoder) putMessage(p *piece, m *message) {
	if m.offset < d.start {
		return
	}
	// Times before 1970, and none, are 0.
	d.put(p, rec{offset: m.offset, time: max(m.time, 0), epoch: -1, key: m.key, value: m.value, headers: span{n: 0}})
	d.next = max(d.next, m.offset+1)
}

// parseMessage reads the message that is n bytes of buf.
func parseMessage(buf []byte, at, n int) (m message, ok bool) {
	if n < entryHead+oldHead {
		return m, false
	}
	b := buf[at : at+n]
	m = message{offset: int64(binary.BigEndian.Uint64(b)), magic: b[magicAt], attributes: b[magicAt+1], time: -1}
	if m.magic > 1 || crc32.ChecksumIEEE(b[magicAt:]) != binary.BigEndian.Uint32(b[entryHead:]) {
		return m, false
	}
	c := cursor{b: buf[:at+n], at: at + magicAt + 2, ok: true}
	if m.magic == 1 {
		m.time = int64(c.fixed(8))
	}
	m.key, m.value = c.sized(), c.sized()
	return m, c.ok && c.at == at+n
}

// fixed reads a number of 4 or 8 bytes.
func (c *cursor) fixed(n int) (v uint64) {
	if len(c.b)-c.at < n {
		c.ok = false
		return 0
	}
	for _, b := range c.b[c.at : c.at+n] {
		v = v<<8 | uint64(b)
	}
	c.at += n
	return v
}

// sized reads what has its length in four bytes before it; below 0 is none.
func (c *cursor) sized() span { return c.take(int64(int32(c.fixed(4)))) }

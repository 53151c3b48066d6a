package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ackmesh/ackmesh/storage"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errGarbled says that an answer is not what it should be.
func errGarbled(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrCorrupt)...)
}

// stream reads an answer of known length into pieces. What is looked at lies in
// one piece as a whole: where there is no room for it the next piece begins,
// with the rest of the one before. After the first error everything is 0.
type stream struct {
	src  io.Reader
	left int    // bytes of the answer that are still in src
	p    *piece // takes what is read
	r, w int    // p.buf[r:w] is read and not looked at yet
	full func(*piece)
	err  error

	sum     uint32 // of what is to be summed, as far as it is read
	sumLeft int    // bytes that are to be summed and not read yet
	zero    [8]byte
}

// newStream reads n bytes. full takes each piece that holds records.
func newStream(src io.Reader, n int, full func(*piece)) *stream {
	return &stream{src: src, left: n, p: newPiece(min(n, pieceBytes)), full: full}
}

// remaining is how many bytes of the answer are not looked at yet.
func (s *stream) remaining() int { return s.w - s.r + s.left }

// need has the next n bytes lie in p.buf from r on.
func (s *stream) need(n int) bool {
	if s.err == nil && s.w-s.r < n {
		s.err = s.load(n)
	}
	return s.err == nil
}

func (s *stream) load(n int) error {
	if n > s.remaining() {
		return errGarbled("answer ends %d bytes early", n-s.remaining())
	}
	if s.r+n > len(s.p.buf) {
		s.turn(n)
	}
	for s.w-s.r < n {
		k, err := s.src.Read(s.p.buf[s.w:min(len(s.p.buf), s.w+s.left)])
		s.read(k)
		if err != nil && s.w-s.r < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// read takes in k bytes more.
func (s *stream) read(k int) {
	if n := min(k, s.sumLeft); n > 0 {
		s.sum = crc32.Update(s.sum, castagnoli, s.p.buf[s.w:s.w+n])
		s.sumLeft -= n
	}
	s.w += k
	s.left -= k
}

// turn makes room for n bytes behind what is looked at already.
func (s *stream) turn(n int) {
	old := s.p
	if len(old.recs) > 0 || n > len(old.buf) {
		s.p = newPiece(max(n, min(s.remaining(), pieceBytes)))
	}
	copy(s.p.buf, old.buf[s.r:s.w])
	s.w, s.r = s.w-s.r, 0
	switch {
	case len(old.recs) > 0:
		s.full(old)
	case old != s.p:
		old.free()
	}
}

// end ends reading; what is left stays in src.
func (s *stream) end() {
	if len(s.p.recs) > 0 {
		s.full(s.p)
	} else {
		s.p.free()
	}
	s.p = nil
}

// startSum begins a checksum of the next n bytes.
func (s *stream) startSum(n int) {
	here := min(n, s.w-s.r)
	s.sum = crc32.Update(0, castagnoli, s.p.buf[s.r:s.r+here])
	s.sumLeft = n - here
}

// peek returns the next n bytes, good until the next call; nil: there is an
// error.
func (s *stream) peek(n int) []byte {
	if !s.need(n) {
		return nil
	}
	return s.p.buf[s.r : s.r+n : s.r+n]
}

// fixed takes the next n bytes, 8 at most.
func (s *stream) fixed(n int) []byte {
	b := s.peek(n)
	if b == nil {
		return s.zero[:n]
	}
	s.r += n
	return b
}

func (s *stream) int16() int16 { return int16(binary.BigEndian.Uint16(s.fixed(2))) }
func (s *stream) int32() int32 { return int32(binary.BigEndian.Uint32(s.fixed(4))) }
func (s *stream) int64() int64 { return int64(binary.BigEndian.Uint64(s.fixed(8))) }

// uvarint takes a number of five bytes at most.
func (s *stream) uvarint() (v uint32) {
	for shift := 0; shift < 35; shift += 7 {
		b := s.fixed(1)[0]
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	s.fail("a number is too long")
	return 0
}

func (s *stream) fail(format string, args ...any) {
	if s.err == nil {
		s.err = errGarbled(format, args...)
	}
}

// skip passes n bytes.
func (s *stream) skip(n int) {
	if n < 0 || n > s.remaining() {
		s.fail("answer ends early")
	}
	for s.err == nil && n > 0 {
		if s.w == s.r {
			s.need(min(n, 1))
		}
		k := min(n, s.w-s.r)
		s.r += k
		n -= k
	}
}

package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Layout of a file, little-endian:
//
//	header  "ACKMSEG1" | base u64 | seq u64 | zeros | crc u32 of what is before it   = 64 bytes
//	entry   magic u32 | crc u32 of what follows up to the body | prev u32 | body crc u32
//	        | meta length u32 | body length u32 | position u64 | begin of its Write u64
//	        | meta | body | zeros up to a multiple of 8
const (
	headerLen = 64
	// EntryHeader is the length of an entry before its meta.
	EntryHeader = 40

	magicEntry = 0x314e4541 // "AEN1"
	maxMeta    = 64 << 20
	maxBody    = 64 << 20
)

var (
	magicFile  = []byte("ACKMSEG1")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// errBroken: here is no whole entry.
var errBroken = errors.New("no valid entry")

// Entry is an entry in memory. Meta and Body are parts of what was parsed.
type Entry struct {
	// Pos is the entry's position, Size its length in the log with padding.
	Pos        int64
	Size       int
	Meta, Body []byte

	crc, prev, bodyCRC uint32
	begin              int64
	bodyLen            int
}

func pad8(n int) int { return (n + 7) &^ 7 }

// EntrySize is the length of an entry in the log.
func EntrySize(meta, body int) int { return pad8(EntryHeader + meta + body) }

// parseHead reads the fixed part; it checks nothing but plausibility.
func parseHead(b []byte) (e Entry, metaLen int, err error) {
	if len(b) < EntryHeader || binary.LittleEndian.Uint32(b) != magicEntry {
		return e, 0, errBroken
	}
	metaLen = int(binary.LittleEndian.Uint32(b[16:]))
	e.bodyLen = int(binary.LittleEndian.Uint32(b[20:]))
	if metaLen > maxMeta || e.bodyLen > maxBody {
		return e, 0, errBroken
	}
	e.crc = binary.LittleEndian.Uint32(b[4:])
	e.prev = binary.LittleEndian.Uint32(b[8:])
	e.bodyCRC = binary.LittleEndian.Uint32(b[12:])
	e.Pos = int64(binary.LittleEndian.Uint64(b[24:]))
	e.begin = int64(binary.LittleEndian.Uint64(b[32:]))
	e.Size = EntrySize(metaLen, e.bodyLen)
	return e, metaLen, nil
}

// parseMeta reads the fixed part and the meta, checked, without the body.
func parseMeta(b []byte, pos int64) (Entry, error) {
	e, metaLen, err := parseHead(b)
	if err != nil || e.Pos != pos || len(b) < EntryHeader+metaLen {
		return e, errBroken
	}
	if crc32.Checksum(b[8:EntryHeader+metaLen], castagnoli) != e.crc {
		return e, errBroken
	}
	e.Meta = b[EntryHeader : EntryHeader+metaLen : EntryHeader+metaLen]
	return e, nil
}

// Parse reads the entry at the start of b, which stands at position pos in
// the log, and checks position and checksums. Errors: ErrCorrupt.
func Parse(b []byte, pos int64) (Entry, error) {
	e, err := parseEntry(b, pos)
	if err != nil {
		return e, fmt.Errorf("entry at position %d: %w", pos, ErrCorrupt)
	}
	return e, nil
}

func parseEntry(b []byte, pos int64) (Entry, error) {
	e, err := parseMeta(b, pos)
	if err != nil || len(b) < e.Size {
		return e, errBroken
	}
	from := EntryHeader + len(e.Meta)
	e.Body = b[from : from+e.bodyLen : from+e.bodyLen]
	if crc32.Checksum(e.Body, castagnoli) != e.bodyCRC {
		return e, errBroken
	}
	return e, nil
}

// MetaOnly reads the entry at the start of b, which may end behind its meta.
// The body stays unchecked and nil. Errors: ErrCorrupt.
func MetaOnly(b []byte, pos int64) (Entry, error) {
	e, err := parseMeta(b, pos)
	if err != nil {
		return e, fmt.Errorf("entry at position %d: %w", pos, ErrCorrupt)
	}
	return e, nil
}

// Split reads an entry that is known to be sound, without checking it.
// Errors: ErrCorrupt where it cannot be one at all.
func Split(b []byte) (Entry, error) {
	e, metaLen, err := parseHead(b)
	if err != nil || len(b) < e.Size {
		return e, fmt.Errorf("%d bytes are no entry: %w", len(b), ErrCorrupt)
	}
	from := EntryHeader + metaLen
	e.Meta, e.Body = b[EntryHeader:from:from], b[from:from+e.bodyLen:from+e.bodyLen]
	return e, nil
}

// Batch collects the entries of one Write in one piece of memory.
type Batch struct{ buf []byte }

// Reset empties the batch and makes it build in buf, whose content is lost.
func (b *Batch) Reset(buf []byte) { b.buf = buf[:0] }

// Len is the length of the batch in the log.
func (b *Batch) Len() int { return len(b.buf) }

// Bytes are the batch as it was written, valid until Reset.
func (b *Batch) Bytes() []byte { return b.buf }

// Add makes room for an entry and returns its two parts, to be filled before
// the next call, and where it begins in the batch. At most 64 MiB each.
func (b *Batch) Add(metaLen, bodyLen int) (meta, body []byte, at int) {
	at = len(b.buf)
	size := EntrySize(metaLen, bodyLen)
	if cap(b.buf)-at < size {
		b.buf = append(make([]byte, 0, max(2*cap(b.buf), at+size)), b.buf...)
	}
	b.buf = b.buf[:at+size]
	e := b.buf[at:]
	clear(e[size-(size-EntryHeader-metaLen-bodyLen):])
	binary.LittleEndian.PutUint32(e, magicEntry)
	binary.LittleEndian.PutUint32(e[16:], uint32(metaLen))
	binary.LittleEndian.PutUint32(e[20:], uint32(bodyLen))
	from := EntryHeader + metaLen
	return e[EntryHeader:from:from], e[from : from+bodyLen : from+bodyLen], at
}

// seal fills in positions and checksums for a Write at pos behind the entry
// with checksum prev, and returns the last checksum.
func (b *Batch) seal(pos int64, prev uint32) uint32 {
	for at := 0; at < len(b.buf); {
		e := b.buf[at:]
		metaLen := int(binary.LittleEndian.Uint32(e[16:]))
		bodyLen := int(binary.LittleEndian.Uint32(e[20:]))
		from := EntryHeader + metaLen
		binary.LittleEndian.PutUint32(e[8:], prev)
		binary.LittleEndian.PutUint32(e[12:], crc32.Checksum(e[from:from+bodyLen], castagnoli))
		binary.LittleEndian.PutUint64(e[24:], uint64(pos+int64(at)))
		binary.LittleEndian.PutUint64(e[32:], uint64(pos))
		prev = crc32.Checksum(e[8:from], castagnoli)
		binary.LittleEndian.PutUint32(e[4:], prev)
		at += EntrySize(metaLen, bodyLen)
	}
	return prev
}

func fileHeader(seq, base int64) []byte {
	h := make([]byte, headerLen)
	copy(h, magicFile)
	binary.LittleEndian.PutUint64(h[8:], uint64(base))
	binary.LittleEndian.PutUint64(h[16:], uint64(seq))
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
	return h
}

// parseFileHeader returns the base; ok is false where no valid header is.
func parseFileHeader(h []byte, seq int64) (base int64, ok bool) {
	if len(h) < headerLen || string(h[:8]) != string(magicFile) ||
		binary.LittleEndian.Uint32(h[60:]) != crc32.Checksum(h[:60], castagnoli) ||
		binary.LittleEndian.Uint64(h[16:]) != uint64(seq) {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(h[8:])), true
}

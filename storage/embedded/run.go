package embedded

import (
	"encoding/binary"
	"errors"
)

// A run is some records of one partition, written together: one entry of the
// segment log. Its meta, little-endian:
//
//	version u8 = 1 | flags u8 (1: with dedup keys) | partition u16 | topic number u32
//	| first offset u64 | time u64, ms since 1970 | count u32 | zeros u32
//	| count × end of the record in the body u32 | count × dedup key, 16 bytes
//
// The body is the frames, one after the other. Offsets in a run have no gaps,
// and its records were appended at the same time.
const (
	runVersion = 1
	runKeyed   = 1
	runHead    = 32
	runBytes   = 48 << 10 // a run is closed before it grows beyond this
)

var errRun = errors.New("run is malformed")

type runHeader struct {
	topic       uint32
	part        int
	first, time int64
	count       int
	keyed       bool
}

func runMetaLen(count int, keyed bool) int {
	if keyed {
		return runHead + count*(4+keyLen)
	}
	return runHead + count*4
}

func (h runHeader) put(meta []byte) {
	clear(meta[:runHead])
	meta[0] = runVersion
	if h.keyed {
		meta[1] = runKeyed
	}
	binary.LittleEndian.PutUint16(meta[2:], uint16(h.part))
	binary.LittleEndian.PutUint32(meta[4:], h.topic)
	binary.LittleEndian.PutUint64(meta[8:], uint64(h.first))
	binary.LittleEndian.PutUint64(meta[16:], uint64(h.time))
	binary.LittleEndian.PutUint32(meta[24:], uint32(h.count))
}

func parseRun(meta []byte) (runHeader, error) {
	if len(meta) < runHead || meta[0] != runVersion || meta[1] > runKeyed {
		return runHeader{}, errRun
	}
	h := runHeader{
		keyed: meta[1] == runKeyed,
		part:  int(binary.LittleEndian.Uint16(meta[2:])),
		topic: binary.LittleEndian.Uint32(meta[4:]),
		first: int64(binary.LittleEndian.Uint64(meta[8:])),
		time:  int64(binary.LittleEndian.Uint64(meta[16:])),
		count: int(binary.LittleEndian.Uint32(meta[24:])),
	}
	if h.first < 0 || h.count < 1 || h.count > len(meta) || len(meta) != runMetaLen(h.count, h.keyed) {
		return runHeader{}, errRun
	}
	return h, nil
}

// putEnd says where record i ends in the body.
func putEnd(meta []byte, i, end int) {
	binary.LittleEndian.PutUint32(meta[runHead+4*i:], uint32(end))
}

// recordEnd is where record i ends in the body; that of -1 is 0.
func recordEnd(meta []byte, i int) int {
	if i < 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(meta[runHead+4*i:]))
}

func (h runHeader) putKey(meta []byte, i int, k dedupKey) {
	at := runHead + 4*h.count + keyLen*i
	binary.LittleEndian.PutUint64(meta[at:], k[0])
	binary.LittleEndian.PutUint64(meta[at+8:], k[1])
}

func (h runHeader) key(meta []byte, i int) dedupKey {
	if !h.keyed {
		return dedupKey{}
	}
	at := runHead + 4*h.count + keyLen*i
	return dedupKey{binary.LittleEndian.Uint64(meta[at:]), binary.LittleEndian.Uint64(meta[at+8:])}
}

// checkEnds tells whether the ends rise and fit the body.
func checkEnds(meta []byte, count, body int) error {
	last := 0
	for i := range count {
		end := recordEnd(meta, i)
		if end < last || end > body {
			return errRun
		}
		last = end
	}
	if last != body {
		return errRun
	}
	return nil
}

package storage

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint tells a record from another one that stands at its offset after
// the log was cut and has grown again, or was made anew. The zero value is
// none.
type Fingerprint struct {
	// Offset is the record's.
	Offset int64
	// Hash is of the record as Poll returns it. It is never 0.
	Hash uint64
	// LeaderEpoch is the record's.
	LeaderEpoch int32
}

// fingerprinted bounds how many bytes of a frame are hashed.
const fingerprinted = 64 << 10

// Fingerprint is a hash of offset, time, length of the frame, and of the frame
// itself as far as 64 KiB. It is kept on disk, so it may never change; nor may
// what a backend makes of a record that is no frame.
func (r *Record) Fingerprint() Fingerprint {
	var d xxhash.Digest
	d.Reset()
	var head [24]byte
	binary.BigEndian.PutUint64(head[:], uint64(r.Offset))
	binary.BigEndian.PutUint64(head[8:], uint64(r.Time))
	binary.BigEndian.PutUint64(head[16:], uint64(len(r.Frame)))
	_, _ = d.Write(head[:]) // a hash takes everything
	_, _ = d.Write(r.Frame[:min(len(r.Frame), fingerprinted)])
	return Fingerprint{Offset: r.Offset, Hash: max(d.Sum64(), 1), LeaderEpoch: r.LeaderEpoch}
}

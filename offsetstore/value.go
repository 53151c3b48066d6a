package offsetstore

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/ackmesh/ackmesh/offset"
)

// An encoded value is, in this order: a version byte, a byte of flags, epoch,
// position, high − position, finished offsets, attempts, log identity, absence.
// Numbers are varints (signed ones zigzag), offsets are counted from the end of
// the range before, the first from the position.
//
// Version 1 had in the log identity, behind the topic's, a leader epoch and,
// with flagFloor, a hash that did not say of which record: neither tells
// anything. Version 2 has the fingerprints that the flags say.
const (
	valueVersion = 2
	firstVersion = 1
)

// Flags of an encoded value.
const (
	flagBitmap = 1 << iota // finished offsets are a bitmap
	flagFloor              // LogID.Floor follows
	flagTop                // LogID.Top follows

	flagsKnown      = flagBitmap | flagFloor | flagTop
	flagsKnownFirst = flagBitmap | flagFloor
)

// AppendValue appends the encoding of v to dst. What is not in the form that
// Normal gives is brought into it.
func AppendValue(dst []byte, v Value) []byte {
	v = Normal(v)
	at := len(dst) + 1
	dst = append(dst, valueVersion, 0)
	dst = binary.AppendUvarint(dst, v.Epoch)
	dst = binary.AppendVarint(dst, v.Position)
	dst = binary.AppendUvarint(dst, uint64(v.High)-uint64(v.Position))
	dst, bitmap := appendFinished(dst, v.Finished, v.Position)
	if bitmap {
		dst[at] |= flagBitmap
	}
	dst = appendAttempts(dst, v.Attempts, v.Position)
	dst = appendString(dst, v.Log.TopicID)
	if v.Log.Floor.Known() {
		dst[at] |= flagFloor
		dst = appendFingerprint(dst, v.Log.Floor)
	}
	if v.Log.Top.Known() {
		dst[at] |= flagTop
		dst = appendFingerprint(dst, v.Log.Top)
	}
	return binary.AppendVarint(dst, v.Absent)
}

// DecodeValue reads what AppendValue wrote. Any other bytes give an error that
// wraps ErrCorrupt. It shares nothing with b; what it allocates is within a
// fixed multiple of len(b).
func DecodeValue(b []byte) (Value, error) {
	d := decoder{b: b}
	version, known := d.byte(), byte(flagsKnown)
	switch version {
	case valueVersion:
	case firstVersion:
		known = flagsKnownFirst
	default:
		d.fail("version %d, known are %d to %d", version, firstVersion, valueVersion)
	}
	flags := d.byte()
	if flags&^known != 0 {
		d.fail("unknown flags %#x", flags)
	}
	v := Value{Epoch: d.uvarint(), Position: d.varint()}
	v.High = d.after(v.Position, d.uvarint())
	if flags&flagBitmap != 0 {
		v.Finished = d.bitmap(v.Position)
	} else {
		v.Finished = d.ranges(v.Position)
	}
	v.Attempts = d.attempts(v.Position)
	if version == firstVersion {
		v.Log = d.firstLogID(flags)
	} else {
		v.Log = d.logID(flags)
	}
	v.Absent = d.varint()
	if err := d.end("value"); err != nil {
		return Value{}, err
	}
	return v, nil
}

// ValueBound is a size that the encoding of v does not exceed, found in
// constant time: what a transaction is filled by. v is to be in the form that
// Normal gives.
func ValueBound(v Value) int {
	const fixed = 2 + 6*binary.MaxVarintLen64 + 2*fingerprintBound
	return fixed + finishedBound(v.Finished, v.Position) +
		len(v.Attempts)*attemptBound + len(v.Log.TopicID)
}

// after is base + n; a fault when that is no offset.
func (d *decoder) after(base int64, n uint64) int64 {
	if n > math.MaxInt64-uint64(base) {
		d.fail("offset out of range")
		return base
	}
	return int64(uint64(base) + n)
}

// appendRuns appends ranges as gap and length in turn.
func appendRuns(dst []byte, r []offset.Range, position int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r)))
	next := uint64(position)
	for _, r := range r {
		dst = appendRun(dst, r, next)
		next = uint64(r.Last) + 2 // ranges do not touch
	}
	return dst
}

func appendRun(dst []byte, r offset.Range, next uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.First)-next)
	return binary.AppendUvarint(dst, uint64(r.Last)-uint64(r.First))
}

// run reads a range whose gap counts from skip offsets after prev; the first
// of a list counts from prev itself.
func (d *decoder) run(prev int64, skip uint64) offset.Range {
	gap, more := d.uvarint(), d.uvarint()
	if gap > math.MaxUint64-skip {
		d.fail("offset out of range")
		return offset.Range{First: prev, Last: prev}
	}
	first := d.after(prev, gap+skip)
	return offset.Range{First: first, Last: d.after(first, more)}
}

func (d *decoder) ranges(position int64) []offset.Range {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	out := make([]offset.Range, 0, n)
	prev, skip := position, uint64(0)
	for range n {
		r := d.run(prev, skip)
		out = append(out, r)
		prev, skip = r.Last, 2
	}
	return out
}

// attemptBound is what one attempt takes at most.
const attemptBound = 3*binary.MaxVarintLen64 + 3*binary.MaxVarintLen32

func appendAttempts(dst []byte, a []Attempt, position int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(a)))
	next, due := uint64(position), int64(0)
	for _, t := range a {
		dst = appendRun(dst, t.Range, next)
		next = uint64(t.Last) + 1
		dst = binary.AppendUvarint(dst, uint64(uint32(t.Sent)))
		dst = binary.AppendUvarint(dst, uint64(uint32(t.Spent)))
		dst = binary.AppendUvarint(dst, uint64(uint32(t.Breaks)))
		dst = binary.AppendVarint(dst, t.Due-due)
		due = t.Due
	}
	return dst
}

func (d *decoder) attempts(position int64) []Attempt {
	n := d.count(6)
	if n == 0 {
		return nil
	}
	out := make([]Attempt, 0, n)
	prev, skip, due := position, uint64(0), int64(0)
	for range n {
		t := Attempt{Range: d.run(prev, skip)}
		t.Sent, t.Spent, t.Breaks = int32(d.uint32()), int32(d.uint32()), int32(d.uint32())
		due += d.varint()
		t.Due = due
		out = append(out, t)
		prev, skip = t.Last, 1
	}
	return out
}

// fingerprintBound is what a fingerprint takes at most.
const fingerprintBound = binary.MaxVarintLen64 + 8 + binary.MaxVarintLen32

func appendFingerprint(dst []byte, f Fingerprint) []byte {
	dst = binary.AppendVarint(dst, f.Offset)
	dst = binary.BigEndian.AppendUint64(dst, f.Hash)
	return binary.AppendVarint(dst, int64(f.LeaderEpoch))
}

func (d *decoder) fingerprint() Fingerprint {
	f := Fingerprint{Offset: d.varint(), Hash: d.uint64(), LeaderEpoch: d.int32()}
	if !f.Known() {
		d.fail("a fingerprint without a hash")
	}
	return f
}

func (d *decoder) logID(flags byte) LogID {
	l := LogID{TopicID: d.string()}
	if flags&flagFloor != 0 {
		l.Floor = d.fingerprint()
	}
	if flags&flagTop != 0 {
		l.Top = d.fingerprint()
	}
	return l
}

// firstLogID reads the log identity of version 1.
func (d *decoder) firstLogID(flags byte) LogID {
	l := LogID{TopicID: d.string()}
	d.int32()
	if flags&flagFloor != 0 {
		d.uint64()
	}
	return l
}

// int32 reads a signed number of at most 32 bits.
func (d *decoder) int32() int32 {
	n := d.varint()
	if n != int64(int32(n)) {
		d.fail("number %d exceeds 32 bits", n)
		return 0
	}
	return int32(n)
}

// uvarintLen is the size of x as a varint.
func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

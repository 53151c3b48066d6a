package offsetstore

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/ackmesh/ackmesh/offset"
)

// An encoded value is, in this order: a version byte (1), a byte of flags,
// epoch, position, high − position, finished offsets, attempts, log identity,
// absence. Numbers are varints (signed ones zigzag), offsets are counted from
// the end of the range before, the first from the position.
const valueVersion = 1

// Flags of an encoded value.
const (
	flagBitmap      = 1 << iota // finished offsets are a bitmap
	flagFingerprint             // a fingerprint of the log follows
	flagsKnown      = flagBitmap | flagFingerprint
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
	dst = binary.AppendVarint(dst, int64(v.Log.LeaderEpoch))
	if v.Log.Fingerprinted {
		dst[at] |= flagFingerprint
		dst = binary.BigEndian.AppendUint64(dst, v.Log.Fingerprint)
	}
	return binary.AppendVarint(dst, v.Absent)
}

// DecodeValue reads what AppendValue wrote. Any other bytes give an error that
// wraps ErrCorrupt. It shares nothing with b; what it allocates is within a
// fixed multiple of len(b).
func DecodeValue(b []byte) (Value, error) {
	d := decoder{b: b}
	if v := d.byte(); v != valueVersion {
		d.fail("version %d, known is %d", v, valueVersion)
	}
	flags := d.byte()
	if flags&^flagsKnown != 0 {
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
	v.Log = d.logID(flags)
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
	const fixed = 2 + 7*binary.MaxVarintLen64 + 8
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

func (d *decoder) logID(flags byte) LogID {
	l := LogID{TopicID: d.string()}
	epoch := d.varint()
	l.LeaderEpoch = int32(epoch)
	if int64(l.LeaderEpoch) != epoch {
		d.fail("leader epoch %d exceeds 32 bits", epoch)
	}
	if flags&flagFingerprint != 0 {
		l.Fingerprinted, l.Fingerprint = true, d.uint64()
	}
	return l
}

// uvarintLen is the size of x as a varint.
func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

package offsetstore

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/ackmesh/ackmesh/offset"
)

// Finished offsets are kept as a compressed bitmap where that is smaller than
// runs. It pays from about this size of the runs on.
const bitmapFrom = 64

// bitmapSpan is the largest distance from the position that a bitmap covers.
const bitmapSpan = math.MaxUint32

// appendFinished appends finished offsets in the smaller of both forms and
// tells whether that is a bitmap.
func appendFinished(dst []byte, r []offset.Range, position int64) ([]byte, bool) {
	at := len(dst)
	dst = appendRuns(dst, r, position)
	size := len(dst) - at
	if size < bitmapFrom || uint64(r[len(r)-1].Last)-uint64(position) > bitmapSpan {
		return dst, false
	}
	b := bitmapOf(r, position)
	n := int(b.GetSerializedSizeInBytes())
	if uvarintLen(uint64(n))+n >= size {
		return dst, false
	}
	dst = binary.AppendUvarint(dst[:at], uint64(n))
	buf := bytes.NewBuffer(dst)
	if _, err := b.WriteTo(buf); err != nil {
		return appendRuns(dst[:at], r, position), false // a buffer takes all
	}
	return buf.Bytes(), true
}

// bitmapOf is a bitmap of the offsets, counted from position.
func bitmapOf(r []offset.Range, position int64) *roaring.Bitmap {
	const dense = 1 << 22 // up to 512 KiB of words
	span := uint64(r[len(r)-1].Last) - uint64(position) + 1
	var b *roaring.Bitmap
	if span <= dense {
		b = roaring.FromDense(words(r, position, span), false)
	} else {
		b = roaring.New()
		for _, r := range r {
			b.AddRange(uint64(r.First)-uint64(position), uint64(r.Last)-uint64(position)+1)
		}
	}
	b.RunOptimize()
	return b
}

// words is a plain bit set of the offsets, counted from position.
func words(r []offset.Range, position int64, span uint64) []uint64 {
	w := make([]uint64, (span+63)/64)
	for _, r := range r {
		first, last := uint64(r.First)-uint64(position), uint64(r.Last)-uint64(position)
		head, tail := ^uint64(0)<<(first&63), ^uint64(0)>>(63-last&63)
		i, j := first/64, last/64
		if i == j {
			w[i] |= head & tail
			continue
		}
		w[i] |= head
		for i++; i < j; i++ {
			w[i] = ^uint64(0)
		}
		w[j] |= tail
	}
	return w
}

// bitmap reads finished offsets that are kept as a bitmap.
func (d *decoder) bitmap(position int64) []offset.Range {
	p := d.bytes()
	var b roaring.Bitmap
	n, err := b.FromUnsafeBytes(p)
	if err == nil {
		err = b.Validate()
	}
	if err != nil || int(n) != len(p) || b.IsEmpty() {
		d.fail("malformed bitmap of %d bytes", len(p))
		return nil
	}
	out := make([]offset.Range, 0, bitmapRanges(&b))
	for first, end := range b.Ranges() {
		out = append(out, offset.Range{
			First: d.after(position, uint64(first)),
			Last:  d.after(position, end-1),
		})
	}
	return out
}

// bitmapRanges is how many ranges a bitmap holds.
func bitmapRanges(b *roaring.Bitmap) (n int) {
	for range b.Ranges() {
		n++
	}
	return n
}

// finishedBound is a size that appendFinished does not exceed.
func finishedBound(r []offset.Range, position int64) int {
	if len(r) == 0 {
		return 1
	}
	span := uint64(r[len(r)-1].Last) - uint64(position)
	runs := binary.MaxVarintLen64 + len(r)*2*uvarintLen(span)
	if span > bitmapSpan {
		return runs
	}
	const container = 1<<13 + 16 // bits of 65,536 offsets, with their headers
	return min(runs, binary.MaxVarintLen64+32+int(span>>16+1)*container)
}

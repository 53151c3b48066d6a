package wire

import (
	"encoding/binary"
)

// MaxRanges is the most ranges and single ids that one message names.
const MaxRanges = 1000

// Range names deliveries by id, both ends included.
type Range struct{ First, Last uint64 }

// Kinds of SubscribeRequest that name deliveries: the tag of the oneof field.
const (
	KindAck    = 3<<3 | 2
	KindNack   = 4<<3 | 2
	KindExtend = 5<<3 | 2
)

const rangeLen = 18

// AppendRanges appends a SubscribeRequest of the given kind that names the
// ranges; single ids are written as such, since they take less room. tail is
// appended to the inner message as it is. There must be 1 to MaxRanges ranges.
func AppendRanges(dst []byte, kind byte, ranges []Range, tail []byte) []byte {
	singles := 0
	for _, r := range ranges {
		if r.First == r.Last {
			singles++
		}
	}
	size := (len(ranges)-singles)*(2+rangeLen) + len(tail)
	if singles > 0 {
		size += 1 + lenSize(8*singles) + 8*singles
	}
	dst = append(dst, kind)
	dst = appendLen(dst, size)
	dst = appendSingles(dst, ranges, singles)
	for _, r := range ranges {
		if r.First != r.Last {
			dst = append(dst, tagBytes2, rangeLen, tagFixed1)
			dst = binary.LittleEndian.AppendUint64(dst, r.First)
			dst = append(dst, tagFixed2)
			dst = binary.LittleEndian.AppendUint64(dst, r.Last)
		}
	}
	return append(dst, tail...)
}

func appendSingles(dst []byte, ranges []Range, n int) []byte {
	if n == 0 {
		return dst
	}
	dst = append(dst, tagBytes1)
	dst = appendLen(dst, 8*n)
	for _, r := range ranges {
		if r.First == r.Last {
			dst = binary.LittleEndian.AppendUint64(dst, r.First)
		}
	}
	return dst
}

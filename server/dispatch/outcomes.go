package dispatch

import (
	"math/bits"
	"sort"
)

// AckStatus is the fate of an ack or nack, with the numbers of the wire.
type AckStatus uint8

// The fates, as AckResult.Status has them.
const (
	StatusDurable AckStatus = 1 + iota
	StatusRetry
	StatusUnknown
	StatusStale
	StatusFenced
	statusEnd
)

// outcomes gathers what a stream is to be told of its acks, joined into
// ranges, until its writer takes it.
type outcomes struct {
	byStatus [statusEnd][]idRange
	n        int
}

// maxOutcomes bounds the ranges that wait for a client that does not read.
const maxOutcomes = 200_000

// maxOutcomesPerMessage bounds the ranges of one AckResult.
const maxOutcomesPerMessage = 1000

// add notes the fate of a range of deliveries.
func (o *outcomes) add(st AckStatus, r idRange) {
	list := o.byStatus[st]
	if n := len(list); n > 0 && list[n-1].last+1 == r.first {
		list[n-1].last = r.last
		return
	}
	o.byStatus[st] = append(list, r)
	o.n++
}

// addMask notes the fate of the deliveries first+i for the bits i of mask.
func (o *outcomes) addMask(st AckStatus, first, mask uint64) {
	for mask != 0 {
		lo := bits.TrailingZeros64(mask)
		n := bits.TrailingZeros64(^(mask >> lo))
		o.add(st, idRange{first + uint64(lo), first + uint64(lo+n-1)})
		if lo+n >= 64 {
			return
		}
		mask &^= (1<<n - 1) << lo
	}
}

// take moves up to most ranges, or maxOutcomesPerMessage, into the body of an
// AckResult; one always.
func (o *outcomes) take(b []byte, most int) []byte {
	left := max(1, min(most, maxOutcomesPerMessage))
	for st := range o.byStatus {
		list := o.byStatus[st]
		if len(list) == 0 || left == 0 {
			continue
		}
		before := len(list)
		list = join(list)
		k := min(left, len(list))
		b = appendOutcome(b, AckStatus(st), list[:k])
		left -= k
		rest := copy(list, list[k:])
		o.byStatus[st] = list[:rest]
		o.n -= before - rest
	}
	return b
}

// join sorts ranges and unites those that touch.
func join(list []idRange) []idRange {
	if !sort.SliceIsSorted(list, func(i, j int) bool { return list[i].first < list[j].first }) {
		sort.Slice(list, func(i, j int) bool { return list[i].first < list[j].first })
	}
	out := list[:1]
	for _, r := range list[1:] {
		if last := &out[len(out)-1]; r.first <= last.last+1 {
			last.last = max(last.last, r.last)
			continue
		}
		out = append(out, r)
	}
	return out
}

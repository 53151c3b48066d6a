package rocketmq4

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// anchor is a message that was seen: where it stands and what it was.
type anchor struct {
	Offset int64  `json:"offset"`
	Hash   uint64 `json:"hash"`
	// Low: there was nothing below it when it was seen.
	Low bool `json:"low,omitempty"`
}

// anchorsKept bounds the anchors of one queue, anchorsSaved those that are
// kept over a restart: the lowest and the highest.
const (
	anchorsKept  = 16
	anchorsSaved = 4
)

// anchors are messages of one queue by which the queue is known again. The
// lowest one is as low as the queue was when it was first looked at; the
// others are where readers stood lately.
type anchors struct {
	list []anchor // in order of offset
	ages []uint64 // when each was last of use, in the same order
	age  uint64
}

// hashOf is the fingerprint of a message.
func hashOf(m *remoting.Message) uint64 {
	var d xxhash.Digest
	d.Reset()
	var head [32]byte
	binary.LittleEndian.PutUint64(head[:], uint64(m.QueueOffset))
	binary.LittleEndian.PutUint64(head[8:], uint64(m.StoreTime))
	binary.LittleEndian.PutUint64(head[16:], uint64(m.BornTime))
	binary.LittleEndian.PutUint64(head[24:], uint64(len(m.Properties)))
	_, _ = d.Write(head[:]) // a hash takes everything
	_, _ = d.WriteString(m.Properties)
	_, _ = d.Write(m.Body)
	return d.Sum64()
}

func (a *anchors) find(offset int64) (int, bool) {
	return slices.BinarySearchFunc(a.list, offset, func(x anchor, offset int64) int { return cmp.Compare(x.Offset, offset) })
}

// at finds the anchor at an offset.
func (a *anchors) at(offset int64) (anchor, bool) {
	i, ok := a.find(offset)
	if !ok {
		return anchor{}, false
	}
	a.age++
	a.ages[i] = a.age
	return a.list[i], true
}

// note adds a message that was seen. Where there are too many the one goes
// that was of no use for longest, but never the lowest or highest.
func (a *anchors) note(x anchor) {
	a.age++
	i, ok := a.find(x.Offset)
	if ok {
		x.Low = x.Low || a.list[i].Low
		a.list[i], a.ages[i] = x, a.age
		return
	}
	a.list, a.ages = slices.Insert(a.list, i, x), slices.Insert(a.ages, i, a.age)
	if len(a.list) <= anchorsKept {
		return
	}
	oldest := 1
	for k := 1; k < len(a.ages)-1; k++ {
		if a.ages[k] < a.ages[oldest] {
			oldest = k
		}
	}
	a.list, a.ages = slices.Delete(a.list, oldest, oldest+1), slices.Delete(a.ages, oldest, oldest+1)
}

// within lists the anchors from low up to high, the highest first.
func (a *anchors) within(low, high int64) []anchor {
	from, _ := a.find(low)
	to, _ := a.find(high)
	list := slices.Clone(a.list[from:max(from, to)])
	slices.Reverse(list)
	return list
}

// cut drops the anchors from an offset on.
func (a *anchors) cut(offset int64) {
	i, _ := a.find(offset)
	a.list, a.ages = a.list[:i], a.ages[:i]
}

// lift drops the anchors below an offset.
func (a *anchors) lift(offset int64) {
	i, _ := a.find(offset)
	a.list, a.ages = slices.Delete(a.list, 0, i), slices.Delete(a.ages, 0, i)
}

// end is the offset behind the highest anchor; 0: there is none.
func (a *anchors) end() int64 {
	if len(a.list) == 0 {
		return 0
	}
	return a.list[len(a.list)-1].Offset + 1
}

// lowest is the lowest anchor.
func (a *anchors) lowest() (anchor, bool) {
	if len(a.list) == 0 {
		return anchor{}, false
	}
	return a.list[0], true
}

// saved lists what is kept over a restart.
func (a *anchors) saved() []anchor {
	if len(a.list) <= anchorsSaved {
		return slices.Clone(a.list)
	}
	return append([]anchor{a.list[0]}, a.list[len(a.list)-anchorsSaved+1:]...)
}

// load takes over what was saved.
func (a *anchors) load(list []anchor) {
	for _, x := range list {
		a.note(x)
	}
}

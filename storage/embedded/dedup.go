package embedded

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

const keyLen = 16

// dedupKey is a hash of topic and DedupKey, wide enough that two events never
// meet by chance. Zero: the event has none.
type dedupKey [2]uint64

// place is where an event was put, and when in ms.
type place struct {
	offset, time int64
	part         int
}

// ticks is the time in ms that the window is measured by: that of the clock,
// but where the clock is set back it goes on.
type ticks struct{ last, ahead int64 }

func (t *ticks) at(now int64) int64 {
	t.ahead += max(0, t.last-now)
	t.last = now
	return now + t.ahead
}

// hasher makes dedup keys. Not safe for concurrent use.
type hasher struct{ d [2]xxhash.Digest }

func (h *hasher) key(topic uint32, s string) dedupKey {
	if s == "" {
		return dedupKey{}
	}
	var k dedupKey
	for i := range k {
		h.d[i].ResetWithSeed(uint64(i)<<32 | uint64(topic))
		_, _ = h.d[i].WriteString(s) // never fails
		k[i] = h.d[i].Sum64()
	}
	return k
}

// dedup remembers where events went, for a time and up to a number, the oldest
// first forgotten. A look-up of an unknown key, which is nearly every one,
// costs one cache line. Not safe for concurrent use.
type dedup struct {
	window int64 // ms
	limit  int

	// seen is a ring of what is remembered, in order of time; slots is a hash
	// table with linear probing of numbers into it, plus 1. Both are powers of
	// two, slots twice as long.
	seen        []dedupEntry
	slots       []uint32
	first, next uint32 // of the ring, counted on without end
}

type dedupEntry struct {
	key          dedupKey
	offset, time int64
	part         int32
}

const dedupStart = 1 << 10

func newDedup(window time.Duration, limit int) *dedup {
	d := &dedup{window: window.Milliseconds(), limit: limit}
	d.resize(dedupStart)
	return d
}

func (d *dedup) len() int { return int(d.next - d.first) }

func (d *dedup) at(n uint32) *dedupEntry { return &d.seen[n&uint32(len(d.seen)-1)] }

// slot is where a key is in slots, or where it would go.
func (d *dedup) slot(k dedupKey) uint32 {
	mask := uint32(len(d.slots) - 1)
	i := uint32(k[0]) & mask
	for d.slots[i] != 0 && d.at(d.slots[i]-1).key != k {
		i = (i + 1) & mask
	}
	return i
}

// find returns where the event of a key went within the window before now.
func (d *dedup) find(k dedupKey, now int64) (place, bool) {
	n := d.slots[d.slot(k)]
	if n == 0 {
		return place{}, false
	}
	e := d.at(n - 1)
	return place{e.offset, e.time, int(e.part)}, now-e.time <= d.window
}

// add remembers a key. It forgets first what is too old, or too much.
func (d *dedup) add(k dedupKey, p place) {
	for d.len() > 0 && (d.len() >= d.limit || p.time-d.at(d.first).time > d.window) {
		d.drop(d.first)
		d.first++
	}
	switch n := len(d.seen); {
	case d.len() == n:
		d.resize(2 * n)
	case n > dedupStart && d.len() < n/8:
		d.resize(n / 2)
	}
	i := d.slot(k)
	if n := d.slots[i]; n != 0 {
		d.at(n - 1).key = dedupKey{} // out of its window; the new one counts
	}
	d.put(i, dedupEntry{k, p.offset, p.time, int32(p.part)})
}

// put puts an entry at the end of the ring and into an empty slot.
func (d *dedup) put(slot uint32, e dedupEntry) {
	*d.at(d.next) = e
	d.slots[slot] = d.next&uint32(len(d.seen)-1) + 1
	d.next++
}

// forget takes back an add.
func (d *dedup) forget(k dedupKey) {
	i := d.slot(k)
	n := d.slots[i]
	if n == 0 {
		return
	}
	d.remove(i)
	d.at(n - 1).key = dedupKey{}
	for d.len() > 0 && d.at(d.next-1).key == (dedupKey{}) {
		d.next--
	}
}

// drop takes the entry with a number out of the table.
func (d *dedup) drop(n uint32) {
	e := d.at(n)
	if e.key == (dedupKey{}) {
		return
	}
	d.remove(d.slot(e.key))
	e.key = dedupKey{}
}

// remove empties a slot and moves up what was put behind it because of it.
func (d *dedup) remove(i uint32) {
	mask := uint32(len(d.slots) - 1)
	for j := (i + 1) & mask; d.slots[j] != 0; j = (j + 1) & mask {
		home := uint32(d.at(d.slots[j] - 1).key[0])
		if (j-home)&mask >= (j-i)&mask {
			d.slots[i] = d.slots[j]
			i = j
		}
	}
	d.slots[i] = 0
}

// resize changes the length of the ring to a power of two that fits.
func (d *dedup) resize(n int) {
	old := *d
	d.seen, d.slots = make([]dedupEntry, n), make([]uint32, 2*n)
	d.first, d.next = 0, 0
	for i := old.first; i != old.next; i++ {
		e := *old.at(i)
		if e.key == (dedupKey{}) {
			continue
		}
		d.put(d.slot(e.key), e)
	}
}

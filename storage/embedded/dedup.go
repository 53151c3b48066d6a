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

// dedup remembers where events went, for a time and up to a number. It keeps
// two generations, so that forgetting costs nothing. Not safe for concurrent
// use.
type dedup struct {
	window    int64 // ms
	limit     int   // keys in both generations
	now, old  map[dedupKey]place
	beginning int64 // when the present generation began, in ms
}

func newDedup(window time.Duration, limit int) *dedup {
	return &dedup{window: window.Milliseconds(), limit: limit, now: map[dedupKey]place{}}
}

// find returns where the event of a key went within the window before now.
func (d *dedup) find(k dedupKey, now int64) (place, bool) {
	p, ok := d.now[k]
	if !ok {
		p, ok = d.old[k]
	}
	return p, ok && now-p.time <= d.window
}

func (d *dedup) add(k dedupKey, p place) {
	if len(d.now) >= d.limit/2 || p.time-d.beginning > d.window && len(d.now) > 0 {
		d.old, d.now = d.now, make(map[dedupKey]place, min(len(d.now), d.limit/2))
	}
	if len(d.now) == 0 {
		d.beginning = p.time
	}
	d.now[k] = p
}

// forget takes back an add.
func (d *dedup) forget(k dedupKey) {
	delete(d.now, k)
	delete(d.old, k)
}

package memory

import (
	"strings"
	"time"
)

// place is where an event was stored, and when.
type place struct {
	partition string
	offset    int64
	at        time.Time
}

// dedup remembers the names of the events of one topic for a while.
//
// Invariant: order holds the keys of places, oldest first, each once.
type dedup struct {
	places map[string]place
	order  []string
}

// find returns where the event was stored within the window.
func (d *dedup) find(key string, now time.Time, window time.Duration) (place, bool) {
	if key == "" || window < 0 {
		return place{}, false
	}
	d.forget(now.Add(-window))
	p, ok := d.places[key]
	return p, ok
}

// add remembers an event that find did not know. The key is copied: it may be
// part of a buffer that the caller uses again.
func (d *dedup) add(key string, p place, window time.Duration) {
	if key == "" || window < 0 {
		return
	}
	if d.places == nil {
		d.places = map[string]place{}
	}
	key = strings.Clone(key)
	d.places[key] = p
	d.order = append(d.order, key)
}

// forget drops what was stored before t.
func (d *dedup) forget(t time.Time) {
	n := 0
	for n < len(d.order) && d.places[d.order[n]].at.Before(t) {
		delete(d.places, d.order[n])
		n++
	}
	clear(d.order[:n])
	d.order = d.order[n:]
}

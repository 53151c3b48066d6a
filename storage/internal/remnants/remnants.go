// Package remnants keeps what a read of a partition brought beyond what was
// asked for, for who goes on there.
package remnants

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Age is how long a remnant is kept.
	Age = 2 * time.Second
	// Most is how many are kept of one partition.
	Most = 4
)

// Remnants are those of one partition, each of type C. The zero value has none.
type Remnants[C any] struct {
	// Bytes, where not nil, counts what all remnants take together. It may be
	// that of other partitions too.
	Bytes *atomic.Int64

	mu    sync.Mutex   // guards what follows
	list  []remnant[C] // oldest first
	ended bool         // nothing is kept any more
}

type remnant[C any] struct {
	start, size int64
	at          time.Time // when it was kept
	what        C
}

// Keep keeps what begins at an offset. size is how many bytes it takes, where
// they are counted. The oldest one goes where there are too many.
func (r *Remnants[C]) Keep(start, size int64, what C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if len(r.list) == Most {
		r.cut(0, 1)
	}
	r.list = append(r.list, remnant[C]{start: start, size: size, at: time.Now(), what: what})
	r.count(size)
}

// Take returns the remnant that begins at an offset. Only one caller gets it.
func (r *Remnants[C]) Take(start int64) (what C, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.find(start)
	if i < 0 {
		return what, false
	}
	what = r.list[i].what
	r.cut(i, i+1)
	return what, true
}

// Holds tells whether there is a remnant that begins at an offset.
func (r *Remnants[C]) Holds(start int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(start) >= 0
}

// find is the place of the remnant that begins at an offset; -1: there is none.
// The lock is held.
func (r *Remnants[C]) find(start int64) int {
	return slices.IndexFunc(r.list, func(one remnant[C]) bool { return one.start == start && time.Since(one.at) < Age })
}

// Expire drops remnants that nobody has asked for.
func (r *Remnants[C]) Expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.list) && now.Sub(r.list[n].at) > Age {
		n++
	}
	r.cut(0, n)
}

// Drop drops all remnants.
func (r *Remnants[C]) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut(0, len(r.list))
}

// End is Drop for good: a read that is under way still keeps nothing.
func (r *Remnants[C]) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.cut(0, len(r.list))
}

// cut takes remnants i to k-1 out; the lock is held.
func (r *Remnants[C]) cut(i, k int) {
	for _, one := range r.list[i:k] {
		r.count(-one.size)
	}
	if r.list = slices.Delete(r.list, i, k); len(r.list) == 0 {
		r.list = nil
	}
}

func (r *Remnants[C]) count(size int64) {
	if r.Bytes != nil {
		r.Bytes.Add(size)
	}
}

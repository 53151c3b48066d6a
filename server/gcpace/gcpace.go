// Package gcpace sets how far the heap of this process grows between two
// garbage collections: by a part of what is alive, and by a number of bytes at
// least.
//
// A small part is right for a server that holds much and drops little. The
// client libraries of brokers make a new buffer for each answer, though: with
// little alive the heap would be collected each few megabytes, which took a
// tenth to a quarter of the time of a server on Kafka. The number of bytes is
// for these.
package gcpace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// ForServer is what Start is given in a server on such a log. On its own log a
// server under load makes little garbage, so that Go's own 100 % is no faster;
// with ten thousand idle streams it costs a hundred megabytes.
func ForServer(storage string) (percent int, room uint64) {
	switch storage {
	case "embedded", "memory":
		return 50, 0
	}
	return 50, 64 << 20
}

// maxPercent bounds the part, where next to nothing is alive.
const maxPercent = 1000

// Start lets the heap grow by percent of what is alive between two collections,
// and by room bytes at least; it looks at what is alive after each. The setting
// is the process's: one Start at a time. stop puts back what was set before;
// it may be called once.
func Start(percent int, room uint64) (stop func()) {
	p := &pacer{percent: percent, room: room}
	p.before = debug.SetGCPercent(percent)
	p.set = percent
	p.turn()
	return p.stop
}

// pacer is a Start that is not stopped.
type pacer struct {
	percent int
	room    uint64

	mu      sync.Mutex // guards what follows
	before  int        // what was set before Start
	set     int        // what is set now
	stopped bool
}

// turn sets what fits, and sees to it that it is called after the next
// collection: the collector then finds an object that nobody has.
func (p *pacer) turn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if want := percentFor(live(), p.percent, p.room); want != p.set {
		debug.SetGCPercent(want)
		p.set = want
	}
	runtime.AddCleanup(&probe{p: p}, func(p *pacer) { p.turn() }, p)
}

// probe is found by the collector. It has a pointer, so that it is allocated for
// itself.
type probe struct{ p *pacer }

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	debug.SetGCPercent(p.before)
}

// live is how many bytes the last collection found alive.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// percentFor is the part of what is alive by which the heap may grow: percent,
// or what makes up room bytes, whichever is more. It goes up and down in steps,
// so that it is not set again after each collection.
func percentFor(live uint64, percent int, room uint64) int {
	const step = 25
	if live == 0 {
		return percent // nothing is known yet
	}
	part := room * 100 / live
	return max(percent, min(int(min(part, maxPercent))/step*step, maxPercent))
}

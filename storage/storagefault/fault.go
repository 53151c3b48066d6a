// Package storagefault wraps a message log for tests: it makes calls fail,
// last long or hang, by operation, topic, partition and number, while the log
// is in use, and counts that the fault was met.
//
// The wrapper has the capabilities of what it wraps, found with storage.As,
// and no others. Without a fault it behaves as what it wraps.
package storagefault

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Op is an operation of a log.
type Op string

// The operations. Done is the report of an Append, which comes later.
const (
	Append       Op = "append"
	Done         Op = "done"
	Poll         Op = "poll"
	Cursor       Op = "cursor"
	Seek         Op = "seek"
	Topic        Op = "topic"
	EnsureTopic  Op = "ensure topic"
	Topics       Op = "topics"
	Close        Op = "close"
	Bounds       Op = "bounds"
	OffsetByTime Op = "offset by time"
	CreateTopic  Op = "create topic"
	DeleteTopic  Op = "delete topic"
	Ack          Op = "ack"
	Fingerprint  Op = "fingerprint"
	Trim         Op = "trim"
	Checkpoint   Op = "checkpoint"
)

// Call is one call of an operation. Topic and Partition are empty where the
// operation has none; Append and Done have no partition. Of lite topics, Topic is
// the parent and Partition the lite topic.
type Call struct {
	Op               Op
	Topic, Partition string
	// Start is that of the PollRequest; else 0.
	Start int64
}

// Fault says which calls go wrong, and how. Several of Delay, Hang and Err
// come in that order.
type Fault struct {
	// Op is the operation; it must be given.
	Op Op
	// Topic and Partition, where not empty, must be those of the call.
	Topic, Partition string
	// Match, where not nil, must be true. It may be called concurrently.
	Match func(Call) bool
	// Nth is the first of the calls so chosen that goes wrong, from 1. 0: 1.
	Nth int64
	// Times is how many calls go wrong. 0: all until Remove.
	Times int64

	// Delay is how long the call waits first. Release and Remove end it.
	Delay time.Duration
	// Hang: the call waits for Release or Remove. This wait and Delay end
	// early, with the error of the context or ErrClosed, when the call's
	// context or the log ends. A Done that waits is reported then; others may
	// have overtaken it. Close itself has nothing that ends its wait early.
	Hang bool
	// Err is what the call returns. Done reports it of all events, which are
	// stored nevertheless; Cursor answers that it does not know.
	Err error
	// After: the call is done before it goes wrong, so that its effect is
	// there; a batch is emptied. For Append, see Done.
	After bool
	// Bounds, for the operation Bounds, changes what is answered.
	Bounds func(min, max int64) (int64, int64)
}

// Injected is a fault in force.
type Injected struct {
	fault    Fault
	backend  *Backend
	calls    atomic.Int64
	hits     atomic.Int64
	struck   chan struct{} // closed by the first hit
	released chan struct{} // closed by Release
	release  atomic.Bool
}

// Inject puts a fault into force. It may be called at any time.
func (b *Backend) Inject(f Fault) *Injected {
	i := &Injected{fault: f, backend: b, struck: make(chan struct{}), released: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := append(slices.Clone(b.list()), i)
	b.faults.Store(&list)
	return i
}

// Calls is how many calls fitted the fault, gone wrong or not.
func (i *Injected) Calls() int64 { return i.calls.Load() }

// Hits is how many calls went wrong.
func (i *Injected) Hits() int64 { return i.hits.Load() }

// Struck is closed when the first call goes wrong: when a hang has begun.
func (i *Injected) Struck() <-chan struct{} { return i.struck }

// Release ends the hang of the calls that hang and of those to come.
func (i *Injected) Release() {
	if i.release.CompareAndSwap(false, true) {
		close(i.released)
	}
}

// Remove takes the fault out of force and releases what hangs.
func (i *Injected) Remove() {
	b := i.backend
	b.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(b.list()), func(other *Injected) bool { return other == i })
	b.faults.Store(&list)
	b.mu.Unlock()
	i.Release()
}

// list is the faults in force.
func (b *Backend) list() []*Injected {
	if list := b.faults.Load(); list != nil {
		return *list
	}
	return nil
}

// strikes counts a call and tells whether it goes wrong.
func (i *Injected) strikes(c Call) bool {
	f := &i.fault
	if f.Op != c.Op || f.Topic != "" && f.Topic != c.Topic || f.Partition != "" && f.Partition != c.Partition {
		return false
	}
	if f.Match != nil && !f.Match(c) {
		return false
	}
	n := i.calls.Add(1) - max(f.Nth, 1)
	if n < 0 || f.Times > 0 && n >= f.Times {
		return false
	}
	if i.hits.Add(1) == 1 {
		close(i.struck)
	}
	return true
}

// choose counts a call and returns the faults that it meets. The answer is
// nil where there are none at all.
func (b *Backend) choose(c Call) (met []*Injected) {
	b.counts[c.Op].Add(1)
	for _, i := range b.list() {
		if i.strikes(c) {
			met = append(met, i)
		}
	}
	return met
}

// wait waits out delays and hangs, or until the context or the log ends.
func (b *Backend) wait(ctx context.Context, met []*Injected) error {
	for _, i := range met {
		if d := i.fault.Delay; d > 0 {
			timer := time.NewTimer(d)
			select {
			case <-timer.C:
			case <-i.released:
			case <-ctx.Done():
			case <-b.closing:
			}
			timer.Stop()
		}
		if i.fault.Hang {
			select {
			case <-i.released:
			case <-ctx.Done():
			case <-b.closing:
			}
		}
	}
	return b.ended(ctx)
}

// ended is why nothing more is waited for: the context or the log has ended.
func (b *Backend) ended(ctx context.Context) error {
	select {
	case <-b.closing:
		return fmt.Errorf("storagefault: %w", storage.ErrClosed)
	default:
		return ctx.Err()
	}
}

// errOf is the first error of the faults met.
func errOf(met []*Injected) error {
	for _, i := range met {
		if i.fault.Err != nil {
			return i.fault.Err
		}
	}
	return nil
}

// divide divides the faults met into those that come before the call and
// those that come after it.
func divide(met []*Injected) (before, after []*Injected) {
	for _, i := range met {
		if i.fault.After {
			after = append(after, i)
		} else {
			before = append(before, i)
		}
	}
	return before, after
}

// through makes a call with its faults.
func (b *Backend) through(ctx context.Context, c Call, call func() error) error {
	met := b.choose(c)
	if met == nil {
		return call()
	}
	before, after := divide(met)
	if err := b.suffer(ctx, before); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return b.suffer(ctx, after)
}

// suffer waits, then gives the error of the faults.
func (b *Backend) suffer(ctx context.Context, met []*Injected) error {
	if len(met) == 0 {
		return nil
	}
	if err := b.wait(ctx, met); err != nil {
		return err
	}
	return errOf(met)
}

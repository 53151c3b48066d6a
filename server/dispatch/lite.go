package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// A lite topic (storage.Liter) is served as a partition of its parent: what is
// durable has the key parent, subscriber, lite topic. It is delivered by the same
// machine and read by the same readers as any partition. Its loop differs in
// what it costs while nothing happens, for there are thousands:
//
//   - It is there while a stream wants the lite topic.
//   - It has no goroutine while there is nothing to do: as a stream's writer, one
//     is started by the first event and ends with the last.
//   - It has no reader at the log's end. It reads as those do who are behind, and
//     once there is nothing more the log is asked to tell when there is.
//   - It keeps no records that everybody has got.
type liteFeed struct {
	l    *loop
	log  storage.Liter
	refs int // bindings and resets that use it; guarded by topic.mu

	state atomic.Int32 // one of the writer states

	// Owned by the loop.
	await *awaiting // nil: nothing is awaited
	saved int64     // the pull offset as the log was told; -1: it was not
	// Since when there is no record at quietAt or above, however often it was
	// looked for.
	quietAt    int64
	quietSince time.Time
}

// awaiting is a wait for a record at next or above.
type awaiting struct {
	next int64
	stop func()
}

const (
	// liteBytes is how much one read of a lite topic returns at most.
	liteBytes = 64 << 10
	// liteLookAhead is how many events an ordered lite topic holds back: there
	// is no other key whose turn it could be.
	liteLookAhead = 1
	// liteDoubt is after how long without a record a lite topic may be another
	// one: it may have expired and begun anew. Brokers take much longer.
	liteDoubt = 30 * time.Second
	// liteKey is the one key of an ordered lite topic.
	liteKey = 1
)

// ErrNoLites: the log has no lite topics.
var ErrNoLites = fmt.Errorf("lite topics are %w", storage.ErrUnsupported)

// errIsParent says that a topic holds lite topics, where one with events of its
// own is needed.
func errIsParent(topic string) error {
	return fmt.Errorf("topic %q is a parent of lite topics and has no events itself: subscribe to lite topics of it: %w", topic, storage.ErrTopicType)
}

// lites is the log's lite topics, or why there are none.
func (d *Dispatcher) liteLog() (storage.Liter, error) {
	if d.lites == nil {
		return nil, fmt.Errorf("backend %s: %w", d.backend.Name(), ErrNoLites)
	}
	return d.lites, nil
}

// holdsLites tells whether a topic is a parent of lite topics. One that is not
// there is not.
func (d *Dispatcher) holdsLites(ctx context.Context, topic string) (bool, error) {
	if d.lites == nil {
		return false, nil
	}
	info, err := d.backend.Topic(ctx, topic)
	if errors.Is(err, storage.ErrTopicNotFound) {
		return false, nil
	}
	return info.Lite, err
}

// readsLites tells whether the progress of a subscriber on a topic is that in
// lite topics.
func (d *Dispatcher) readsLites(topic string, sub offsetstore.Subscriber) (bool, error) {
	if d.lites == nil {
		return false, nil
	}
	raw, ok, err := d.store.GetRecord(subscribersSpace, recordKey(topic, sub))
	if err != nil || !ok {
		return false, err
	}
	var s Settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return false, fmt.Errorf("settings of subscriber %s of topic %q: %w (%w)", sub, topic, offsetstore.ErrCorrupt, err)
	}
	return s.Lite, nil
}

// poll reads records of a partition, or of a lite topic.
func (t *topic) poll(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
	if t.lite {
		return t.d.lites.PollLite(ctx, req, b)
	}
	return t.d.backend.Poll(ctx, req, b)
}

// bounds of a partition, or of a lite topic.
func (t *topic) bounds(ctx context.Context, partition string) (low, high int64, err error) {
	if t.lite {
		return t.d.lites.LiteBounds(ctx, t.name, partition)
	}
	return t.d.bounds(ctx, t.name, partition)
}

// wake makes the loop look for work, after the work is posted.
func (f *liteFeed) wake() {
	for {
		switch now := f.state.Load(); {
		case now == writerAgain:
			return
		case now == writerIdle && f.state.CompareAndSwap(now, writerBusy):
			go f.run()
			return
		case now == writerBusy && f.state.CompareAndSwap(now, writerAgain):
			return
		}
	}
}

// run is the loop's goroutine while there is something to do.
func (f *liteFeed) run() {
	for {
		f.state.Store(writerBusy)
		if f.work() {
			return // it stays busy: no other begins
		}
		if f.state.CompareAndSwap(writerBusy, writerIdle) {
			return
		}
	}
}

// work does what there is to do now; ended tells that nothing will follow.
func (f *liteFeed) work() (ended bool) {
	l := f.l
	l.turn(time.Now())
	for len(l.ready) > 0 {
		l.turn(time.Now())
	}
	if !l.alive() {
		f.end()
		return true
	}
	l.cache.evict(l.rearmost(), l.d.windowRoom(), l.d.freeChunk)
	f.arm()
	return false
}

// arm has the loop woken at its next deadline.
func (f *liteFeed) arm() {
	l := f.l
	switch {
	case l.next.IsZero():
		if l.timer != nil {
			l.timer.Stop()
		}
	case l.timer == nil:
		l.timer = time.AfterFunc(l.untilNext(), f.wake)
	default:
		l.timer.Reset(l.untilNext())
	}
}

func (f *liteFeed) end() {
	l := f.l
	f.forgetAwait()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cache.clear(l.d.freeChunk)
	l.t.forgetLite(l)
	close(l.done)
	l.d.wg.Done()
}

// want sees to it that the records from off on are read, unless that is the end
// and nothing has come since.
func (f *liteFeed) want(off int64) {
	if f.await == nil || f.await.next != off {
		f.l.fetch(off)
	}
}

// atEnd has the loop told when there is a record at next or above.
func (f *liteFeed) atEnd(next int64) {
	if f.await != nil && f.await.next == next {
		return
	}
	f.forgetAwait()
	if f.quietAt != next || f.quietSince.IsZero() {
		f.quietAt, f.quietSince = next, time.Now()
	}
	l, a := f.l, &awaiting{next: next}
	f.await = a
	a.stop = f.log.AwaitLite(l.t.name, l.partition, next, func() {
		l.post(event{kind: evCall, call: func() { f.arrived(a) }})
	})
}

// arrived gives those who wait for records another look.
func (f *liteFeed) arrived(a *awaiting) {
	if f.await != a {
		return // of before something else was awaited
	}
	f.forgetAwait()
	if now := time.Now(); now.Sub(f.quietSince) >= liteDoubt {
		f.l.proof.doubt(now)
	}
	f.l.feed()
}

// forgetAwait ends the wait. It may be called of a loop that is no lite topic's.
func (f *liteFeed) forgetAwait() {
	if f == nil || f.await == nil {
		return
	}
	f.await.stop()
	f.await = nil
}

// save tells the log up to where all who read the lite topic here have finished,
// after that has become durable. It may be called of a loop that is no lite
// topic's.
func (f *liteFeed) save() {
	if f == nil {
		return
	}
	low := int64(-1)
	for _, p := range f.l.parts {
		if n := p.told.next; low < 0 || n < low {
			low = n
		}
	}
	if low < 0 || low == f.saved {
		return
	}
	err := f.log.SeekLite(f.l.t.name, f.l.partition, low)
	if err != nil {
		if !errors.Is(err, storage.ErrClosed) {
			f.l.d.warn("pull offset of a lite topic could not be set", "topic", f.l.t.name, "lite", f.l.partition, "to", low, "error", err)
		}
		return
	}
	f.saved = low
}

// litePrinter tells lite topics from their earlier lives.
type litePrinter struct{ log storage.Liter }

// Fingerprint is that of the record at next - 1.
func (p litePrinter) Fingerprint(ctx context.Context, parent, lite string, next int64) (f storage.Fingerprint, ok bool, err error) {
	var b storage.Batch
	err = p.log.PollLite(ctx, storage.PollRequest{Topic: parent, Partition: lite, Start: max(next-1, 0), MaxRecords: 1}, &b)
	var rng *storage.RangeError
	switch {
	case errors.As(err, &rng):
		return f, false, nil
	case err != nil:
		return f, false, err
	case len(b.Records) == 0 || b.Records[0].Offset != next-1:
		return f, false, nil
	}
	return b.Records[0].Fingerprint(), true, nil
}

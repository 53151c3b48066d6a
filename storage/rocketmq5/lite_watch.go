package rocketmq5

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/cursorfile"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// Brokers hold a pull at the end of a lite topic's own queue for up to 5 s after
// a message has come: nobody tells them. But each message lies in a queue of the
// parent too, where pulls are told at once, and it says which lite topic it is of.
// So one pull waits at each queue of a parent, however many lite topics are
// awaited; that the messages come over twice is what it costs.

const (
	// watchWait is how long a broker may hold a pull that watches.
	watchWait = 15 * time.Second
	// watchLook is how often it is looked for new queues of a parent, and
	// watchRetry how soon after that has failed.
	watchLook  = 10 * time.Second
	watchRetry = time.Second
	// liteIdle is for how long a lite topic must not have been read until what
	// is remembered of it is dropped, parentIdle how long a parent is watched
	// after its last lite topic.
	liteIdle   = time.Minute
	parentIdle = 2 * time.Minute
)

// lites are the lite topics of a log.
type lites struct {
	l       *Log
	port    litePort // nil: a port that a test has made without
	cursors *cursorfile.File

	mu      sync.Mutex
	parents map[string]*parentWatch
}

func newLites(l *Log) (*lites, error) {
	ls := &lites{l: l, cursors: cursorfile.InMemory(), parents: map[string]*parentWatch{}}
	ls.port, _ = l.port.(litePort)
	if l.opts.Dir == "" {
		return ls, nil
	}
	var err error
	ls.cursors, err = cursorfile.Open(l.opts.Dir, cursorfile.Options{Interval: l.opts.CheckpointInterval, Logger: l.opts.Logger})
	if err != nil {
		return nil, fmt.Errorf("rocketmq5: %w", err)
	}
	return ls, nil
}

// end saves the pull offsets. Nothing may use them any more. nil: there are none.
func (ls *lites) end() error {
	if ls == nil {
		return nil
	}
	return ls.cursors.Close()
}

// parentWatch watches the queues of a parent. Its lock is never held over a call.
type parentWatch struct {
	ls     *lites
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	ready  chan struct{} // closed once the queues that can be reached are watched

	watched map[queue]bool // of the goroutine that looks for queues
	warned  atomic.Bool    // of messages that are in no lite topic

	mu    sync.Mutex
	lites map[string]*liteState
	all   uint64 // how often messages may have come unseen
	used  time.Time
}

// liteState is what is known of a lite topic that is read here.
type liteState struct {
	broker string // which has it; empty: not known
	high   int64  // its end as it was told last
	// came counts the messages that the watch has seen; atEnd is came + all of
	// before a read that found nothing more.
	came, atEnd uint64
	awaits      map[*liteAwait]bool
	// due is the end that the watch has seen last, and when: a broker puts a
	// message into the parent's queue first, so a read may come too early.
	due   int64
	dueAt time.Time
	used  time.Time
	split bool // it was told that it is at two brokers
}

const (
	// unseenFor is how long a message that the watch has seen may be missing in
	// its lite topic before it is given up, unseenPause how long a read that came
	// too early waits.
	unseenFor   = 5 * time.Second
	unseenPause = 10 * time.Millisecond
)

// expect notes that a lite topic has, or will have at once, a message below end.
func (st *liteState) expect(end int64, now time.Time) {
	if now.Sub(st.dueAt) < unseenFor {
		end = max(end, st.due)
	}
	st.due, st.dueAt = end, now
}

// early tells whether a read that found nothing at an offset came too early.
func (st *liteState) early(offset int64, now time.Time) bool {
	return offset < st.due && now.Sub(st.dueAt) < unseenFor
}

// neverRead is liteState.atEnd before the first read.
const neverRead = math.MaxUint64

type liteAwait struct{ arrived func() }

// watch returns the watch of a parent. A call must be under way.
func (ls *lites) watch(parent string) *parentWatch {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w := ls.parents[parent]
	if w == nil {
		w = &parentWatch{ls: ls, name: parent, ready: make(chan struct{}), watched: map[queue]bool{}, lites: map[string]*liteState{}}
		w.ctx, w.cancel = context.WithCancel(ls.l.gate.Ending())
		ls.parents[parent] = w
		ls.l.wg.Go(w.run)
	}
	w.mu.Lock()
	w.used = time.Now()
	w.mu.Unlock()
	return w
}

// rest forgets lite topics, and parents, that nobody reads. nil: there are none.
func (ls *lites) rest(now time.Time) {
	if ls == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for name, w := range ls.parents {
		if w.rest(now) {
			w.cancel()
			delete(ls.parents, name)
		}
	}
}

// rest tells whether nothing has been read for long.
func (w *parentWatch) rest(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, st := range w.lites {
		if len(st.awaits) == 0 && now.Sub(st.used) > liteIdle {
			delete(w.lites, name)
		}
	}
	return len(w.lites) == 0 && now.Sub(w.used) > parentIdle
}

// state is what is known of a lite topic; w.mu is held.
func (w *parentWatch) state(lite string) *liteState {
	st := w.lites[lite]
	if st == nil {
		st = &liteState{atEnd: neverRead, awaits: map[*liteAwait]bool{}}
		w.lites[lite] = st
	}
	st.used = time.Now()
	return st
}

// run looks for queues from time to time, and has each watched.
func (w *parentWatch) run() {
	first := true
	for {
		wait := watchLook
		if !w.look(first) {
			wait = watchRetry
		}
		if first {
			close(w.ready)
			first = false
		}
		if !pause(w.ctx, wait) {
			return
		}
	}
}

// look has queues watched that are not yet. It tells whether all are.
func (w *parentWatch) look(first bool) (all bool) {
	queues, err := w.ls.l.port.queues(w.ctx, w.name)
	if err != nil {
		return false
	}
	all = true
	for _, q := range queues {
		if w.watched[q] {
			continue
		}
		end, err := w.ls.port.end(w.ctx, q)
		if err != nil {
			all = false
			continue
		}
		w.watched[q] = true
		w.ls.l.wg.Go(func() { w.follow(q, end) })
		if !first { // what came before is not seen
			w.missed()
		}
	}
	return all
}

// follow waits at a queue for messages.
func (w *parentWatch) follow(q queue, next int64) {
	failures, lost := 0, 0
	for w.ctx.Err() == nil {
		wait := watchWait
		if failures > 0 {
			wait = 0 // to know at once when the broker is back
		}
		news, err := w.ls.port.watch(w.ctx, q, next, wait)
		if err != nil {
			if failures++; failures == 1 {
				w.ls.l.opts.Logger.Debug("lite topics are not watched", "parent", w.name, "queue", q.partition(), "error", err)
			}
			pause(w.ctx, session.Pause(failures))
			continue
		}
		next = news.next
		if news.lost || failures > 0 {
			w.missed()
		}
		failures = 0
		if lost++; !news.lost {
			lost = 0
		} else if lost > 1 { // it has told a place that it does not hold
			pause(w.ctx, session.Pause(lost))
		}
		w.came(q.broker, news.came)
		w.strayed(q.broker, news.stray)
	}
}

// strayed warns, once, of messages that no reader of lite topics will see.
func (w *parentWatch) strayed(broker string, lites []string) {
	if len(lites) == 0 || !w.warned.CompareAndSwap(false, true) {
		return
	}
	w.ls.l.opts.Logger.Warn("a broker has put messages into no lite topic: set enableLmq=true and enableMultiDispatch=true there, and have other programs send them one at a time, not in batches",
		"parent", w.name, "lite", lites[0], "broker", broker)
}

// came tells who awaits lite topics that messages have come for.
func (w *parentWatch) came(broker string, list []liteCame) {
	var tell []func()
	now := time.Now()
	w.mu.Lock()
	for _, one := range list {
		st := w.lites[one.lite]
		if st == nil {
			continue
		}
		st.came++
		w.settle(one.lite, st, broker)
		st.expect(one.end, now)
		tell = st.take(tell)
	}
	w.mu.Unlock()
	for _, arrived := range tell {
		arrived()
	}
}

// settle notes which broker has a lite topic. w.mu is held.
func (w *parentWatch) settle(name string, st *liteState, broker string) {
	switch {
	case st.broker == "":
		st.broker = broker
	case st.broker != broker && !st.split:
		st.split = true
		w.ls.l.opts.Logger.Warn("a lite topic has messages at two brokers: what is at the second is not read", "parent", w.name, "lite", name, "read", st.broker, "not_read", broker)
	}
}

// missed has everybody look: messages may have come unseen.
func (w *parentWatch) missed() {
	var tell []func()
	w.mu.Lock()
	w.all++
	for _, st := range w.lites {
		tell = st.take(tell)
	}
	w.mu.Unlock()
	for _, arrived := range tell {
		arrived()
	}
}

// take moves who waits to tell.
func (st *liteState) take(tell []func()) []func() {
	for a := range st.awaits {
		tell = append(tell, a.arrived)
	}
	clear(st.awaits)
	return tell
}

// await is AwaitLite.
func (ls *lites) await(parent, lite string, next int64, arrived func()) (stop func()) {
	_, leave, err := ls.l.enter(context.Background())
	if err != nil { // who reads it learns why
		arrived()
		return func() {}
	}
	defer leave()
	if ls.port == nil {
		arrived()
		return func() {}
	}
	w := ls.watch(parent)
	w.mu.Lock()
	st := w.state(lite)
	if st.came+w.all != st.atEnd || next < st.high {
		w.mu.Unlock()
		arrived()
		return func() {}
	}
	a := &liteAwait{arrived}
	st.awaits[a] = true
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(st.awaits, a)
	}
}

// read reads a lite topic.
func (ls *lites) read(ctx context.Context, req storage.PollRequest) (res litePull, err error) {
	req.Default(defaultPollRecords, defaultPollBytes)
	if ls.port == nil {
		return res, errNoPort("a read of lite topics")
	}
	w := ls.watch(req.Topic)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return res, ctx.Err()
	}
	w.mu.Lock()
	st := w.state(req.Partition)
	broker, high, seen := st.broker, st.high, st.came+w.all
	w.mu.Unlock()
	if broker == "" || req.Start > high { // a pull from beyond the end leaves a trace at the broker
		var low int64
		broker, low, high, err = ls.bounds(ctx, req.Topic, req.Partition)
		switch {
		case err != nil:
			return res, err
		case broker == "":
			res = litePull{next: req.Start}
			w.read(ctx, st, req, res, "", seen)
			return res, nil
		case req.Start < low || req.Start > high:
			return res, &storage.RangeError{Topic: req.Topic, Partition: req.Partition, Offset: req.Start, Min: low, Max: high}
		}
	}
	res, err = ls.port.readLite(ctx, broker, req.Topic, req.Partition, req.Start, req.MaxRecords)
	if err == nil && res.moved && res.high > 0 {
		err = &storage.RangeError{Topic: req.Topic, Partition: req.Partition, Offset: req.Start, Min: res.low, Max: res.high}
	}
	if err != nil {
		return res, err
	}
	w.read(ctx, st, req, res, broker, seen)
	return res, nil
}

// read notes what a read has told. One that came too early waits a moment, and
// has found no end.
func (w *parentWatch) read(ctx context.Context, st *liteState, req storage.PollRequest, res litePull, broker string, seen uint64) {
	w.mu.Lock()
	st.used = time.Now()
	if broker != "" {
		w.settle(req.Partition, st, broker)
		st.high = res.high
	}
	nothing := len(res.list) == 0 && res.next <= req.Start
	early := nothing && st.early(req.Start, st.used)
	if nothing && !early {
		st.atEnd = seen
	}
	w.mu.Unlock()
	if early {
		pause(ctx, unseenPause)
	}
}

// bounds asks for a lite topic: the broker that is known to have it, else all of
// the parent's. broker is empty where none has it.
func (ls *lites) bounds(ctx context.Context, parent, lite string) (broker string, low, high int64, err error) {
	if ls.port == nil {
		return "", 0, 0, errNoPort("a read of lite topics")
	}
	w := ls.watch(parent)
	w.mu.Lock()
	known := w.state(lite).broker
	w.mu.Unlock()
	queues, err := ls.l.port.queues(ctx, parent)
	if err != nil {
		return "", 0, 0, err
	}
	for _, name := range brokersOf(queues) {
		if known != "" && name != known {
			continue
		}
		l, h, err := ls.port.liteBounds(ctx, name, parent, lite)
		if err != nil {
			return "", 0, 0, err
		}
		if h > 0 {
			return name, l, h, nil
		}
	}
	return "", 0, 0, nil
}

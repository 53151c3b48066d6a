package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// popState is where a popped message is.
type popState uint8

const (
	popOpen      popState = iota // not finished: buffered, in flight, waiting
	popFinishing                 // finished in the commit under way
	popFinished                  // durably: to be acked at the broker
	popConfirmed                 // acked there; remembered for a while
)

// popped is a message that the broker has handed out to this feed.
type popped struct {
	off     int64 // out of the feed's sequence
	id      string
	rec     storage.Record // Partition and Offset are the broker's
	own     bool           // the frame's memory is its own, not a batch's
	size    int
	expires int64 // ms; 0: never
	to      string
	bad     error     // why its body is no frame
	history *popEntry // what it went through before; nil: nothing

	state  popState
	silent bool // finished by a rule that holds again when it comes again: no entry is needed

	handle any
	ver    int // raised with each new handle
	until  time.Time
	busy   bool // a call about its receipt is under way

	tries   int
	retryAt time.Time
	forget  time.Time
}

// feed is what a subscriber's loop has beside its part. Its methods are called
// by the loop's goroutine only, unless they say otherwise; some may be called on
// nil, which is a loop that reads by position.
type feed struct {
	l         *loop
	sub       offsetstore.Subscriber
	group     string
	prefix    string // of the keys of its entries
	invisible time.Duration
	refs      int // bindings; guarded by topic.mu

	seq   int64               // the next offset
	known map[string]popEntry // what is on disk, by id
	alone bool                // one message alone may have been in flight in the crash before
	byID  map[string]*popped
	at    map[int64]*popped
	open  []*popped // unfinished, by off
	queue []*popped // of these, not offered to the machine yet
	dirty bool      // deliveries for the first time are not on disk

	changes []popChange // of the commit under way
	acks    []*popped   // finished, to be acked at the broker
	acking  bool
	recent  []*popped // confirmed, to be forgotten

	unset     []string // ids whose entries are to go
	unsetting bool
	unsetAt   time.Time

	renewAt  time.Time
	renewing bool
	leaving  []*popped // to be released

	ctx    context.Context // of all calls
	cancel context.CancelFunc
	pop    context.Context // of the pop under way
	unpop  context.CancelFunc
	popErr int       // failures in a row
	idle   []func()  // to be called when no pop is under way
	endBy  time.Time // stopping: how long to wait for acks
	over   bool
	wg     sync.WaitGroup // calls
	calls  int
	stamp  [1]frame.Attribute
	swept  time.Time // when entries were last looked through for old ones
}

func newFeed(l *loop, sub offsetstore.Subscriber) *feed {
	f := &feed{
		l: l, sub: sub, group: GroupName(l.t.name, sub), prefix: popPrefix(l.t.name, sub),
		invisible: l.d.cfg.Invisible, byID: map[string]*popped{}, at: map[int64]*popped{}, known: map[string]popEntry{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

func (f *feed) metrics() *PopMetrics { return &f.l.d.Metrics.Pop }

func (f *feed) warn(msg string, args ...any) {
	f.l.d.warn(msg, append([]any{"topic", f.l.t.name, "subscriber", f.sub.String(), "group", f.group}, args...)...)
}

// begin makes the value that a part starts with: all offsets used before are
// done with, what is not finished comes again under new ones.
func (f *feed) begin(_ offsetstore.Key, v offsetstore.Value) (offsetstore.Value, error) {
	known, old, err := f.l.d.loadEntries(f.prefix, time.Now())
	if err != nil {
		return v, err
	}
	f.known = known
	f.forgetIDs(old)
	inFlight := 0
	for _, e := range known {
		if !e.finished && e.due == 0 {
			inFlight++
		}
	}
	f.alone = inFlight == 1
	f.seq = max(v.High, v.Position, f.seq)
	return offsetstore.Value{Epoch: v.Epoch, Position: f.seq, High: f.seq, Log: v.Log}, nil
}

// opened says that the part is there. High marks are not noted: what was
// delivered has an entry by its id.
func (f *feed) opened(p *part) {
	if f != nil {
		p.marked = 1<<63 - 1
	}
}

// turn does what is due. The loop calls it in each of its turns.
func (f *feed) turn(now time.Time) {
	f.renew(now)
	f.release()
	f.ack(now)
	f.purge(now)
	f.flushUnset(now)
	f.sweep(now)
	f.wantMore(now)
	if !f.l.stopping {
		return
	}
	if f.endBy.IsZero() {
		f.endBy = now.Add(popGrace)
		f.unpopNow()
	}
	if !now.Before(f.endBy) && !f.over {
		f.over = true
		f.cancel()
	}
	if !f.over {
		f.l.note(f.endBy)
	}
}

// busy tells whether the loop must go on although it is stopping.
func (f *feed) busy() bool {
	switch {
	case f == nil:
		return false
	case f.calls > 0:
		return true
	}
	return !f.over && (len(f.acks)+len(f.unset)+len(f.leaving) > 0 || f.unsetting)
}

// stop makes the loop end. It may be called from anywhere.
func (f *feed) stop() {
	l := f.l
	l.post(event{kind: evCall, call: func() {
		l.stopping = true
		for _, p := range l.parts {
			l.touch(p)
		}
	}})
}

// call runs fn, which is bounded by its context, and then done on the loop.
func (f *feed) call(fn func(ctx context.Context), done func(now time.Time)) {
	f.calls++
	f.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, popCall)
		defer cancel()
		fn(ctx)
		f.l.post(event{kind: evCall, call: func() {
			f.calls--
			done(time.Now())
		}})
	})
}

// end waits for all calls after the loop has ended, and gives back what arrived
// too late.
func (f *feed) end() {
	if f == nil {
		return
	}
	f.over = true
	f.cancel()
	f.wg.Wait()
	for _, ev := range f.l.take() {
		if ev.kind == evCall {
			ev.call()
		}
	}
	if len(f.open) > 0 {
		f.letGo()
	}
	f.forsake()
	var handles []any
	for _, q := range f.leaving {
		handles = append(handles, q.handle)
	}
	if len(handles) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), popGrace)
	defer cancel()
	if err := f.l.d.pop.Release(ctx, handles); err != nil {
		f.warn("popped records could not be released: they come again when their time is over", "records", len(handles), "error", err)
	}
}

// wantMore pops when the streams have room for more than is here.
func (f *feed) wantMore(now time.Time) {
	l := f.l
	p := l.parts[f.sub]
	if l.tail.busy || l.stopping || p == nil || len(p.atts) == 0 || l.frozen[f.sub] != nil {
		return
	}
	if len(f.acks) >= popUnacked { // the outcome of an ack brings the next turn
		return
	}
	room := f.room(p)
	if room <= 0 {
		return
	}
	if l.d.blocked() || l.d.memoryShort() && len(f.open) > 0 {
		l.note(now.Add(readRetry))
		return
	}
	if now.Before(l.tail.notTill) {
		l.note(l.tail.notTill)
		return
	}
	l.tail.busy = true
	f.pop, f.unpop = context.WithCancel(context.Background())
	l.tail.req <- storage.PollRequest{TopicID: l.topicID, MaxRecords: min(room, popMax), Wait: popWait}
}

// room is how many more records the streams take than are here for them. Where
// it is none the part is woken when there is some.
func (f *feed) room(p *part) int {
	if n := f.free(p); n > 0 {
		return n
	}
	for _, a := range p.atts {
		a.b.s.starve(a.b, p)
	}
	return max(0, f.free(p)) // some may have come before the part was to be woken
}

// free is how many more records the streams take; below 0: fewer than are here.
func (f *feed) free(p *part) int {
	n := -len(f.queue) - p.m.Pressing()
	for _, a := range p.atts {
		n += a.b.s.free(a.b)
	}
	return n
}

// starve has p woken when the binding has more room, or enough where it lacks some.
func (s *Stream) starve(b *binding, p *part) {
	s.mu.Lock()
	if !b.gone && !s.ending && !b.lacksRoom(p) {
		b.starve(p)
	}
	s.mu.Unlock()
}

// unpopNow ends a pop that waits at the broker.
func (f *feed) unpopNow() {
	if f.l.tail.busy {
		f.unpop()
	}
}

// read pops. It runs on the tailer's goroutine.
func (f *feed) read(ctx context.Context, req storage.PollRequest) {
	stop := context.AfterFunc(ctx, f.unpop)
	defer stop()
	b := &storage.Batch{} // its memory is the records' as long as they are held
	err := f.l.d.pop.Pop(f.pop, storage.PopRequest{
		Topic: f.l.t.name, TopicID: req.TopicID, Group: f.group, Max: req.MaxRecords, Invisible: f.invisible, Wait: req.Wait,
	}, b)
	f.unpop()
	f.l.d.Metrics.Reads.Add(1)
	f.l.post(event{kind: evCall, call: func() { f.arrived(b, err, time.Now()) }})
}

// arrived takes in what was popped.
func (f *feed) arrived(b *storage.Batch, err error, now time.Time) {
	f.l.tail.busy = false
	if err != nil {
		f.popFailed(err, now)
	} else {
		f.popErr = 0
		expires, to := survey(b)
		sortByPartition(b, expires, to)
		for i := range b.Records {
			q := f.take(&b.Records[i], now)
			if q != nil && expires != nil {
				q.expires = expires[i]
			}
			if q != nil && to != nil {
				q.to = to[i]
			}
		}
	}
	for _, fn := range f.idle {
		fn()
	}
	f.idle = nil
	if p := f.l.parts[f.sub]; p != nil {
		f.l.enlist(p)
	}
}

// take takes in one record; nil: it was here before.
func (f *feed) take(rec *storage.Record, now time.Time) *popped {
	f.metrics().Popped.Add(1)
	until := now.Add(f.invisible)
	if q := f.byID[rec.ID]; q != nil {
		f.joined(q, rec, until)
		return nil
	}
	q := &popped{id: rec.ID, rec: *rec, size: len(rec.Frame), handle: rec.Handle, until: until}
	f.byID[q.id] = q
	e, seen := f.known[q.id]
	if seen && e.finished {
		f.metrics().Finished.Add(1)
		q.rec = storage.Record{Partition: rec.Partition, Offset: rec.Offset}
		f.toAck(q)
		return nil
	}
	if seen {
		q.history = &e
	}
	_, q.bad = frame.Parse(q.rec.Frame)
	q.off = f.seq
	f.seq++
	f.at[q.off] = q
	f.open = append(f.open, q)
	f.queue = append(f.queue, q)
	f.metrics().Held.Add(1)
	f.l.d.Metrics.WindowBytes.Add(int64(q.size))
	return q
}

// joined takes in a record that is here already: its old receipt has run out.
func (f *feed) joined(q *popped, rec *storage.Record, until time.Time) {
	q.handle, q.until = rec.Handle, until
	q.ver++
	if q.state < popFinished {
		f.metrics().Joined.Add(1)
		return
	}
	f.metrics().Finished.Add(1)
	if q.state == popConfirmed {
		f.toAck(q)
		return
	}
	q.tries, q.retryAt = 0, time.Time{}
}

// popFailed waits a while after a pop that failed, longer each time.
func (f *feed) popFailed(err error, now time.Time) {
	f.popErr++
	wait := backoffOf(f.popErr)
	f.l.tail.notTill = now.Add(wait)
	f.l.note(f.l.tail.notTill)
	switch {
	case errors.Is(err, storage.ErrClosed), errors.Is(err, context.Canceled):
	case errors.Is(err, storage.ErrGroupNotFound):
		f.l.readFailed("pop", err)
		f.openAgain()
	case errors.Is(err, storage.ErrTopicChanged):
		f.l.t.changed()
	default:
		f.l.readFailed("pop", err)
	}
}

// backoffOf is the wait after the n-th failure in a row.
func backoffOf(n int) time.Duration {
	return min(readRetry<<min(n-1, 10), popLongestRetry)
}

// openAgain makes the group anew that somebody removed at the broker: at its
// minimum, because nothing may be skipped.
func (f *feed) openAgain() {
	p := f.l.parts[f.sub]
	if p == nil {
		return
	}
	spec := f.l.d.groupSpec(f.l.t.name, f.sub, p.sub.settings, nil, true)
	var err error
	f.call(func(ctx context.Context) { _, err = f.l.d.pop.OpenGroup(ctx, spec) }, func(time.Time) {
		if err != nil {
			f.warn("the group is gone at the broker and could not be made again, trying again", "error", err)
			return
		}
		f.warn("the group was gone at the broker and begins anew at the minimum")
	})
}

// sortByPartition orders what was popped by partition, so that what is sent in
// one run lies together; within one the order stays.
func sortByPartition(b *storage.Batch, expires []int64, to []string) {
	s := popSort{b.Records, expires, to}
	for i := 1; i < len(s.recs); i++ {
		if s.recs[i].Partition < s.recs[i-1].Partition {
			s.sort()
			return
		}
	}
}

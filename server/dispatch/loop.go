package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// eventKind says what happened.
type eventKind uint8

const (
	evAck eventKind = iota
	evNack
	evExtend
	evHanded
	evCredit
	evCommitted
	evChunk
	evCall
)

// event is something that happened to a partition.
type event struct {
	kind   eventKind
	dead   bool
	p      *part
	b      *binding
	stream *Stream
	first  uint64
	mask   uint64
	epoch  uint64
	by     time.Duration
	reason string
	err    error
	fates  []error // of a commit in several transactions
	chunk  *fetched
	call   func()
}

// tickEvery is the coarseness of deadlines.
const tickEvery = 50 * time.Millisecond

// turnBatches is how many batches one part may send before others have a turn.
const turnBatches = 4

// loop runs one partition: a goroutine that owns the window of records and the
// delivery machines of all subscribers. Everything reaches it as an event.
type loop struct {
	d         *Dispatcher
	t         *topic
	partition string

	mu       sync.Mutex
	inbox    []event
	signaled bool
	wakeup   chan struct{}
	stopping bool

	// Owned by the goroutine.
	complained time.Time // when it was last logged that the log cannot be read
	unsaid     int       // failures since then
	topicID    string    // the identity that the topic is expected to have
	parts      map[offsetstore.Subscriber]*part
	ready      []*part
	hungry     []*part
	touched    []*part
	spare      []event
	cache      cache
	tail       tailer
	fetches    map[int64]bool // catch-up reads under way, by start; false: not to be used
	proof      proof
	fetchAt    time.Time // no catch-up read before, after an error
	next       time.Time // earliest deadline of all parts
	doubts     bool      // a part's position is above the log's end, as far as is known
	undead     []undead
	graves     []grave // dead letters to be written
	digging    int     // how many are being written
	frozen     map[offsetstore.Subscriber]*freeze
	timer      *time.Timer
	enc        encoder
	pop        *feed     // of a log that hands records out; nil: read by position
	lite       *liteFeed // of a lite topic; nil: of a partition
	done       chan struct{}
}

func newLoop(t *topic, partition string) *loop {
	l := &loop{
		d: t.d, t: t, partition: partition,
		wakeup:  make(chan struct{}, 1),
		parts:   map[offsetstore.Subscriber]*part{},
		fetches: map[int64]bool{},
		frozen:  map[offsetstore.Subscriber]*freeze{},
		done:    make(chan struct{}),
	}
	l.proof = newProof(l)
	l.tail = tailer{l: l, req: make(chan storage.PollRequest, 1), done: make(chan struct{})}
	return l
}

// post hands the loop an event. It never blocks.
func (l *loop) post(ev event) {
	l.mu.Lock()
	l.inbox = append(l.inbox, ev)
	first := !l.signaled
	l.signaled = true
	l.mu.Unlock()
	switch {
	case !first:
	case l.lite != nil:
		l.lite.wake()
	default:
		select {
		case l.wakeup <- struct{}{}:
		default:
		}
	}
}

// call runs fn on the loop and waits for it, or for ctx or the loop's end.
func (l *loop) call(ctx context.Context, fn func()) error {
	done := make(chan struct{})
	l.post(event{kind: evCall, call: func() { fn(); close(done) }})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return errLoopEnded
	}
}

// stop makes the loop end once every part is gone.
func (l *loop) stop() {
	l.post(event{kind: evCall, call: func() { l.stopping = true }})
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.done)
	tailCtx, stopTail := context.WithCancel(context.Background())
	go l.tail.run(tailCtx)
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	for l.alive() {
		if len(l.ready) == 0 {
			l.wait()
		}
		l.turn(time.Now())
	}
	stopTail()
	<-l.tail.done
	l.pop.end()
	l.cache.clear(l.d.freeChunk)
}

// alive tells whether the loop has something to do still, or may get it.
func (l *loop) alive() bool { return !l.stopping || len(l.parts) > 0 || l.pop.busy() }

// wait sleeps until there is an event or a deadline.
func (l *loop) wait() {
	l.armTimer()
	select {
	case <-l.wakeup:
		l.timer.Stop()
	case <-l.timer.C:
	}
}

func (l *loop) armTimer() {
	wait := time.Hour
	if !l.next.IsZero() {
		wait = l.untilNext()
	}
	l.timer.Reset(wait)
}

// untilNext is how long it is to the next deadline.
func (l *loop) untilNext() time.Duration {
	return (max(time.Until(l.next), 0) + tickEvery - 1).Truncate(tickEvery)
}

// turn takes what happened, lets time pass, sends, and commits.
func (l *loop) turn(now time.Time) {
	for _, ev := range l.take() {
		l.apply(ev, now)
	}
	if !l.next.IsZero() && !now.Before(l.next) {
		l.tick(now)
	}
	l.refetch(now)
	l.proof.again(now)
	l.revive(now)
	l.serveReady(now)
	l.settle(now)
	l.tidy()
	l.readAhead()
}

// refetch lets those who wait for a held-back read ask again.
func (l *loop) refetch(now time.Time) {
	switch {
	case l.fetchAt.IsZero():
	case now.Before(l.fetchAt):
		l.note(l.fetchAt)
	default:
		l.fetchAt = time.Time{}
		l.feed()
	}
}

// take empties the inbox. The slice is valid until the next call.
func (l *loop) take() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signaled {
		l.signaled = false
		select {
		case <-l.wakeup:
		default:
		}
	}
	evs := l.inbox
	clear(l.spare)
	l.inbox, l.spare = l.spare[:0], evs
	return evs
}

func (l *loop) apply(ev event, now time.Time) {
	switch ev.kind {
	case evAck, evNack, evExtend:
		l.answered(ev, now)
	case evHanded:
		if ev.p.attachmentOf(ev.stream) != nil {
			ev.p.m.Handed(now, ev.stream.id, ev.first)
			l.touch(ev.p)
		}
	case evCredit:
		if a := ev.p.attachmentOf(ev.stream); a != nil {
			a.asked = false
		}
		l.enlist(ev.p)
	case evCommitted:
		l.committed(ev.p, ev.err, ev.fates, now)
	case evChunk:
		l.arrived(ev.chunk, now)
	case evCall:
		ev.call()
	}
}

// enlist puts a part among those to be served.
func (l *loop) enlist(p *part) {
	if !p.queued && len(p.atts) > 0 {
		p.queued = true
		l.ready = append(l.ready, p)
	}
}

// touch puts a part among those whose commits and deadline are looked at.
func (l *loop) touch(p *part) {
	if !p.touched {
		p.touched = true
		l.touched = append(l.touched, p)
	}
}

// answered feeds an ack, nack or extension to the machine.
func (l *loop) answered(ev event, now time.Time) {
	p, final := ev.p, ev.kind != evExtend
	if f := l.frozen[p.key.Subscriber]; f != nil {
		f.deferred = append(f.deferred, ev)
		return
	}
	if !final {
		ev.stream.extendTaken()
	}
	if l.parts[p.key.Subscriber] != p || ev.epoch != p.m.Epoch() {
		if final {
			l.d.trace(ev.first, ev.mask, FateStale)
			ev.stream.tell(StatusStale, ev.first, ev.mask, true)
		}
		return
	}
	switch ev.kind {
	case evAck:
		l.d.trace(ev.first, ev.mask, FateAck)
		out := p.m.Ack(now, ev.stream.id, ev.first, ev.mask)
		l.d.trace(ev.first, out.Done, FateDurable)
		l.tellNow(ev, out.Done, out.Unknown)
		p.lastAck = now
	case evNack:
		l.d.trace(ev.first, ev.mask, FateNacked)
		out := p.m.Nack(now, ev.stream.id, ev.first, ev.mask, ev.by, ev.dead, ev.reason)
		p.m.WaitAtMost(ev.stream.id, ev.first, ev.mask, func(off int64) (time.Duration, bool) { return l.lives(off, now) })
		l.tellNow(ev, out.Done, out.Unknown)
	case evExtend:
		p.m.Extend(now, ev.stream.id, ev.first, ev.mask, ev.by)
	}
	l.touch(p)
	l.enlist(p)
}

func (l *loop) tellNow(ev event, done, unknown uint64) {
	if done != 0 {
		ev.stream.tell(StatusDurable, ev.first, done, true)
	}
	if unknown != 0 {
		ev.stream.tell(StatusUnknown, ev.first, unknown, true)
	}
}

// tick lets time pass for every part that has a deadline.
func (l *loop) tick(now time.Time) {
	l.next = time.Time{}
	for _, p := range l.parts {
		if !p.deadline.IsZero() && !now.Before(p.deadline) {
			l.tickPart(p, now)
		}
		l.note(p.deadline)
	}
}

func (l *loop) tickPart(p *part, now time.Time) {
	for _, g := range p.m.Tick(now) {
		if a := p.attachmentByID(g.Stream); a != nil {
			l.d.trace(g.First, g.Mask, FateTimeout)
			a.b.s.expired(g.First, g.Mask)
			l.d.Metrics.Timeouts.Add(int64(onesCount(g.Mask)))
		}
	}
	p.deadline = time.Time{}
	l.touch(p)
	l.enlist(p)
}

// note brings the loop's next deadline forward to t.
func (l *loop) note(t time.Time) {
	if !t.IsZero() && (l.next.IsZero() || t.Before(l.next)) {
		l.next = t
	}
}

// serveReady gives each part that wants to send a turn.
func (l *loop) serveReady(now time.Time) {
	n := len(l.ready)
	for i := 0; i < n; i++ {
		p := l.ready[i]
		p.queued = false
		if l.parts[p.key.Subscriber] == p && l.serve(p, now) {
			l.enlist(p)
		}
		l.touch(p)
	}
	rest := copy(l.ready, l.ready[n:])
	clear(l.ready[rest:])
	l.ready = l.ready[:rest]
}

// settle looks after the parts that changed: commits, dead letters, deadlines.
func (l *loop) settle(now time.Time) {
	for i := 0; i < len(l.touched); i++ {
		p := l.touched[i]
		p.touched = false
		if l.parts[p.key.Subscriber] != p {
			continue
		}
		l.bury(p, now)
		if l.frozen[p.key.Subscriber] == nil {
			l.takeTurn(p, now)
		}
		l.commit(p, now)
		l.schedule(p, now)
		l.retire(p, now)
	}
	clear(l.touched)
	l.touched = l.touched[:0]
}

// schedule notes when the part needs its next look.
func (l *loop) schedule(p *part, now time.Time) {
	p.deadline = time.Time{}
	if t, ok := p.m.Deadline(); ok {
		p.deadline = t
	}
	if l.frozen[p.key.Subscriber] == nil { // else the thaw brings the look
		for _, at := range []time.Time{p.retryAt, p.turn.again} {
			if !at.IsZero() && (p.deadline.IsZero() || at.Before(p.deadline)) {
				p.deadline = at
			}
		}
	}
	l.note(p.deadline)
}

// retire drops a part that no stream holds and that has nothing to commit, nor,
// for a while, dead letters under way.
func (l *loop) retire(p *part, now time.Time) {
	if len(p.atts) > 0 || p.committing || (p.unsaved() && !p.lost) || l.frozen[p.key.Subscriber] != nil {
		return
	}
	if p.burials.graves > 0 && now.Before(p.leftAt.Add(digPatience)) {
		p.deadline = p.leftAt.Add(digPatience)
		l.note(p.deadline)
		return
	}
	if l.pop != nil && !l.stopping {
		return // a stream is on its way
	}
	delete(l.parts, p.key.Subscriber)
	l.leaveTurn(p, now)
	l.digOn() // the others' turn, if it had too much that was not noted
	l.pop.letGo()
}

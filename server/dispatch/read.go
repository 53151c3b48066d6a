package dispatch

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

const (
	// pollBytes is how much one read of the log returns at most.
	pollBytes = 256 << 10
	// pollWait is how long a read waits for a record at the end of the log.
	pollWait = 30 * time.Second
	// aheadChunks is how many chunks are read ahead of the subscribers.
	aheadChunks = 3
	// catchUps bounds the reads behind the window that one partition has
	// under way.
	catchUps = 2
	// readRetry is how long a partition waits after a read that failed.
	readRetry = 200 * time.Millisecond
)

// fetched is the outcome of one read.
type fetched struct {
	req   storage.PollRequest
	batch *storage.Batch
	err   error
}

// tailer reads at the backend's own cursor, one read at a time, on demand.
type tailer struct {
	l    *loop
	req  chan storage.PollRequest
	done chan struct{}

	// Owned by the loop.
	busy    bool
	started bool
	next    int64     // the cursor as the loop knows it
	notTill time.Time // no read before, after an error
}

// run is the tailer's goroutine.
func (t *tailer) run(ctx context.Context) {
	defer close(t.done)
	busy := false // the last read brought much: so will the next
	for {
		select {
		case <-ctx.Done():
			return
		case req := <-t.req:
			b := &storage.Batch{} // thousands wait for records that do not come: with little in their hands
			if busy {
				b = t.l.d.newBatch()
			}
			busy = t.l.d.read(ctx, t.l, req, b) >= pollBytes/8
		}
	}
}

// read polls into a chunk, which is in b, and posts it. It returns how many bytes
// were read.
func (d *Dispatcher) read(ctx context.Context, l *loop, req storage.PollRequest, b *storage.Batch) int {
	if l.pop != nil {
		l.pop.read(ctx, req)
		return 0
	}
	err := l.t.poll(ctx, req, b)
	d.Metrics.Reads.Add(1)
	f := &fetched{req: req, batch: b, err: err}
	n := len(b.Buf) // the loop's from here on
	l.post(event{kind: evChunk, chunk: f})
	return n
}

// survey tells when a record expires, 0: never, and to whom it is addressed, "": to
// all.
func survey(rec *storage.Record) (expires int64, to string) {
	v := frame.View(rec.Frame)
	if rec.Plain || !v.HasOwn() {
		return 0, ""
	}
	for name, value := range v.Attributes() {
		switch string(name) {
		case frame.AttrTTL:
			// Who knows no time of append has no end of a life either.
			if ms, ok := frame.ParseTTL(value); ok && rec.Time > 0 {
				expires = rec.Time + min(ms, math.MaxInt64-rec.Time)
			}
		case frame.AttrToSubscriber:
			to = string(value)
		}
	}
	return expires, to
}

// surveyAll surveys all records of a batch; nil: none expires, or is addressed.
func surveyAll(b *storage.Batch) (expires []int64, to []string) {
	c := chunk{batch: b}
	c.survey(len(b.Records) - 1)
	return c.expires, c.to
}

// at sets element i of a list that is made when the first is set.
func at[T any](list []T, i, n int, v T) []T {
	if list == nil {
		list = make([]T, n)
	}
	list[i] = v
	return list
}

// hunger puts a part among those to be served when records arrive.
func (l *loop) hunger(p *part) {
	if !p.waiting {
		p.waiting = true
		l.hungry = append(l.hungry, p)
	}
}

// wantRecords sees to it that the records from off on are read.
func (l *loop) wantRecords(p *part, off int64) {
	l.hunger(p)
	switch {
	case l.lite != nil:
		l.lite.want(off)
	case !l.tail.started || off > l.tail.next:
		l.seek(off)
	case off < l.tail.next:
		l.fetch(off)
	}
}

// seek moves the tail: someone is further than anyone has read.
func (l *loop) seek(off int64) {
	if l.tail.busy {
		return // it returns within pollWait or with a record, then we are asked again
	}
	if time.Until(l.fetchAt) > 0 {
		l.note(l.fetchAt)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.d.backend.Seek(ctx, l.t.name, l.partition, off); err != nil {
		l.readFailed("seek", err)
		l.holdReads(false, time.Now().Add(readRetry))
		return
	}
	l.tail.next, l.tail.started = off, true
}

// readAhead keeps the tail read while subscribers are near it.
func (l *loop) readAhead() {
	if l.pop != nil {
		l.pop.turn(time.Now())
		return
	}
	if l.tail.busy || !l.tail.started || len(l.parts) == 0 {
		return
	}
	if l.cache.ahead(l.foremost()) >= l.d.aheadChunks() || l.mustWait() {
		return
	}
	if wait := time.Until(l.tail.notTill); wait > 0 {
		l.note(l.tail.notTill)
		return
	}
	l.tail.busy = true
	l.tail.req <- storage.PollRequest{
		Topic: l.t.name, Partition: l.partition, TopicID: l.topicID, Start: storage.Cursor,
		MaxBytes: l.d.readBytes(), Wait: pollWait,
	}
}

// foremost is the highest offset that any part has come to.
func (l *loop) foremost() int64 {
	high := int64(0)
	for _, p := range l.parts {
		high = max(high, p.m.NextNew())
	}
	return high
}

// rearmost is the lowest offset that any part may read next.
func (l *loop) rearmost() int64 {
	low := int64(-1)
	for _, p := range l.parts {
		n := p.m.NextNew()
		if items := p.m.Next(1); len(items) > 0 {
			n = min(n, items[0].Offset)
		}
		if low < 0 || n < low {
			low = n
		}
	}
	return low
}

// fetch reads behind the tail for those who are there.
func (l *loop) fetch(off int64) {
	if _, busy := l.fetches[off]; busy || len(l.fetches) >= catchUps || l.mustWait() {
		return
	}
	if time.Until(l.fetchAt) > 0 {
		l.note(l.fetchAt)
		return
	}
	l.fetches[off] = true
	bytes := l.d.readBytes()
	if l.lite != nil {
		bytes = min(bytes, liteBytes)
	}
	l.d.catchUp(l, storage.PollRequest{
		Topic: l.t.name, Partition: l.partition, TopicID: l.topicID, Start: off, MaxBytes: bytes,
	})
}

// arrived takes in what was read.
func (l *loop) arrived(f *fetched, now time.Time) {
	tail := f.req.Start == storage.Cursor
	stale := f.req.TopicID != l.topicID // of a topic that was deleted since
	if tail {
		l.tail.busy = false
	} else {
		stale = stale || !l.fetches[f.req.Start]
		delete(l.fetches, f.req.Start)
	}
	if stale {
		l.d.freeBatch(f.batch)
		l.feed()
		return
	}
	if f.err != nil {
		l.d.freeBatch(f.batch)
		l.readError(f, tail, now)
		l.feed()
		return
	}
	l.believe(f.batch.Next, now)
	l.proof.arriving(f.batch, tail || l.lite != nil, now)
	l.takeChunk(f, tail)
	l.feed()
}

// grow counts memory that a chunk of the window has taken since it was inserted.
func (l *loop) grow(bytes int) {
	if bytes > 0 {
		l.cache.bytes += bytes
		l.d.Metrics.WindowBytes.Add(int64(bytes))
	}
}

func (l *loop) takeChunk(f *fetched, tail bool) {
	b := f.batch
	start := f.req.Start
	if tail {
		start = b.Start
		l.tail.next = b.Next
	}
	if b.Next <= start {
		l.d.freeBatch(b)
		switch {
		case l.lite != nil:
			l.lite.atEnd(start)
		case !tail: // nothing there yet: the tail is where it goes on
			l.fetchAt = time.Now().Add(readRetry)
			l.note(l.fetchAt)
		}
		return
	}
	c := &chunk{start: start, next: b.Next, batch: b}
	if !l.d.admit(c) {
		l.d.freeBatch(b)
		l.shortOfMemory() // it is read again
		return
	}
	if !l.cache.insert(c) {
		l.d.freeChunk(c)
		return
	}
	l.cache.evict(l.rearmost(), l.d.windowRoom(), l.d.freeChunk)
}

// feed gives everyone who waits for records another look.
func (l *loop) feed() {
	for i, p := range l.hungry {
		p.waiting = false
		l.hungry[i] = nil
		if l.parts[p.key.Subscriber] == p {
			l.enlist(p)
		}
	}
	l.hungry = l.hungry[:0]
}

// readError sees what a failed read means.
func (l *loop) readError(f *fetched, tail bool, now time.Time) {
	var rng *storage.RangeError
	switch {
	case errors.Is(f.err, storage.ErrClosed), errors.Is(f.err, context.Canceled):
		l.holdReads(tail, now.Add(readRetry))
	case errors.As(f.err, &rng):
		l.outOfRange(rng, tail, now)
	case errors.Is(f.err, storage.ErrTopicChanged):
		l.t.changed()
		l.holdReads(tail, now.Add(readRetry))
	default:
		l.proof.shaken = l.proof.shaken || tail || l.lite != nil
		l.readFailed("read", f.err)
		l.holdReads(tail, now.Add(readRetry))
	}
}

func (l *loop) holdReads(tail bool, until time.Time) {
	if tail {
		l.tail.notTill = until
	} else {
		l.fetchAt = until
	}
	l.note(until)
}

// complainEvery is how often a loop says that the log cannot be read.
const complainEvery = 10 * time.Second

// readFailed counts a failure, and logs it unless it has logged one just now.
func (l *loop) readFailed(what string, err error) {
	l.d.Metrics.ReadFailures.Add(1)
	now := time.Now()
	if !l.complained.IsZero() && now.Sub(l.complained) < complainEvery {
		l.unsaid++
		return
	}
	l.d.warn("log could not be read", "op", what, "topic", l.t.name, "partition", l.partition, "error", err, "failures_not_logged", l.unsaid)
	l.complained, l.unsaid = now, 0
}

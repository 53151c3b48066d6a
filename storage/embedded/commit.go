package embedded

import (
	"fmt"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
)

// commitBytes is where a commit ends though more waits, so that the first of
// many need not wait for all.
const commitBytes = 4 << 20

// committer is the state of the one goroutine that writes.
type committer struct {
	dedup *dedup
	ticks ticks
	batch seglog.Batch
	index segmentIndex // of the segment that is written to

	// Of the present commit.
	now     int64 // ms
	tick    int64 // ms, of the window of duplicates
	parts   []*partition
	runs    []newRun
	added   []dedupKey
	records int
	frames  int // bytes of the frames
	copies  int // duplicates
}

// partBatch is what a commit puts into one partition.
type partBatch struct {
	refs  []eventRef
	next  int64
	keyed bool
}

// eventRef is an event of a pending Append.
type eventRef struct {
	p *pending
	i int
}

// newRun is a run of the present commit; its position counts from the batch.
type newRun struct {
	part *partition
	ref  runRef
}

// runCommitter writes what is appended until the log closes.
func (l *Log) runCommitter() {
	for {
		items, more := l.queue.take()
		if !more {
			return
		}
		for len(items) > 0 {
			n, bytes := 1, items[0].bytes
			for n < len(items) && bytes+items[n].bytes <= commitBytes {
				bytes += items[n].bytes
				n++
			}
			l.commit(items[:n])
			l.queue.release(bytes)
			items = items[n:]
		}
	}
}

// commit writes some appends at once, and answers them. After an error nothing
// of them has happened: no offset is used, no key remembered.
func (l *Log) commit(items []*pending) {
	c := &l.commits
	err := l.writable()
	if err == nil {
		c.gather(items, l.opts.Now().UnixMilli())
		err = l.write(c)
	}
	if err != nil {
		l.opts.Observe.commitFailed(err)
		c.forget()
	} else {
		l.publish(c)
		l.opts.Observe.duplicate(c.copies)
	}
	c.reset()
	for _, p := range items {
		p.answer(err)
	}
}

// gather gives every event its place.
func (c *committer) gather(items []*pending, now int64) {
	c.now, c.tick = now, c.ticks.at(now)
	for _, p := range items {
		p.results = make([]storage.Appended, len(p.events))
		for i := range p.events {
			c.put(p, i)
		}
	}
}

func (c *committer) put(p *pending, i int) {
	r := &p.results[i]
	if p.topic.gone.Load() {
		r.Err = fmt.Errorf("embedded log: %w: %q", storage.ErrTopicNotFound, p.topic.name)
		return
	}
	k := p.key(i)
	if k != (dedupKey{}) {
		if at, ok := c.dedup.find(k, c.tick); ok {
			*r = storage.Appended{Partition: p.topic.names[at.part], Offset: at.offset, Duplicate: true}
			c.copies++
			return
		}
	}
	part := p.topic.parts[p.parts[i]]
	b := &part.batch
	if len(b.refs) == 0 {
		b.next = part.next // written by this goroutine only
		c.parts = append(c.parts, part)
	}
	*r = storage.Appended{Partition: part.name, Offset: b.next}
	b.refs = append(b.refs, eventRef{p, i})
	b.next++
	c.records++
	c.frames += len(p.events[i].Frame)
	if k != (dedupKey{}) {
		b.keyed = true
		c.dedup.add(k, place{offset: r.Offset, time: c.tick, part: part.num})
		c.added = append(c.added, k)
	}
}

// write builds the runs and puts them into the log, synced.
func (l *Log) write(c *committer) error {
	if c.records == 0 {
		return nil
	}
	_, end := l.seg.Bounds()
	size := c.frames + c.records*(4+keyLen) + (len(c.parts)+c.frames/(runBytes/2)+1)*(seglog.EntryHeader+runHead+8)
	c.batch.Reset(l.tail.room(end, size))
	for _, p := range c.parts {
		c.buildRuns(p)
	}
	began := time.Now()
	if _, err := l.seg.Write(&c.batch); err != nil {
		return fmt.Errorf("embedded log: %w: %w", storage.ErrReadOnly, err)
	}
	l.opts.Observe.commit(time.Since(began), c.records, c.batch.Len())
	return nil
}

func (c *committer) buildRuns(p *partition) {
	first := p.next
	for refs := p.batch.refs; len(refs) > 0; {
		n, bytes := 1, refs[0].len()
		for n < len(refs) && bytes+refs[n].len() <= runBytes {
			bytes += refs[n].len()
			n++
		}
		c.buildRun(p, refs[:n], first, bytes)
		first += int64(n)
		refs = refs[n:]
	}
}

func (r eventRef) len() int { return len(r.p.events[r.i].Frame) }

func (c *committer) buildRun(p *partition, refs []eventRef, first int64, bytes int) {
	h := runHeader{topic: p.topic.num, part: p.num, first: first, time: max(p.lastTime, c.now), count: len(refs), keyed: p.batch.keyed}
	meta, body, at := c.batch.Add(runMetaLen(h.count, h.keyed), bytes)
	h.put(meta)
	end := 0
	for i, r := range refs {
		end += copy(body[end:], r.p.events[r.i].Frame)
		putEnd(meta, i, end)
		if h.keyed {
			h.putKey(meta, i, r.p.key(r.i))
		}
	}
	ref := runRef{first: first, time: h.time, pos: int64(at), count: h.count, size: c.batch.Len() - at}
	c.runs = append(c.runs, newRun{p, ref})
}

// publish makes the commit readable and wakes who waits for it.
func (l *Log) publish(c *committer) {
	if c.records == 0 {
		return
	}
	_, end := l.seg.Bounds()
	begin := end - int64(c.batch.Len())
	l.tail.keep(c.batch.Bytes())
	c.index.follow(l)
	for _, r := range c.runs {
		r.ref.pos += begin
		c.index.add(r)
		r.part.grow(r.ref)
	}
	l.readable.Store(end)
	l.cursors.dirty.Store(true) // the end is noted there
	for _, p := range c.parts {
		p.mu.Lock()
		p.wake()
		p.mu.Unlock()
	}
}

// grow adds a committed run.
func (p *partition) grow(r runRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.topic.gone.Load() {
		p.runs.add(r)
	}
	p.next, p.lastTime = r.end(), r.time
}

// forget takes back the keys of a commit that failed.
func (c *committer) forget() {
	for _, k := range slices.Backward(c.added) {
		c.dedup.forget(k)
	}
}

func (c *committer) reset() {
	for _, p := range c.parts {
		clear(p.batch.refs)
		if cap(p.batch.refs) > 4096 {
			p.batch.refs = nil
		}
		p.batch = partBatch{refs: p.batch.refs[:0]}
	}
	clear(c.parts)
	c.parts, c.runs, c.added = c.parts[:0], c.runs[:0], c.added[:0]
	c.records, c.frames, c.copies = 0, 0, 0
}

func (o *Observe) commit(took time.Duration, records, bytes int) {
	if o.Commit != nil {
		o.Commit(took, records, bytes)
	}
}

func (o *Observe) commitFailed(err error) {
	if o.CommitFailed != nil {
		o.CommitFailed(err)
	}
}

func (o *Observe) duplicate(n int) {
	if o.Duplicate != nil && n > 0 {
		o.Duplicate(n)
	}
}

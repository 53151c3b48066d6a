package dispatch

import (
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// batchBytes is where a batch ends: small enough that it stays within its buffer.
const batchBytes = 60<<10 - 128

// leastBatch is where a batch ends while memory is short.
const leastBatch = 4 << 10

// batchBuffer is the buffer a batch is encoded into.
const batchBuffer = 64 << 10

// progress says why a batch was not sent.
type progress uint8

const (
	sentBatch progress = iota
	noWindow           // no stream has room: woken by evCredit
	noRecords          // what comes next is not in the window: woken by evChunk
	nothing            // nothing may be sent now: woken by what changes the machine
)

// serve sends up to turnBatches batches of a part and tells whether it wants
// another turn at once.
func (l *loop) serve(p *part, now time.Time) bool {
	for range turnBatches {
		if len(p.atts) == 0 || p.unproven || l.frozen[p.key.Subscriber] != nil {
			return false
		}
		if l.d.blocked() {
			l.lookAgain(p, now)
			return false
		}
		a := p.pick()
		if a == nil || l.sendBatch(p, a, now) != sentBatch {
			return false
		}
	}
	return true
}

// lookAgain gives a part that the store keeps from sending another look, soon.
func (l *loop) lookAgain(p *part, now time.Time) {
	l.hunger(p)
	l.holdReads(false, now.Add(readRetry))
}

// sendBatch sends one batch: retries if there are any, else what is new.
func (l *loop) sendBatch(p *part, a *attachment, now time.Time) progress {
	s := a.b.s
	a.asked = false
	most, why := l.allowed(p, a, now)
	if most == 0 {
		return why
	}
	slots, room := s.reserve(a.b, p, most, int64(min(l.d.batchRoom(), s.cfg.MaxMessage)))
	if slots == 0 {
		return noWindow
	}
	e := &l.enc
	e.begin(p, a, slots, room, now)
	defer e.end()
	why = nothing
	if items := p.m.Next(slots + len(p.wide)); len(items) > 0 {
		why = l.fillRetries(p, items)
	}
	if len(e.offs) == 0 && e.need == 0 && (!p.m.Returning() || e.passed) {
		if r := l.fillNew(p); why == nothing {
			why = r
		}
	}
	if len(e.offs) == 0 {
		s.giveBack(a.b, p, slots, e.room, e.need)
		if e.need > 0 && p.roomBeside(a) {
			return sentBatch // another stream of the share may have it
		}
		if e.learnt {
			return sentBatch // by the stream that takes it, now or when it has room
		}
		if e.finished > 0 && why == nothing {
			return sentBatch // filtered or expired: go on
		}
		return why
	}
	if !l.mark(p) {
		s.giveBack(a.b, p, slots, e.room, 0)
		l.takeBack(p)
		l.lookAgain(p, now)
		return nothing
	}
	size := e.bodyLen()
	first, ok := s.send(a.b, p, slots, e.room, batch{run: e.buf, idPos: e.idPos, epoch: p.m.Epoch()})
	if !ok {
		l.takeBack(p)
		return nothing
	}
	e.buf = nil // the stream's now
	p.m.Sent(s.id, first, e.offs)
	l.count(p, e, size)
	l.followed(e, first)
	return sentBatch
}

// mark notes the high mark before frames above the old one are written.
func (l *loop) mark(p *part) bool {
	high := max(p.marked, l.enc.offs[len(l.enc.offs)-1]+1)
	if high == p.marked {
		return true
	}
	if err := p.marker.Mark(p.m.Epoch(), high); err != nil {
		l.d.Metrics.MarkFailures.Add(1)
		l.d.warn("high mark not noted, nothing is delivered until it can be", "topic", l.t.name, "partition", l.partition, "subscriber", p.sub.name, "error", err)
		return false
	}
	p.marked = high
	return true
}

// takeBack returns what was offered and can not be sent: it comes again, and
// does not count as sent.
func (l *loop) takeBack(p *part) {
	const nobody delivery.StreamID = 0 // never attached
	p.m.Sent(nobody, 1, l.enc.offs)
	l.touch(p)
}

func (l *loop) count(p *part, e *encoder, size int) {
	m := l.d.Metrics
	if pace := l.d.cfg.Pace; pace != nil {
		pace.Delivered(p.key.Topic, e.a.b.s.cfg.ClientID, len(e.offs), int64(size), e.now)
	}
	m.Delivered.Add(int64(len(e.offs)))
	m.DeliveredBytes.Add(int64(size))
	p.counts.Delivered.Add(int64(len(e.offs)))
	if e.again == 0 {
		return
	}
	m.Redelivered.Add(int64(e.again))
	for cause, n := range e.causes {
		p.counts.Redelivered[cause].Add(int64(n))
	}
}

// fillRetries encodes offsets below NextNew whose turn it is.
func (l *loop) fillRetries(p *part, items []delivery.Item) progress {
	if l.pop != nil {
		return l.pop.fillRetries(p, items)
	}
	e := &l.enc
	for i := range items {
		it := items[i]
		if it.Alone && len(e.offs) > 0 {
			break
		}
		c := l.cache.find(it.Offset)
		if c == nil {
			l.fetch(it.Offset)
			l.hunger(p)
			if len(e.offs) > 0 {
				break
			}
			return noRecords
		}
		at := c.index(it.Offset)
		if at == len(c.batch.Records) || c.batch.Records[at].Offset != it.Offset {
			l.finishAbsent(p, c, it.Offset, at)
			continue
		}
		rec := &c.batch.Records[at]
		if e.buf == nil {
			e.want = e.headLen() + len(items)*e.estimate(rec)
		}
		if c.foreign(at, p.sub) || !c.wanted(at, p.sub) {
			p.m.Finish(it.Offset)
			e.finished++
			l.d.Metrics.countSkipped(false)
			l.touch(p)
			continue
		}
		if c.expired(at, e.now) {
			l.finishExpired(p, it.Offset)
			continue
		}
		if v := p.m.Confirm(it.Offset, p.keyOf(rec)); v != delivery.Send {
			continue
		}
		if p.passes(it.Offset, e.a) {
			e.passed = true
			continue
		}
		n, cause := len(e.offs), p.m.Cause(it.Offset)
		if !l.encode(p, c, at, it.Attempt) {
			break
		}
		if it.Attempt > 1 && len(e.offs) > n {
			e.again++
			e.causes[cause]++
		}
		if it.Alone || e.full() {
			break
		}
	}
	return nothing
}

// fillNew encodes records that are read for the first time.
func (l *loop) fillNew(p *part) progress {
	if l.pop != nil {
		return l.pop.fillNew(p)
	}
	e := &l.enc
	for {
		next := p.m.NextNew()
		c := l.cache.find(next)
		if c == nil {
			l.wantRecords(p, next)
			return noRecords
		}
		recs, from := c.batch.Records, c.index(next)
		if e.buf == nil {
			e.expect(recs[from:])
		}
		for i := from; i < len(recs); i++ {
			if stop := l.offer(p, c, i); stop {
				return nothing
			}
		}
		p.m.Pass(c.next)
		if len(e.offs) > 0 {
			return nothing
		}
	}
}

// offer offers record i of a chunk and encodes it if it may go; stop ends the
// batch.
func (l *loop) offer(p *part, c *chunk, i int) (stop bool) {
	e, rec := &l.enc, &c.batch.Records[i]
	if e.full() {
		return true
	}
	expired := c.expired(i, e.now)
	skip := expired || c.foreign(i, p.sub) || !c.wanted(i, p.sub)
	if !skip && !e.fits(rec) {
		if len(e.offs) > 0 {
			return true
		}
		if !e.widen(rec) {
			return true
		}
	}
	switch p.m.Offer(rec.Offset, p.keyOf(rec)) {
	case delivery.Full:
		return true
	case delivery.Skip, delivery.Hold:
		return false
	}
	if l.doom(p, rec.Offset) {
		return false
	}
	if skip {
		p.m.Finish(rec.Offset)
		e.finished++
		l.d.Metrics.countSkipped(expired)
		if expired {
			p.counts.Expired.Add(1)
		}
		return false
	}
	return !l.encode(p, c, i, 1)
}

// encode puts record i of a chunk into the batch. A frame too large for the
// client, or damaged, becomes a dead letter instead.
func (l *loop) encode(p *part, c *chunk, i int, attempt int32) bool {
	e, rec := &l.enc, &c.batch.Records[i]
	if !e.fits(rec) && (len(e.offs) > 0 || !e.widen(rec)) {
		return false
	}
	before := e.bodyLen()
	if err := e.append(c, i, attempt, l.t.protoOptions); err != nil {
		p.m.Kill(rec.Offset, "DAMAGED", err.Error())
		l.touch(p)
		return true
	}
	if size := e.messageLen(before); size > e.a.b.s.cfg.MaxMessage {
		e.undo(before)
		l.tooLarge(p, rec.Offset, size)
	} else if l.d.cfg.Tracer != nil {
		e.traced(rec, attempt)
	}
	return true
}

// finishAbsent finishes offsets that the log holds nothing at: retention has
// removed what was there, or there never was anything. The chunk tells up to
// where.
func (l *loop) finishAbsent(p *part, c *chunk, off int64, at int) {
	end := c.next
	if at < len(c.batch.Records) {
		end = c.batch.Records[at].Offset
	}
	p.m.Absent(offset.Range{First: off, Last: min(end, p.m.NextNew()) - 1})
	l.enc.finished++
	l.d.Metrics.Lost.Add(1)
	l.touch(p)
}

// lives tells how much longer a record lives, as far as that is known without
// reading it: whoever waits for its retry need not wait beyond.
func (l *loop) lives(off int64, now time.Time) (left time.Duration, ok bool) {
	var end int64
	if c := l.cache.find(off); l.pop != nil {
		if q := l.pop.at[off]; q != nil {
			end = q.expires
		}
	} else if c != nil {
		if i := c.index(off); i < c.surveyed && c.batch.Records[i].Offset == off && c.expires != nil {
			end = c.expires[i]
		}
	}
	ms := min(end-now.UnixMilli(), math.MaxInt64/int64(time.Millisecond))
	return max(0, time.Duration(ms)*time.Millisecond), end != 0
}

func (l *loop) finishExpired(p *part, off int64) {
	p.m.Finish(off)
	l.enc.finished++
	l.d.Metrics.Expired.Add(1)
	p.counts.Expired.Add(1)
	l.touch(p)
}

// keyOf is the hash of a record's partition key, for ordered subscribers.
func (p *part) keyOf(rec *storage.Record) uint64 {
	switch {
	case !p.sub.settings.Ordered:
		return 0
	case p.sub.settings.Lite:
		return liteKey
	}
	key, ok := frame.View(rec.Frame).Attr(frame.AttrPartitionKey)
	if !ok || len(key) == 0 {
		return 0
	}
	return max(xxhash.Sum64(key), 1)
}

package dispatch

import (
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// outOfRange corrects positions that the log does not hold.
func (l *loop) outOfRange(rng *storage.RangeError, tail bool, now time.Time) {
	if rng.Offset < rng.Min {
		l.raise(rng.Min)
	} else {
		if !l.doubts { // what was read of it may be gone
			l.proof.doubt(now)
		}
		l.above(rng, now)
	}
	if tail {
		l.tail.started = false // found anew by who comes first
	}
	l.holdReads(tail, now.Add(readRetry))
}

// raise moves everyone who is below the log's minimum up to it.
func (l *loop) raise(low int64) {
	for _, p := range l.parts {
		if from := p.m.Position(); from < low {
			p.m.Raise(low)
			l.corrected(p, from, low, "the log holds nothing below its minimum any more")
			l.touch(p)
			l.enlist(p)
		}
	}
}

// above handles positions beyond the log's end: a change of leader can hide the
// end for a while, so it takes CorrectionWait until they are believed wrong. A
// lite topic that ended below a position has expired and begun anew, so there
// everything comes.
func (l *loop) above(rng *storage.RangeError, now time.Time) {
	high := rng.Max
	for _, p := range l.parts {
		if p.m.NextNew() <= high {
			p.aboveSince = time.Time{}
			continue
		}
		switch {
		case p.aboveSince.IsZero():
			p.aboveSince, l.doubts = now, true
			l.d.warn("position is above the log's maximum: waiting for the log", "topic", l.t.name, "partition", l.partition,
				"subscriber", p.key.Subscriber.String(), "position", p.m.NextNew(), "max", high, "wait", l.d.cfg.CorrectionWait)
		case now.Sub(p.aboveSince) >= l.d.cfg.CorrectionWait:
			from := p.m.Position()
			to := min(from, high)
			if l.lite != nil {
				to = rng.Min
			}
			l.cache.clear(l.d.freeChunk) // it may hold what the log has lost
			l.tail.started = false
			l.restart(p, p.m.Epoch()+1, to, p.log.TopicID)
			l.corrected(p, from, to, "the log has ended below the position")
		}
	}
}

// believe ends the doubts about positions up to next: the log was read up to there.
func (l *loop) believe(next int64, now time.Time) {
	if !l.doubts {
		return
	}
	l.doubts = false
	for _, p := range l.parts {
		if p.m.NextNew() <= next && !p.aboveSince.IsZero() {
			p.aboveSince = time.Time{}
			l.proof.suspect(p) // it may have been cut, and grown again
		}
		l.doubts = l.doubts || !p.aboveSince.IsZero()
	}
	l.proof.prove(now)
}

// corrected counts, logs and tells a correction.
func (l *loop) corrected(p *part, from, to int64, why string) {
	l.d.Metrics.Corrected.Add(1)
	l.d.warn("position corrected", "topic", l.t.name, "partition", l.partition, "subscriber", p.key.Subscriber.String(), "from", from, "to", to, "reason", why)
	pos := position{topic: p.key.Topic, subscriber: p.key.Subscriber.String(), partition: p.key.Partition, next: to, epoch: p.m.Epoch()}
	detail := fmt.Sprintf("position of partition %q corrected from %d to %d: %s", p.key.Partition, from, to, why)
	for _, a := range p.atts {
		a.b.s.notice(NoticePositionCorrected, detail, a.b.id, pos)
	}
}

// restart begins a new epoch of a part at a position.
func (l *loop) restart(p *part, epoch uint64, at int64, topicID string) {
	p.aboveSince = time.Time{}
	for _, g := range p.m.Reset(epoch, at) {
		if s := l.d.streamByID(g.Stream); s != nil {
			s.tell(StatusStale, g.First, g.Mask, true)
		}
	}
	for _, a := range p.atts {
		a.b.s.outdate(a.b, p)
	}
	p.burials.drop(p.key)
	p.wide = nil
	p.log, p.unproven = offsetstore.LogID{TopicID: topicID}, false
	p.marked = 0
	l.touch(p)
	l.enlist(p)
}

// recreate begins anew after the topic was deleted and made again.
func (l *loop) recreate(topicID string, low int64) {
	l.cache.clear(l.d.freeChunk)
	l.tail.started = false
	l.lite.forgetAwait()
	for _, p := range l.parts {
		if p.log.TopicID == topicID {
			continue
		}
		from := p.m.Position()
		l.restart(p, p.m.Epoch()+1, low, topicID)
		l.corrected(p, from, low, "the topic was deleted and created again")
	}
}

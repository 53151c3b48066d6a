package dispatch

import (
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// part is one subscriber in one partition. It is owned by the partition's loop;
// only its identity (l, sub, key) may be read elsewhere.
type part struct {
	l      *loop
	sub    *subscriber
	key    offsetstore.Key
	m      *delivery.Machine
	marker offsetstore.Marker
	marked int64 // high mark noted last
	log    offsetstore.LogID
	atts   []*attachment
	counts *Counts
	cursor int // where the search for a free stream begins
	// wide are the records that wait for a stream that takes messages of their
	// size; nil: none do.
	wide map[int64]int

	queued     bool // in loop.ready
	waiting    bool // in loop.hungry: wants records that are not in the window
	committing bool
	touched    bool // in loop.touched: look at its commits and deadline
	deadline   time.Time
	inCommit   offsetstore.Value // of the last Snapshot
	burials    burials
	told       position // what streams were told of last
	lastAck    time.Time
	absentAt   int64 // ms; the value's Absent, as it is to be
	dated      int64 // ms; the value's Absent, as it is stored
	retryAt    time.Time
	turn       partTurn
	aboveSince time.Time // the position is above the log's maximum since then
	leftAt     time.Time // when the last stream left
	left       bool      // the last stream has gone: commit when
	unproven   bool      // nothing is delivered until the log was seen to be the one that log tells of
	lost       bool      // what is not committed may be dropped: a commit failed and nobody is here
}

// attachment ties a part to one stream's subscription.
type attachment struct {
	b *binding
	p *part

	asked bool // the part waits for room on the stream; the loop's

	// Guarded by the stream's mutex.
	pos       position
	posQueued bool
	posTold   time.Time
}

// attachmentOf returns the part's attachment on a stream, nil if there is none.
func (p *part) attachmentOf(s *Stream) *attachment {
	for _, a := range p.atts {
		if a.b.s == s {
			return a
		}
	}
	return nil
}

// durablePosition is what a client is told of a committed value.
func durablePosition(key offsetstore.Key, v offsetstore.Value) position {
	return position{
		topic: key.Topic, subscriber: key.Subscriber.String(), partition: key.Partition,
		next: v.Position, epoch: v.Epoch, ahead: v.Finished[:min(len(v.Finished), maxAheadRanges)],
	}
}

// equal tells whether a client that knows q learns nothing from p.
func (p position) equal(q position) bool {
	n := len(p.ahead)
	return p.next == q.next && p.epoch == q.epoch && n == len(q.ahead) && (n == 0 || p.ahead[n-1] == q.ahead[n-1])
}

// pick chooses the stream to serve next: of those with room the one with the
// most, starting behind the one served last. When none has room it returns any,
// and the part is woken by the first that has. nil: what comes next may go on
// none of them now.
func (p *part) pick() *attachment {
	if off, must, ok := p.m.Beside(); ok {
		if a := p.pickSpare(off); a != nil || must {
			return a
		}
	}
	if len(p.atts) == 1 {
		return p.atts[0]
	}
	if a := p.pickWide(); a != nil {
		return a
	}
	var best *attachment
	most := 0
	n := min(len(p.atts), pickProbes)
	for i := range n {
		a := p.atts[(p.cursor+i)%len(p.atts)]
		if free := a.b.s.freeFor(a.b, p); free > most {
			best, most = a, free
		}
	}
	p.cursor = (p.cursor + 1) % len(p.atts)
	if best == nil {
		best = p.awaitRoom()
	}
	return best
}

// pickSpare chooses a stream with room that holds nothing of the part, for a record
// that goes beside what others hold. When none has room the part is woken by the
// first that has. nil: there is none.
func (p *part) pickSpare(off int64) *attachment {
	for _, a := range p.atts {
		if p.m.Holds(a.b.s.id) == 0 && !p.passes(off, a) && a.b.s.roomOrWake(a.b, p) {
			return a
		}
	}
	return nil
}

// awaitRoom has every stream that has no room wake the part once it has, and
// returns one that has it now; any, if none has. Those that were asked before are
// not asked again.
func (p *part) awaitRoom() *attachment {
	for _, a := range p.atts {
		if a.asked {
			continue
		}
		if a.b.s.roomOrWake(a.b, p) {
			return a
		}
		a.asked = true
	}
	return p.atts[p.cursor]
}

// roomBeside tells whether another stream than a has room.
func (p *part) roomBeside(a *attachment) bool {
	for _, other := range p.atts {
		if other != a && other.b.s.freeFor(other.b, p) > 0 {
			return true
		}
	}
	return false
}

// pickProbes bounds how many streams of a share are asked for their window.
const pickProbes = 16

package dispatch

import (
	"strconv"

	"github.com/ackmesh/ackmesh/server/delivery"
)

// tooLarge deals with a record whose message is larger than what the stream that
// is being served takes. If another stream of the subscriber takes it, it is left
// to that; else it becomes a dead letter, for nobody here can have it.
func (l *loop) tooLarge(p *part, off int64, size int) {
	e := &l.enc
	e.passed = p.takes(size)
	e.learnt = e.learnt || e.passed
	if e.passed {
		if p.wide == nil {
			p.wide = map[int64]int{}
		}
		p.wide[off] = size
		const nobody delivery.StreamID = 0 // never attached
		p.m.Sent(nobody, 1, []int64{off})  // it comes again by Next
	} else {
		delete(p.wide, off)
		limit := e.a.b.s.cfg.MaxMessage
		p.m.Kill(off, delivery.ReasonTooLarge, "the message has "+strconv.Itoa(size)+" bytes, the client takes "+strconv.Itoa(limit))
	}
	l.touch(p)
}

// takes tells whether any stream of the part takes messages of a size.
func (p *part) takes(size int) bool {
	for _, a := range p.atts {
		if a.b.s.cfg.MaxMessage >= size {
			return true
		}
	}
	return false
}

// passes tells whether an offset is to be left to another stream than a.
func (p *part) passes(off int64, a *attachment) bool {
	size, wide := p.wide[off]
	return wide && size > a.b.s.cfg.MaxMessage && p.takes(size)
}

// pickWide chooses a stream for the records that not all take: one with room that
// takes one of them. When none has room the part is woken by the first that has.
// nil: whoever is next.
func (p *part) pickWide() *attachment {
	if len(p.wide) == 0 {
		return nil
	}
	least := 0
	for off, size := range p.wide {
		if p.m.Finished(off) {
			delete(p.wide, off)
		} else if least == 0 || size < least {
			least = size
		}
	}
	if len(p.wide) == 0 || len(p.m.Next(1)) == 0 { // none is to be sent now
		return nil
	}
	for _, a := range p.atts {
		if a.b.s.cfg.MaxMessage >= least && a.b.s.roomOrWake(a.b, p) {
			return a
		}
	}
	return nil
}

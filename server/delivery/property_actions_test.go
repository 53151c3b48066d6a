package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"pgregory.net/rapid"
)

func (p *pair) attach(t *rapid.T) {
	s := StreamID(rapid.IntRange(1, 3).Draw(t, "stream"))
	timeout := time.Duration(rapid.IntRange(2, 9).Draw(t, "timeout")) * time.Second
	p.m.Attach(s, timeout)
	p.mo.streams[s] = timeout
}

func (p *pair) detach(t *rapid.T) {
	s, ok := p.stream()
	if !ok {
		return
	}
	broken := rapid.Bool().Draw(t, "broken")
	for id, d := range p.mo.dels {
		if d.stream == s {
			delete(p.slots, id)
		}
	}
	p.m.Detach(p.now, s, broken)
	p.mo.detach(s, broken)
}

func (p *pair) offer(t *rapid.T) {
	s, ok := p.stream()
	if !ok {
		return
	}
	var items []Item
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		before := p.m.NextNew()
		off := before
		if rapid.IntRange(0, 4).Draw(t, "gap") == 0 {
			off += 2
		}
		got, want := p.m.Offer(off, p.key(off)), p.mo.offer(off, p.key(off))
		if got != want {
			t.Fatalf("Offer(%d) = %d, want %d (%s)", off, got, want, p.m.Stats().PausedBy)
		}
		if got == Full {
			break
		}
		p.noteGap(before, off)
		if got == Send {
			items = append(items, Item{off, 1, false})
		}
	}
	keep := rapid.IntRange(0, len(items)).Draw(t, "keep")
	if rapid.IntRange(0, 3).Draw(t, "send all") > 0 {
		keep = len(items)
	}
	p.send(s, items[:keep])
	for _, it := range items[keep:] {
		p.finish(it.Offset)
	}
}

func (p *pair) offerOnly(t *rapid.T) {
	off := p.m.NextNew()
	if got, want := p.m.Offer(off, p.key(off)), p.mo.offer(off, p.key(off)); got != want {
		t.Fatalf("Offer(%d) = %d, want %d", off, got, want)
	}
}

func (p *pair) sendOffered(*rapid.T) {
	s, ok := p.stream()
	var items []Item
	for _, off := range p.mo.sorted() {
		if o := p.mo.offs[off]; ok && o.place == pOffered && !p.mo.finished(off) && len(items) < 5 {
			items = append(items, Item{off, 1, false})
		}
	}
	p.send(s, items)
}

// sendNobody has the machine take back what it meant to send.
func (p *pair) sendNobody(t *rapid.T) {
	var offs []int64
	for _, off := range p.mo.sorted() {
		if o := p.mo.offs[off]; o.place == pOffered && !p.mo.finished(off) {
			offs = append(offs, off)
		}
	}
	if rapid.Bool().Draw(t, "again") {
		offs = nil
		for _, it := range slices.Clone(p.m.Next(3)) {
			if p.gaps[it.Offset] {
				p.finish(it.Offset)
				continue
			}
			p.mo.confirm(it.Offset, p.key(it.Offset))
			if p.m.Confirm(it.Offset, p.key(it.Offset)) == Send {
				offs = append(offs, it.Offset)
			}
		}
	}
	p.m.Sent(9, 1, offs)
	p.mo.unsend(offs)
}

func (p *pair) next(t *rapid.T) {
	s, ok := p.stream()
	if !ok {
		return
	}
	var send []Item
	for _, it := range slices.Clone(p.m.Next(rapid.IntRange(1, 4).Draw(t, "max"))) {
		if p.gaps[it.Offset] {
			p.finish(it.Offset)
			continue
		}
		got, want := p.m.Confirm(it.Offset, p.key(it.Offset)), p.mo.confirm(it.Offset, p.key(it.Offset))
		if got != want {
			t.Fatalf("Confirm(%d) = %d, want %d", it.Offset, got, want)
		}
		if got == Send {
			send = append(send, it)
		}
	}
	p.send(s, send)
}

func (p *pair) ack(t *rapid.T) {
	s, first, mask := p.batch()
	p.ackBoth(t, s, first, mask)
}

func (p *pair) ackBoth(t *rapid.T, s StreamID, first, mask uint64) {
	late := uint64(0)
	for _, d := range p.mo.batch(s, first, mask) {
		if d.state == dLate {
			late |= d.bit
		}
	}
	got, want := p.m.Ack(p.now, s, first, mask), p.mo.ack(s, first, mask)
	p.answered(first, got.Waiting|got.Done)
	swept := want.Done & late & got.Unknown // late acks of what is durable are not waited for
	want.Done, want.Unknown = want.Done&^swept, want.Unknown|swept
	if got != want {
		t.Fatalf("Ack(%d, %d, %b) = %+v, want %+v", s, first, mask, got, want)
	}
}

// ackOdd acks a delivery that timed out, or one of an offset that is finished.
func (p *pair) ackOdd(t *rapid.T) {
	var odd []uint64
	for _, id := range slices.Sorted(maps.Keys(p.mo.dels)) {
		d := p.mo.dels[id]
		if !d.orphan && (d.state == dLate || (d.state == dOut && p.mo.finished(d.off))) {
			odd = append(odd, id)
		}
	}
	if len(odd) == 0 {
		return
	}
	d := p.mo.dels[rapid.SampledFrom(odd).Draw(t, "odd")]
	p.ackBoth(t, d.stream, d.first, d.bit)
}

// duel has the deliveries of an offset that was sent more than once answered
// around a commit that may fail.
func (p *pair) duel(t *rapid.T) {
	of := map[int64][]uint64{}
	for id, d := range p.mo.dels {
		if !d.orphan && d.state <= dLate {
			of[d.off] = append(of[d.off], id)
		}
	}
	maps.DeleteFunc(of, func(_ int64, ids []uint64) bool { return len(ids) < 2 })
	if len(of) == 0 {
		p.again(t)
		return
	}
	off := rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "off")
	ids := rapid.Permutation(slices.Sorted(slices.Values(of[off]))).Draw(t, "ids")
	when := rapid.IntRange(0, len(ids)).Draw(t, "when")
	for i, id := range ids {
		if i == when {
			p.end(t, true)
			p.snapshot(t)
		}
		d := p.mo.dels[id]
		if rapid.Bool().Draw(t, "ack") {
			p.ackBoth(t, d.stream, d.first, d.bit)
		} else {
			p.nackBoth(t, d.stream, d.first, d.bit)
		}
		p.check(t)
	}
	p.endCommit(t)
}

// again lets what is out time out and sends it again.
func (p *pair) again(t *rapid.T) {
	p.now = p.now.Add(9 * time.Second)
	p.tickBoth(t)
	p.commitNow(t)
	p.next(t)
}

func (p *pair) nack(t *rapid.T) {
	s, first, mask := p.batch()
	p.nackBoth(t, s, first, mask)
}

func (p *pair) nackBoth(t *rapid.T, s StreamID, first, mask uint64) {
	delay := time.Duration(rapid.IntRange(-1, 4).Draw(t, "delay")) * time.Second
	dead := rapid.IntRange(0, 7).Draw(t, "dead") == 0
	got, want := p.m.Nack(p.now, s, first, mask, delay, dead, "no"), p.mo.nack(s, first, mask, delay, dead)
	p.answered(first, got.Waiting|got.Done)
	if got != want {
		t.Fatalf("Nack(%d, %d, %b) = %+v, want %+v", s, first, mask, got, want)
	}
}

func (p *pair) extend(t *rapid.T) {
	s, first, mask := p.batch()
	by := time.Duration(rapid.IntRange(1, 20).Draw(t, "by")) * time.Second
	got, want := p.m.Extend(p.now, s, first, mask, by), p.mo.extend(s, first, mask, by)
	if got != want {
		t.Fatalf("Extend(%d, %d, %b) = %+v, want %+v", s, first, mask, got, want)
	}
}

func (p *pair) tick(t *rapid.T) {
	p.now = p.now.Add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
	p.tickBoth(t)
}

func (p *pair) tickBoth(t *rapid.T) {
	got := map[uint64]bool{}
	for _, g := range p.m.Tick(p.now) {
		spread(g, true, got)
	}
	for id := range got {
		p.freeSlot(id)
	}
	if want := p.mo.tick(p.now); !maps.Equal(got, want) {
		t.Fatalf("Tick = %v, want %v", got, want)
	}
}

func (p *pair) freeSlot(id uint64) {
	if !p.slots[id] {
		p.t.Fatalf("delivery %d is told to hold no slot, which it did not", id)
	}
	delete(p.slots, id)
}

func (p *pair) holdSlots(a Answer) {
	held := map[uint64]bool{}
	spread(Given{a.Stream, a.First, a.Held}, true, held)
	for id := range held {
		if a.Durable || p.slots[id] {
			p.t.Fatalf("delivery %d is told to hold a slot again", id)
		}
		p.slots[id] = true
	}
}

// answered frees the slots of what a client answers.
func (p *pair) answered(first, mask uint64) {
	ids := map[uint64]bool{}
	spread(Given{First: first, Mask: mask}, true, ids)
	for id := range ids {
		delete(p.slots, id)
	}
}

// spread writes the ids of g into a map.
func spread(g Given, v bool, to map[uint64]bool) {
	for i := range uint64(64) {
		if g.Mask&(1<<i) != 0 {
			to[g.First+i] = v
		}
	}
}

// noteGap notes that the log has nothing in [first, end).
func (p *pair) noteGap(first, end int64) {
	for ; first < end; first++ {
		p.gaps[first] = true
	}
}

// any draws an offset that was offered or is about to be.
func (p *pair) any() int64 {
	return rapid.Int64Range(max(0, p.m.Position()-3), max(p.m.Position(), p.m.NextNew())+1).Draw(p.t, "offset")
}

func (p *pair) finishAny(*rapid.T) { p.finish(p.any()) }

func (p *pair) finish(off int64) {
	p.m.Finish(off)
	p.mo.finish(off)
}

func (p *pair) killAny(*rapid.T) {
	off := p.any()
	if o := p.mo.offs[off]; p.set.Ordered && o != nil && o.place != pArmed && o.place != pOffered {
		return // who waits for its turn has a test of its own
	}
	p.m.Kill(off, ReasonTooLarge, "")
	p.mo.kill(off)
}

func (p *pair) dead(t *rapid.T) {
	got := map[int64]int32{}
	for _, d := range p.m.Dead() {
		got[d.Offset] = d.Attempts
	}
	want := p.mo.dead()
	if !maps.Equal(got, want) {
		t.Fatalf("Dead = %v, want %v", got, want)
	}
	for _, off := range slices.Sorted(maps.Keys(got)) {
		if rapid.IntRange(0, 3).Draw(t, "undead") == 0 {
			p.m.Undead(off)
			p.mo.offs[off].yielded = false
			continue
		}
		p.finish(off)
	}
}

func (p *pair) pass(*rapid.T) {
	p.noteGap(p.m.NextNew(), p.m.NextNew()+2)
	p.m.Pass(p.m.NextNew() + 2)
	p.mo.pass(p.mo.next + 2)
}

func (p *pair) absent(t *rapid.T) {
	first := p.any()
	r := offset.Range{First: first, Last: first + rapid.Int64Range(0, 3).Draw(t, "len")}
	p.m.Absent(r)
	for off := r.First; off <= r.Last; off++ {
		p.mo.finish(off)
	}
}

func (p *pair) raise(t *rapid.T) {
	to := p.m.Position() + rapid.Int64Range(-1, 4).Draw(t, "by")
	p.m.Raise(to)
	for off := p.mo.start; off < to; off++ {
		p.mo.finish(off)
	}
	p.mo.next = max(p.mo.next, to)
}

func (p *pair) snapshot(t *rapid.T) {
	if p.mo.committing {
		return
	}
	p.saving = p.m.Snapshot()
	p.compare(t, p.saving, p.mo.snapshot())
}

func (p *pair) endCommit(t *rapid.T) { p.end(t, rapid.IntRange(0, 3).Draw(t, "ok") > 0) }

func (p *pair) end(t *rapid.T, ok bool) {
	stale := p.mo.stale
	if p.mo.committing && ok && !stale {
		if p.saving.Epoch == p.saved.Epoch && p.saving.Position < p.saved.Position {
			t.Fatalf("floor goes down from %d to %d", p.saved.Position, p.saving.Position)
		}
		p.saved, p.model = p.saving, p.mo.snap
	}
	offs := map[uint64]int64{}
	nacks := map[uint64]bool{}
	for id, d := range p.mo.dels {
		offs[id] = d.off
		nacks[id] = d.state == dNack
	}
	got := map[uint64]bool{}
	for _, a := range p.m.EndCommit(p.now, ok) {
		spread(a.Given, a.Durable, got)
		p.holdSlots(a)
		if a.Durable {
			p.bookDurable(a.Given, offs, nacks)
		}
	}
	if want := p.mo.endCommit(ok); !maps.Equal(got, want) {
		t.Fatalf("EndCommit(%v) = %v, want %v", ok, got, want)
	}
}

func (p *pair) bookDurable(g Given, offs map[uint64]int64, nacks map[uint64]bool) {
	ids := map[uint64]bool{}
	spread(g, true, ids)
	for id := range ids {
		if !nacks[id] {
			p.told[offs[id]] = true
		}
	}
}

func (p *pair) reset(t *rapid.T) {
	p.nextEp++
	to := rapid.Int64Range(0, p.m.NextNew()+3).Draw(t, "to")
	got := map[uint64]bool{}
	for _, g := range p.m.Reset(p.nextEp, to) {
		spread(g, true, got)
	}
	p.arms()
	if want := p.mo.reset(p.nextEp, to); !maps.Equal(got, want) {
		t.Fatalf("Reset = %v, want %v", got, want)
	}
	p.freshBooks(to)
	p.commitNow(t)
}

// commitNow brings a commit to a good end, first one under way.
func (p *pair) commitNow(t *rapid.T) {
	p.end(t, true)
	p.snapshot(t)
	p.end(t, true)
}

// crashes starts again from what the last good commit saved and the mark.
func (p *pair) crashes(t *rapid.T) {
	v := p.saved
	if v.Epoch == p.m.Epoch() {
		v.High = max(v.High, p.m.High())
	}
	p.now = p.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "down")) * time.Millisecond)
	p.set.MaxAttempts = rapid.IntRange(1, 5).Draw(t, "max attempts")
	p.m = New(p.set, v, p.now, nil)
	p.mo.crash(p.set, p.model, v.High, p.now)
	p.arms()
	p.era++
	clear(p.slots)
}

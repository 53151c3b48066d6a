package delivery

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
	"pgregory.net/rapid"
)

// pair drives a machine and its model with the same events, and keeps books of
// its own about what no machine may do.
type pair struct {
	t      *rapid.T
	set    Settings
	now    time.Time
	m      *Machine
	mo     *model
	ids    uint64
	ends   int64 // where the log ends for now
	saved  offsetstore.Value
	saving offsetstore.Value
	model  *mSaved // what saved was in the model
	nextEp uint64
	sent   map[int64][]int32 // per offset of this epoch, the attempts shown
	told   map[int64]bool    // durable, by what was told
	sentIn map[int64]int     // in which era it was sent last
	gaps   map[int64]bool    // not in the log
	era    int               // starts of the machine
	floor  int64
}

func newPair(t *rapid.T, ordered bool) *pair {
	p := &pair{t: t, now: time.UnixMilli(1_700_000_000_000), ids: 1}
	p.set = Settings{
		MaxAttempts: rapid.IntRange(1, 5).Draw(t, "max attempts"),
		Backoff:     []time.Duration{time.Second, 3 * time.Second},
		Jitter:      -1,
		MaxWaiting:  rapid.IntRange(1, 12).Draw(t, "max waiting"),
		MaxAhead:    rapid.Int64Range(4, 40).Draw(t, "max ahead"),
		Ordered:     ordered,
		LookAhead:   rapid.IntRange(1, 6).Draw(t, "look ahead"),
	}
	start := rapid.Int64Range(0, 5).Draw(t, "start")
	p.saved = offsetstore.Value{Position: start, High: start}
	p.m = New(p.set, p.saved, p.now, nil)
	p.mo = newModel(p.set, start, p.now)
	p.model = p.mo.saved
	p.arms()
	p.freshBooks(start)
	return p
}

// arms makes the limit of armed ones small enough to be met.
func (p *pair) arms() { p.m.armAhead, p.mo.armAhead = 6, 6 }

func (p *pair) freshBooks(floor int64) {
	p.gaps = map[int64]bool{}
	p.sent, p.told, p.sentIn = map[int64][]int32{}, map[int64]bool{}, map[int64]int{}
	p.floor = floor
}

func (p *pair) key(off int64) uint64 { return uint64(off*7) % 4 }

func (p *pair) stream() (StreamID, bool) {
	live := slices.Sorted(maps.Keys(p.mo.streams))
	if len(live) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(live).Draw(p.t, "stream"), true
}

// batch draws a batch that the model knows, of a live stream or not.
func (p *pair) batch() (StreamID, uint64, uint64) {
	type place struct {
		s     StreamID
		first uint64
	}
	masks := map[place]uint64{}
	for _, d := range p.mo.dels {
		if !d.orphan {
			masks[place{d.stream, d.first}] |= d.bit
		}
	}
	if len(masks) == 0 {
		return 1, 1, 1
	}
	all := slices.SortedFunc(maps.Keys(masks), func(a, b place) int { return int(a.first) - int(b.first) })
	b := rapid.SampledFrom(all).Draw(p.t, "batch")
	mask := masks[b]
	if rapid.Bool().Draw(p.t, "part") {
		mask = rapid.Uint64Range(1, 31).Draw(p.t, "mask")
	}
	return b.s, b.first, mask
}

func (p *pair) send(s StreamID, items []Item) {
	if len(items) == 0 {
		return
	}
	var offs []int64
	for _, it := range items {
		offs = append(offs, it.Offset)
		p.book(it)
	}
	p.m.Sent(s, p.ids, offs)
	p.mo.sendAll(s, p.ids, offs)
	if rapid.IntRange(0, 4).Draw(p.t, "handed") > 0 {
		p.m.Handed(p.now, s, p.ids)
		p.mo.handed(s, p.ids)
	}
	p.ids += uint64(len(offs)) + 2
}

// book checks what holds for every delivery, whatever came before.
func (p *pair) book(it Item) {
	if p.told[it.Offset] {
		p.t.Fatalf("offset %d is sent though DURABLE was told", it.Offset)
	}
	before := p.sent[it.Offset]
	want := int32(1)
	if len(before) > 0 {
		want = before[len(before)-1] + 1
	}
	if it.Attempt < want || (it.Attempt > want && p.era == p.sentIn[it.Offset]) {
		p.t.Fatalf("offset %d is sent as attempt %d after %v", it.Offset, it.Attempt, before)
	}
	p.sentIn[it.Offset] = p.era
	p.sent[it.Offset] = append(before, it.Attempt)
}

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
	p.m.Tick(p.now)
	p.mo.tick(p.now)
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
	got := map[uint64]bool{}
	for _, g := range p.m.Tick(p.now) {
		spread(g, true, got)
	}
	if want := p.mo.tick(p.now); !maps.Equal(got, want) {
		t.Fatalf("Tick = %v, want %v", got, want)
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

// compare holds a value against what the model saves.
func (p *pair) compare(t *rapid.T, v offsetstore.Value, s *mSaved) {
	if v.Epoch != s.epoch || v.Position != s.floor || v.High != max(p.mo.high, s.floor) {
		t.Fatalf("value %+v, want epoch %d, floor %d, high %d", v, s.epoch, s.floor, p.mo.high)
	}
	finished := map[int64]bool{}
	for _, r := range v.Finished {
		for off := r.First; off <= r.Last; off++ {
			finished[off] = true
		}
	}
	for off := range s.finished {
		if off >= s.floor && !finished[off] {
			t.Fatalf("offset %d is not saved as finished: %v", off, v.Finished)
		}
		delete(finished, off)
	}
	if len(finished) > 0 {
		t.Fatalf("saved as finished, but not so: %v", finished)
	}
	got := map[int64]offsetstore.Attempt{}
	last := int64(-1)
	for _, a := range v.Attempts {
		if a.First <= last || a.Len() < 1 {
			t.Fatalf("attempts are not sorted: %v", v.Attempts)
		}
		if int(a.Spent) > p.set.MaxAttempts && p.era == 0 {
			t.Fatalf("more than the budget is spent: %+v", a)
		}
		last = a.Last
		for off := a.First; off <= a.Last; off++ {
			one := a
			one.Range = offset.Range{}
			got[off] = one
		}
	}
	want := maps.Clone(s.attempts)
	maps.DeleteFunc(want, func(_ int64, a offsetstore.Attempt) bool { return a == offsetstore.Attempt{Sent: 1} })
	if !maps.Equal(got, want) {
		t.Fatalf("attempts\n%s, want\n%s", showAttempts(got), showAttempts(want))
	}
}

func showAttempts(of map[int64]offsetstore.Attempt) string {
	var out []string
	for _, off := range slices.Sorted(maps.Keys(of)) {
		a := of[off]
		out = append(out, fmt.Sprintf("%d: sent %d spent %d breaks %d due %d", off, a.Sent, a.Spent, a.Breaks, a.Due))
	}
	return strings.Join(out, "; ")
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
}

// seldom lets an action pass one time in n.
func (p *pair) seldom(n int, do func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(1, n).Draw(t, "seldom") == n {
			do(t)
		}
	}
}

// check compares all that can be asked.
func (p *pair) check(t *rapid.T) {
	p.m.sweepAt = 1
	maps.DeleteFunc(p.mo.dels, func(_ uint64, d *mDel) bool { return d.state == dGone && !d.committed })
	got, want := p.state(), p.modelState()
	if got != want {
		t.Fatalf("machine:\n%s\nmodel:\n%s", got, want)
	}
	for off := int64(0); off < p.m.NextNew()+4; off++ {
		if p.m.Finished(off) != p.mo.finished(off) {
			t.Fatalf("Finished(%d) = %v", off, p.m.Finished(off))
		}
	}
	all := p.mo.nextItems()
	if got := p.m.Next(1000); len(got)+len(all) > 0 && !reflect.DeepEqual(got, all) {
		t.Fatalf("Next = %v, want %v", got, all)
	}
}

func (p *pair) state() string {
	s := p.m.Stats()
	at, ok := p.m.Deadline()
	return fmt.Sprint(p.m.NextNew(), p.m.Position(), p.m.High(), p.m.Epoch(), " dirty ", p.m.Dirty(), " in flight ", s.InFlight,
		" waiting ", s.Waiting, " held ", s.Held, " dying ", s.Dying, " deadline ", ok, at.UnixNano())
}

func (p *pair) modelState() string {
	at, ok := p.mo.deadline()
	held := p.mo.count(func(o *mOff) bool {
		return o.place >= pQueued && o.place <= pArmed && o.unsent && !o.unknown
	})
	for off, o := range p.mo.offs {
		if o.place == pQueued && !o.unknown && !o.unsent && !p.mo.finished(off) && p.mo.blocked(off) {
			held++
		}
	}
	return fmt.Sprint(p.mo.next, p.mo.position(), p.mo.high, p.mo.epoch, " dirty ", p.mo.dirty(), " in flight ", p.mo.inFlight(),
		" waiting ", p.mo.waiting(), " held ", held,
		" dying ", p.mo.count(func(o *mOff) bool { return o.place == pDying }), " deadline ", ok, at.UnixNano())
}

// drain lets everything go well until nothing is left: nothing is ever lost.
func (p *pair) drain(t *rapid.T) {
	p.m.Attach(1, time.Minute)
	p.mo.streams[1] = time.Minute
	for range 2000 {
		p.commitNow(t)
		p.dead(t)
		for _, d := range maps.Clone(p.mo.dels) {
			if !d.orphan && d.state <= dLate {
				p.m.Ack(p.now, d.stream, d.first, ^uint64(0))
				p.mo.ack(d.stream, d.first, ^uint64(0))
			}
		}
		p.sendOffered(t)
		p.next(t)
		p.tick(t)
		p.check(t)
		if p.m.Position() >= p.m.NextNew() && !p.m.Dirty() {
			break
		}
	}
	if s := p.m.Stats(); p.m.Position() < p.m.NextNew() || s.InFlight+s.Waiting+s.Held+s.Dying != 0 || len(p.m.hist) != 0 {
		t.Fatalf("something is left: position %d of %d, %+v, %v", p.m.Position(), p.m.NextNew(), s, p.m.hist)
	}
}

func (p *pair) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": p.check, "attach": p.attach, "detach": p.seldom(3, p.detach), "offer": p.offer, "offer2": p.offer,
		"offerOnly": p.seldom(3, p.offerOnly), "sendOffered": p.sendOffered, "next": p.next, "next2": p.next,
		"ack": p.ack, "ackOdd": p.ackOdd, "ackOdd2": p.ackOdd, "nack": p.nack, "duel": p.duel, "extend": p.extend, "tick": p.tick, "tick2": p.tick,
		"finish": p.seldom(3, p.finishAny), "kill": p.seldom(3, p.killAny), "dead": p.dead, "pass": p.seldom(3, p.pass),
		"absent": p.seldom(6, p.absent), "raise": p.seldom(6, p.raise), "snapshot": p.snapshot, "snapshot2": p.snapshot,
		"endCommit": p.endCommit, "endCommit2": p.endCommit, "reset": p.seldom(12, p.reset), "crash": p.seldom(5, p.crashes),
	}
}

// TestMachineAgainstModel holds the machine against the model.
func TestMachineAgainstModel(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered=%v", ordered), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := newPair(t, ordered)
				p.attach(t)
				t.Repeat(p.actions())
				p.drain(t)
			})
		})
	}
}

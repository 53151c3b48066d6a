package delivery

import (
	"flag"
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
	saved  offsetstore.Value
	saving offsetstore.Value
	model  *mSaved // what saved was in the model
	nextEp uint64
	sent   map[int64][]int32 // per offset of this epoch, the attempts shown
	told   map[int64]bool    // durable, by what was told
	sentIn map[int64]int     // in which era it was sent last
	gaps   map[int64]bool    // not in the log
	slots  map[uint64]bool   // deliveries that hold a slot of a window
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
	p.gaps, p.slots = map[int64]bool{}, map[uint64]bool{}
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
	for i := range offs {
		p.slots[p.ids+uint64(i)] = true
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
	if len(p.slots) != p.m.Stats().InFlight {
		t.Fatalf("%d slots are held, %d in flight", len(p.slots), p.m.Stats().InFlight)
	}
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
				p.ackBoth(t, d.stream, d.first, ^uint64(0))
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
		"offerOnly": p.seldom(3, p.offerOnly), "sendOffered": p.sendOffered, "sendNobody": p.seldom(3, p.sendNobody), "next": p.next, "next2": p.next,
		"ack": p.ack, "ackOdd": p.ackOdd, "ackOdd2": p.ackOdd, "nack": p.nack, "duel": p.duel, "extend": p.extend, "tick": p.tick, "tick2": p.tick,
		"finish": p.seldom(3, p.finishAny), "kill": p.seldom(3, p.killAny), "dead": p.dead, "pass": p.seldom(3, p.pass),
		"absent": p.seldom(6, p.absent), "raise": p.seldom(6, p.raise), "snapshot": p.snapshot, "snapshot2": p.snapshot,
		"endCommit": p.endCommit, "endCommit2": p.endCommit, "reset": p.seldom(12, p.reset), "crash": p.seldom(5, p.crashes),
	}
}

// init makes runs longer than rapid's default: some of what matters needs a
// delivery, its failure, a commit and a crash.
func init() {
	if err := flag.Set("rapid.steps", "100"); err != nil {
		panic(err)
	}
}

// TestMachineAgainstModel holds the machine against the model. For longer runs:
// go test -run AgainstModel -rapid.checks=20000 -rapid.steps=200
func TestMachineAgainstModel(t *testing.T) {
	const rounds = 3 // of the default 100 runs each
	for _, ordered := range []bool{false, true} {
		for round := range rounds {
			t.Run(fmt.Sprintf("ordered=%v/%d", ordered, round), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					p := newPair(t, ordered)
					p.attach(t)
					t.Repeat(p.actions())
					p.drain(t)
				})
			})
		}
	}
}

package delivery

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// rig is a small shell: a log of numbered records, streams with windows and
// handlers, a store that always works, fake time.
type rig struct {
	t       *testing.T
	set     Settings
	m       *Machine
	now     time.Time
	end     int64 // the log holds 0 to end-1
	ids     uint64
	saved   offsetstore.Value
	streams map[StreamID]*rigStream
	cursor  int
	sends   map[int64][]rigSend
	dead    []Dead
	maxWait int
	handle  func(*rig, rigSend)
	told    map[int64]bool // durable
	acks    map[uint64]int64
	batch   int
	grain   time.Duration // sleeps at least this long at a time
}

type rigStream struct {
	window  Window
	timeout time.Duration
}

// rigSend is a delivery.
type rigSend struct {
	s       StreamID
	id      uint64
	off     int64
	attempt int32
	at      time.Time
	first   uint64
}

func newRig(t *testing.T, set Settings, records int64) *rig {
	r := &rig{
		t: t, set: set, now: scriptStart, end: records, ids: 1, batch: 16, streams: map[StreamID]*rigStream{},
		sends: map[int64][]rigSend{}, told: map[int64]bool{}, acks: map[uint64]int64{}, handle: func(*rig, rigSend) {},
	}
	r.m = New(set, r.saved, r.now, rand.New(rand.NewPCG(7, 7)))
	return r
}

func (r *rig) attach(s StreamID, window int, timeout time.Duration) {
	r.streams[s] = &rigStream{window: Window{MaxRecords: window, MaxBytes: -1}, timeout: timeout}
	r.m.Attach(s, timeout)
}

func (r *rig) detach(s StreamID, broken bool) {
	delete(r.streams, s)
	r.m.Detach(r.now, s, broken)
}

// crash loses all but what is committed and the high mark.
func (r *rig) crash() {
	r.saved.High = max(r.saved.High, r.m.High())
	r.m = New(r.set, r.saved, r.now, rand.New(rand.NewPCG(7, 7)))
	r.streams = map[StreamID]*rigStream{}
	r.acks = map[uint64]int64{}
}

// pump does all that can be done now.
func (r *rig) pump() {
	for r.commit() || r.bury() || r.sendRetries() || r.sendNew() {
		r.maxWait = max(r.maxWait, r.m.Stats().Waiting)
	}
}

func (r *rig) commit() bool {
	if !r.m.Dirty() {
		return false
	}
	v := r.m.Snapshot()
	if v.Position < r.saved.Position {
		r.t.Fatalf("position goes down from %d to %d", r.saved.Position, v.Position)
	}
	r.saved = v
	for _, a := range r.m.EndCommit(r.now, true) {
		ids := map[uint64]bool{}
		for i := range uint64(64) {
			ids[a.First+i] = a.Mask&(1<<i) != 0
		}
		for id := range ids {
			if off, ok := r.acks[id]; ok && ids[id] {
				r.told[off] = true
			}
		}
	}
	return true
}

func (r *rig) bury() bool {
	dead := r.m.Dead()
	for _, d := range dead {
		r.dead = append(r.dead, d)
		r.m.Finish(d.Offset)
	}
	return len(dead) > 0
}

// pick is the stream with the most room, one that holds nothing where it should
// be; none: 0.
func (r *rig) pick() (StreamID, int) {
	ids := slices.Sorted(maps.Keys(r.streams))
	if _, must, ok := r.m.Beside(); ok {
		spare := slices.DeleteFunc(slices.Clone(ids), func(s StreamID) bool { return r.m.Holds(s) > 0 })
		if len(spare) > 0 || must {
			ids = spare
		}
	}
	var free []int
	for _, s := range ids {
		free = append(free, r.streams[s].window.Free())
	}
	i := Pick(free, r.cursor)
	if i < 0 {
		return 0, 0
	}
	r.cursor = i + 1
	return ids[i], min(free[i], r.batch)
}

func (r *rig) sendRetries() bool {
	s, free := r.pick()
	if free == 0 {
		return false
	}
	var items []Item
	for _, it := range r.m.Next(free) {
		if r.m.Confirm(it.Offset, 0) == Send {
			items = append(items, it)
		}
	}
	return r.send(s, items)
}

func (r *rig) sendNew() bool {
	s, free := r.pick()
	var items []Item
	for off := r.m.NextNew(); off < r.end && len(items) < free; off++ {
		if r.m.Offer(off, 0) != Send {
			break
		}
		items = append(items, Item{Offset: off, Attempt: 1})
	}
	return r.send(s, items)
}

func (r *rig) send(s StreamID, items []Item) bool {
	if len(items) == 0 {
		return false
	}
	first := r.ids
	r.ids += uint64(len(items))
	var offs []int64
	for _, it := range items {
		offs = append(offs, it.Offset)
		if r.told[it.Offset] {
			r.t.Fatalf("offset %d comes again though DURABLE was told", it.Offset)
		}
	}
	r.m.Sent(s, first, offs)
	r.m.Handed(r.now, s, first)
	if !r.streams[s].window.Reserve(len(items), 0) {
		r.t.Fatalf("window of stream %d has no room for %d", s, len(items))
	}
	for i, it := range items {
		d := rigSend{s, first + uint64(i), it.Offset, it.Attempt, r.now, first}
		r.sends[it.Offset] = append(r.sends[it.Offset], d)
		if r.streams[s] != nil {
			r.handle(r, d)
		}
	}
	return true
}

// ack acks a delivery, which frees its slot at once.
func (r *rig) ack(d rigSend) Outcome {
	o := r.m.Ack(r.now, d.s, d.first, 1<<(d.id-d.first))
	if o.Waiting != 0 {
		r.acks[d.id] = d.off
		r.release(d.s, 1)
	}
	return o
}

func (r *rig) nack(d rigSend) Outcome {
	o := r.m.Nack(r.now, d.s, d.first, 1<<(d.id-d.first), -1, false, "handler failed")
	if o.Waiting != 0 {
		r.release(d.s, 1)
	}
	return o
}

func (r *rig) release(s StreamID, n int) {
	if st := r.streams[s]; st != nil {
		st.window.Release(n, 0)
	}
}

// sleep lets time pass, waking up when the machine wants to.
func (r *rig) sleep(d time.Duration) {
	end := r.now.Add(d)
	r.pump()
	for {
		at, ok := r.m.Deadline()
		if at = later(at, r.now.Add(r.grain)); !ok || at.After(end) {
			break
		}
		r.tick(at)
		r.pump()
	}
	r.tick(end)
	r.pump()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *rig) tick(now time.Time) {
	r.now = now
	for _, g := range r.m.Tick(now) {
		for i := range uint64(64) {
			if g.Mask&(1<<i) != 0 {
				r.release(g.Stream, 1)
			}
		}
	}
}

// attempts are the numbers that were shown with an offset.
func (r *rig) attempts(off int64) []int32 {
	var out []int32
	for _, d := range r.sends[off] {
		out = append(out, d.attempt)
	}
	return out
}

// allDone checks that nothing is left anywhere.
func (r *rig) allDone() {
	r.t.Helper()
	s := r.m.Stats()
	if r.m.Position() != r.end || s.InFlight+s.Waiting+s.Held+s.Dying != 0 || r.m.Dirty() {
		r.t.Fatalf("position %d of %d, %+v", r.m.Position(), r.end, s)
	}
}

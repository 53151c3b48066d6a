package delivery

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// keyed delivers a log of keyed records in order, one delivery a batch, with
// nacks, failed commits and crashes at random.
type keyed struct {
	t     *testing.T
	rnd   *rand.Rand
	m     *Machine
	now   time.Time
	n     int64
	id    uint64
	saved offsetstore.Value
	out   []keyedSend
	first []int64 // the order of first deliveries
}

type keyedSend struct {
	id  uint64
	off int64
}

func (k *keyed) key(off int64) uint64 { return uint64(off*off)%7 + 1 }

// finished tells whether off is finished on disk.
func (k *keyed) finished(off int64) bool {
	for _, r := range k.saved.Finished {
		if r.Contains(off) {
			return true
		}
	}
	return off < k.saved.Position
}

func (k *keyed) start() {
	set := Settings{Ordered: true, MaxAttempts: 1000, Jitter: -1, Backoff: []time.Duration{time.Second}}
	k.m = New(set, k.saved, k.now, nil)
	k.m.Attach(1, time.Minute)
	k.out = nil
}

// deliver sends what may be sent, old or new.
func (k *keyed) deliver() {
	var offs []int64
	for _, it := range slices.Clone(k.m.Next(5)) {
		if k.m.Confirm(it.Offset, k.key(it.Offset)) == Send {
			offs = append(offs, it.Offset)
		}
	}
	if next := k.m.NextNew(); len(offs) == 0 && next < k.n && k.m.Offer(next, k.key(next)) == Send {
		offs = append(offs, next)
	}
	for _, off := range offs {
		k.check(off)
		k.m.Sent(1, k.id, []int64{off})
		k.m.Handed(k.now, 1, k.id)
		k.out = append(k.out, keyedSend{k.id, off})
		k.id++
	}
}

// check fails if off overtakes a record of its key.
func (k *keyed) check(off int64) {
	for p := range off {
		if k.key(p) == k.key(off) && !k.finished(p) {
			k.t.Fatalf("%d is sent while %d of its key is unfinished", off, p)
		}
	}
	if !slices.Contains(k.first, off) {
		k.first = append(k.first, off)
	}
}

// answer acks or nacks one of those out.
func (k *keyed) answer() {
	if len(k.out) == 0 {
		return
	}
	i := k.rnd.IntN(len(k.out))
	if k.rnd.IntN(4) == 0 {
		k.m.Nack(k.now, 1, k.out[i].id, 1, -1, false, "")
	} else {
		k.m.Ack(k.now, 1, k.out[i].id, 1)
	}
	k.out = slices.Delete(k.out, i, i+1)
}

func (k *keyed) commit() {
	if !k.m.Dirty() {
		return
	}
	v := k.m.Snapshot()
	ok := k.rnd.IntN(5) > 0
	if ok {
		k.saved = v
	}
	k.m.EndCommit(k.now, ok)
}

// TestC38_NoOvertakingInKey: with nacks, failed commits and crashes, while a
// record of a key is unfinished no later one is sent, and other keys go on.
func TestC38_NoOvertakingInKey(t *testing.T) {
	k := &keyed{t: t, rnd: rand.New(rand.NewPCG(3, 8)), now: scriptStart, n: 400, id: 1}
	for run := 0; k.saved.Position < k.n; run++ {
		if run > 500 {
			t.Fatalf("only %d of %d are finished", k.saved.Position, k.n)
		}
		k.start()
		for range k.rnd.IntN(120) {
			k.deliver()
			k.answer()
			k.now = k.now.Add(300 * time.Millisecond)
			k.m.Tick(k.now)
			k.commit()
		}
		k.saved.High = max(k.saved.High, k.m.High())
	}
	if slices.IsSorted(k.first) {
		t.Error("no key ever went on while another was held up")
	}
}

// TestKillHeld: a dead letter among those held back does not stop its key.
func TestKillHeld(t *testing.T) {
	m := New(Settings{Ordered: true}, offsetstore.Value{}, scriptStart, nil)
	m.Attach(1, time.Minute)
	for off := range int64(4) {
		m.Offer(off, 9)
	}
	m.Sent(1, 1, []int64{0})
	m.Kill(1, ReasonTooLarge, "")
	m.Finish(2)
	if dead := m.Dead(); len(dead) != 1 || dead[0].Offset != 1 || dead[0].Attempts != 0 {
		t.Fatalf("dead letters %+v", dead)
	}
	m.Ack(scriptStart, 1, 1, 1)
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	if next := m.Next(9); len(next) != 1 || next[0] != (Item{3, 1, false}) {
		t.Fatalf("Next = %v", next)
	}
	m.Finish(1, 3)
	if m.Position() != 4 || len(m.lanes)+len(m.laneOf)+len(m.hist) != 0 {
		t.Fatalf("position %d, %d lanes of %d offsets, %d records", m.Position(), len(m.lanes), len(m.laneOf), len(m.hist))
	}
}

// TestConfirm: what an ordered machine says of offsets in other states.
func TestConfirm(t *testing.T) {
	m := New(Settings{Ordered: true}, offsetstore.Value{High: 3}, scriptStart, nil)
	m.Attach(1, time.Minute)
	if v := m.Confirm(1, 5); v != Hold || m.unknown.n != 3 {
		t.Fatalf("a key is learned before lower ones: %d", v)
	}
	for off := range int64(3) {
		if v := m.Confirm(off, 5); v != Hold {
			t.Fatalf("Confirm(%d) = %d", off, v)
		}
	}
	m.Snapshot()
	m.EndCommit(scriptStart, true)
	for off, want := range []Verdict{Send, Skip, Skip} {
		if v := m.Confirm(int64(off), 5); v != want {
			t.Errorf("Confirm(%d) = %d, want %d", off, v, want)
		}
	}
	m.Finish(0)
	m.Sent(1, 1, []int64{0})
	if v := m.Confirm(0, 5); v != Skip {
		t.Errorf("Confirm of a finished one = %d", v)
	}
}

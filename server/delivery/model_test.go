package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// model is the machine once more, slow and obvious: a map entry per offset and
// one per delivery, everything else counted anew each time it is asked for.
type model struct {
	set        Settings
	armAhead   int
	epoch      uint64
	next, high int64
	start      int64 // offsets below it were finished at the start
	offs       map[int64]*mOff
	dels       map[uint64]*mDel
	streams    map[StreamID]time.Duration
	now        time.Time
	changed    bool
	committing bool
	stale      bool
	snap       *mSaved // of the commit under way
	saved      *mSaved // of the last one that succeeded
}

type place uint8

const (
	pOffered place = iota
	pQueued
	pArming
	pArmed
	pFlight
	pDying
)

type mOff struct {
	key                 uint64
	unknown             bool // the key, after a restart
	place               place
	sent, spent, breaks int32
	unsent              bool
	due                 time.Time
	firm                bool // finished for good
	yielded, unsure     bool
}

type mState uint8

const (
	dOut mState = iota
	dLate
	dAck
	dNack
	dGone
)

type mDel struct {
	stream    StreamID
	first     uint64
	bit       uint64
	off       int64
	state     mState
	wasLate   bool // acked late
	orphan    bool
	committed bool // its answer is in the commit under way
	deadline  time.Time
	handed    bool
	extended  bool
	oldSpent  int32
	oldBreaks int32
}

// mSaved is what a commit saves.
type mSaved struct {
	epoch    uint64
	floor    int64
	finished map[int64]bool
	attempts map[int64]offsetstore.Attempt
}

func newModel(set Settings, start int64, now time.Time) *model {
	m := &model{set: set.normal(), armAhead: armAhead, start: start, next: start, high: start, now: now,
		offs: map[int64]*mOff{}, dels: map[uint64]*mDel{}, streams: map[StreamID]time.Duration{}}
	m.saved = &mSaved{floor: start, finished: map[int64]bool{}, attempts: map[int64]offsetstore.Attempt{}}
	return m
}

func (m *model) sorted() []int64 { return slices.Sorted(maps.Keys(m.offs)) }

func (m *model) finished(off int64) bool {
	if off < m.start {
		return true
	}
	o := m.offs[off]
	if o == nil {
		return false
	}
	if o.firm {
		return true
	}
	for _, d := range m.dels {
		if d.off == off && d.state == dAck {
			return true
		}
	}
	return false
}

func (m *model) durable(off int64) bool {
	return off < m.saved.floor || m.saved.finished[off]
}

func (m *model) position() int64 {
	p := m.start
	for m.finished(p) {
		p++
	}
	return p
}

// count counts unfinished offsets.
func (m *model) count(is func(*mOff) bool) int {
	n := 0
	for off, o := range m.offs {
		if !m.finished(off) && is(o) {
			n++
		}
	}
	return n
}

func (m *model) inFlight() int {
	n := 0
	for _, d := range m.dels {
		if d.state == dOut {
			n++
		}
	}
	return n
}

func (m *model) offered() int {
	return m.count(func(o *mOff) bool { return o.place == pOffered })
}

func (m *model) idle() bool { return m.inFlight() == 0 && m.offered() == 0 }

// blocked: ordered, a lower offset of the same key is unfinished.
func (m *model) blocked(off int64) bool {
	o := m.offs[off]
	if !m.set.Ordered || o.key == 0 {
		return false
	}
	for p, q := range m.offs {
		if p < off && q.key == o.key && !q.unknown && !m.finished(p) {
			return true
		}
	}
	return false
}

func (m *model) ready(off int64) bool {
	o := m.offs[off]
	return o.place == pQueued && !o.unknown && !o.due.After(m.now) && !m.finished(off) && !m.blocked(off)
}

func (m *model) readyOnes(suspects bool) []int64 {
	var out []int64
	for _, off := range m.sorted() {
		if m.ready(off) && (m.offs[off].breaks >= 2) == suspects {
			out = append(out, off)
		}
	}
	return out
}

// lone is the suspect on its way to an answer; nil: none.
func (m *model) lone() (int64, *mOff) {
	for _, off := range m.sorted() {
		o := m.offs[off]
		if o.breaks >= 2 && o.place >= pArming && o.place <= pFlight && !m.finished(off) {
			return off, o
		}
	}
	return 0, nil
}

func (m *model) toArm() []int64 {
	if _, lone := m.lone(); lone != nil || len(m.streams) == 0 {
		return nil
	}
	n := m.count(func(o *mOff) bool { return o.place == pArming || o.place == pArmed })
	if s := m.readyOnes(true); len(s) > 0 {
		if n == 0 && m.idle() {
			return s[:1]
		}
		return nil
	}
	r := m.readyOnes(false)
	if n > m.armAhead/2 {
		return nil
	}
	return r[:min(len(r), m.armAhead-n)]
}

func (m *model) dirty() bool { return !m.committing && (m.changed || len(m.toArm()) > 0) }

func (m *model) waiting() int {
	n := 0
	for off, o := range m.offs {
		if m.finished(off) {
			continue
		}
		held := o.place == pQueued && m.blocked(off)
		if o.place >= pQueued && o.place <= pArmed && (o.unknown || (!o.unsent && !held)) {
			n++
		}
	}
	return n
}

func (m *model) heldOnly() int {
	n := 0
	for off, o := range m.offs {
		if o.place == pQueued && !o.unknown && !m.finished(off) && m.blocked(off) {
			n++
		}
	}
	return n
}

func (m *model) paused(off int64) bool {
	_, lone := m.lone()
	return lone != nil || len(m.readyOnes(true)) > 0 ||
		m.count(func(o *mOff) bool { return o.unknown }) > 0 ||
		(m.waiting() > 0 && m.waiting()+m.inFlight()+m.offered() >= m.set.MaxWaiting) ||
		(m.position() < m.next && off-m.position() >= m.set.MaxAhead)
}

// keyTaken: an offset of the key is not finished for good.
func (m *model) keyTaken(key uint64) bool {
	for _, o := range m.offs {
		if o.key == key && !o.unknown && !o.firm {
			return true
		}
	}
	return false
}

func (m *model) offer(off int64, key uint64) Verdict {
	if off < m.next {
		return Skip
	}
	if m.finished(off) {
		m.pass(off + 1)
		return Skip
	}
	if m.paused(off) {
		return Full
	}
	o := &mOff{key: key, place: pOffered, unsent: true, due: m.now}
	if m.set.Ordered && key != 0 && m.keyTaken(key) {
		if m.heldOnly() >= m.set.LookAhead {
			return Full
		}
		o.place = pQueued
	}
	m.pass(off)
	m.next = off + 1
	m.offs[off] = o
	if o.place == pQueued {
		return Hold
	}
	return Send
}

func (m *model) pass(next int64) {
	before := m.position()
	for ; m.next < next; m.next++ {
		m.firm(m.next)
	}
	m.changed = m.changed || m.position() != before
}

func (m *model) firm(off int64) {
	if m.offs[off] == nil {
		m.offs[off] = &mOff{}
	}
	m.offs[off].firm = true
	m.offs[off].unknown = false
}

func (m *model) finish(off int64) {
	if off < m.start {
		return
	}
	if !m.finished(off) {
		m.changed = true
	}
	m.firm(off)
}

func (m *model) nextItems() []Item {
	var out []Item
	if off, o := m.lone(); o != nil {
		if o.place == pArmed && m.idle() {
			out = append(out, Item{off, o.sent, true})
		}
		return out
	}
	for _, off := range m.sorted() {
		if o := m.offs[off]; o.place == pArmed && !m.finished(off) {
			out = append(out, Item{off, o.sent, false})
		}
	}
	for _, off := range m.sorted() {
		if o := m.offs[off]; o.unknown && !m.finished(off) {
			out = append(out, Item{off, o.sent + 1, false})
		}
	}
	return out
}

func (m *model) confirm(off int64, key uint64) Verdict {
	o := m.offs[off]
	switch {
	case !m.set.Ordered:
		return Send
	case m.finished(off):
		return Skip
	case o.unknown:
		o.key, o.unknown = key, false
		return Hold
	}
	return Send
}

func (m *model) sendAll(s StreamID, first uint64, offs []int64) {
	for i, off := range offs {
		o := m.offs[off]
		if o.place == pOffered {
			o.sent = 1
		}
		o.place, o.unsent = pFlight, false
		m.high = max(m.high, off+1)
		m.dels[first+uint64(i)] = &mDel{stream: s, first: first, bit: 1 << i, off: off}
	}
}

func (m *model) handed(s StreamID, first uint64) {
	for _, d := range m.dels {
		if d.stream == s && d.first == first && d.state == dOut && !d.extended {
			d.handed, d.deadline = true, m.now.Add(m.streams[s])
		}
	}
}

// batch lists the deliveries of a batch that mask names, in order.
func (m *model) batch(s StreamID, first, mask uint64) []*mDel {
	var out []*mDel
	for i := range uint64(64) {
		if d := m.dels[first+i]; mask&(1<<i) != 0 && d != nil && d.first == first && d.stream == s && !d.orphan {
			out = append(out, d)
		}
	}
	return out
}

func (m *model) answer(s StreamID, first, mask uint64, ack bool, nack func(*mDel)) Outcome {
	var o Outcome
	for _, d := range m.batch(s, first, mask) {
		switch d.state {
		case dAck, dNack:
			if ack == (d.state == dAck) {
				o.Waiting |= d.bit
			}
			continue
		case dGone:
			continue
		case dLate:
			if !ack {
				continue
			}
		}
		switch {
		case m.finished(d.off) && m.durable(d.off):
			o.Done |= d.bit
			d.state = dGone
		case ack || m.finished(d.off):
			o.Waiting |= d.bit
			d.wasLate = d.state == dLate
			d.state = dAck
			m.changed = true
		default:
			o.Waiting |= d.bit
			d.state = dNack
			nack(d)
			m.changed = true
		}
	}
	o.Unknown = mask &^ (o.Waiting | o.Done)
	return o
}

func (m *model) ack(s StreamID, first, mask uint64) Outcome {
	return m.answer(s, first, mask, true, nil)
}

func (m *model) nack(s StreamID, first, mask uint64, delay time.Duration, dead bool) Outcome {
	return m.answer(s, first, mask, false, func(d *mDel) {
		o := m.offs[d.off]
		d.oldSpent, d.oldBreaks = o.spent, o.breaks
		o.unsure = true
		o.spent++
		o.breaks = 0
		if dead {
			o.spent = int32(m.set.MaxAttempts)
		}
		if delay < 0 {
			delay = m.set.Backoff[min(int(o.spent), len(m.set.Backoff))-1]
			defer func() { delay = -1 }()
		}
		m.requeue(o, m.now.Add(delay))
	})
}

func (m *model) requeue(o *mOff, due time.Time) {
	o.due = due
	o.place = pQueued
	if int(o.spent) >= m.set.MaxAttempts {
		o.place, o.due = pDying, m.now
	}
}

func (m *model) extend(s StreamID, first, mask uint64, by time.Duration) Outcome {
	var o Outcome
	for _, d := range m.batch(s, first, mask) {
		switch d.state {
		case dOut:
			d.deadline, d.extended = m.now.Add(by), true
			o.Waiting |= d.bit
		case dAck, dNack:
			o.Waiting |= d.bit
		}
	}
	o.Unknown = mask &^ o.Waiting
	return o
}

// release takes a delivery's offset out of flight.
func (m *model) release(off int64, w why) {
	o := m.offs[off]
	if o.firm {
		return
	}
	if m.finished(off) {
		if o.place == pFlight {
			o.place, o.due = pQueued, m.now
		}
		return
	}
	m.changed = true
	switch w {
	case timedOut:
		o.spent++
	case brokeWithOthers, brokeAlone:
		m.breakCosts(o, w == brokeAlone)
	}
	m.requeue(o, m.now)
}

func (m *model) breakCosts(o *mOff, alone bool) {
	o.breaks++
	if !alone && int(o.spent)+1 >= m.set.MaxAttempts {
		o.breaks = max(o.breaks, 2)
		return
	}
	o.spent++
}

func (m *model) tick(now time.Time) map[uint64]bool {
	m.now = now
	out := map[uint64]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if d.state == dOut && !d.deadline.IsZero() && !d.deadline.After(now) {
			d.state = dLate
			out[id] = true
			m.release(d.off, timedOut)
		}
	}
	return out
}

func (m *model) deadline() (t time.Time, ok bool) {
	consider := func(at time.Time) {
		if !at.IsZero() && (!ok || at.Before(t)) {
			t, ok = at, true
		}
	}
	for _, d := range m.dels {
		if d.state == dOut {
			consider(d.deadline)
		}
	}
	for off, o := range m.offs {
		if o.place == pQueued && !o.unknown && !m.finished(off) && o.due.After(m.now) && !m.blocked(off) {
			consider(o.due)
		}
	}
	return t, ok
}

func (m *model) detach(s StreamID, broken bool) {
	w := endedCleanly
	if broken {
		w = brokeWithOthers
		if m.inFlight() == 1 {
			w = brokeAlone
		}
	}
	delete(m.streams, s)
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if d.stream != s || d.orphan {
			continue
		}
		d.orphan = true
		if d.state == dOut {
			d.state = dGone
			m.release(d.off, w)
		}
		if d.state == dLate {
			d.state = dGone
		}
	}
}

func (m *model) kill(off int64) {
	o := m.offs[off]
	if o == nil || m.finished(off) || o.place == pFlight || o.place == pDying {
		return
	}
	if o.place == pArmed {
		o.sent--
	}
	o.place, o.unknown, o.due = pDying, false, m.now
	m.changed = true
}

func (m *model) dead() map[int64]int32 {
	out := map[int64]int32{}
	for off, o := range m.offs {
		if o.place == pDying && !o.yielded && !o.unsure && !m.finished(off) {
			o.yielded = true
			out[off] = o.sent
		}
	}
	return out
}

func (m *model) snapshot() *mSaved {
	for _, off := range m.toArm() {
		m.offs[off].place = pArming
	}
	m.committing, m.changed = true, false
	s := &mSaved{epoch: m.epoch, floor: m.position(), finished: map[int64]bool{}, attempts: map[int64]offsetstore.Attempt{}}
	for off, o := range m.offs {
		if m.finished(off) {
			s.finished[off] = true
			continue
		}
		if o.place == pOffered || off >= m.high {
			continue
		}
		a := offsetstore.Attempt{Sent: o.sent, Spent: o.spent, Breaks: o.breaks}
		switch o.place {
		case pArming:
			a.Sent++
		case pArmed, pFlight:
		default:
			a.Due = o.due.UnixMilli()
		}
		s.attempts[off] = a
	}
	for _, d := range m.dels {
		d.committed = d.committed || d.state == dAck || d.state == dNack
	}
	m.snap = s
	return s
}

// endCommit returns what is told: id → durable.
func (m *model) endCommit(ok bool) map[uint64]bool {
	told := map[uint64]bool{}
	if !m.committing {
		return told
	}
	m.committing = false
	if m.stale {
		m.stale = false
		return told
	}
	if ok {
		m.saved = m.snap
	} else {
		m.changed = true
	}
	m.endArming(ok)
	var orphans []int64
	for _, id := range slices.Sorted(maps.Keys(m.dels)) {
		d := m.dels[id]
		if !d.committed {
			continue
		}
		d.committed = false
		told[id] = ok
		if m.endDelivery(d, ok) {
			orphans = append(orphans, d.off)
		}
	}
	for _, off := range orphans {
		m.release(off, endedCleanly)
	}
	return told
}

func (m *model) endArming(ok bool) {
	for _, o := range m.offs {
		if o.place != pArming {
			continue
		}
		o.place = pQueued
		if ok {
			o.place = pArmed
			o.sent++
		}
	}
}

// endDelivery decides an answered delivery; true: nobody holds its offset.
func (m *model) endDelivery(d *mDel, ok bool) bool {
	o := m.offs[d.off]
	was := d.state
	switch {
	case ok && was == dAck:
		o.firm = true
		d.state = dGone
		return false
	case ok:
		o.unsure = false
		d.state = dGone
		return false
	case was == dAck && d.wasLate:
		d.state = dLate
	case was == dAck:
		d.state = dOut
	case was == dNack:
		d.state = dOut
		o.spent, o.breaks, o.unsure = d.oldSpent, d.oldBreaks, false
		o.place = pFlight
	}
	if d.orphan {
		out := d.state == dOut
		d.state = dGone
		return out
	}
	if d.state == dOut {
		d.deadline, d.extended = m.now.Add(m.streams[d.stream]), true
	}
	return false
}

func (m *model) reset(epoch uint64, position int64) map[uint64]bool {
	stale := map[uint64]bool{}
	for id, d := range m.dels {
		if d.state == dAck || d.state == dNack {
			stale[id] = true
		}
	}
	fresh := newModel(m.set, position, m.now)
	fresh.armAhead, fresh.epoch, fresh.streams = m.armAhead, epoch, m.streams
	fresh.changed, fresh.committing, fresh.stale = true, m.committing, m.committing
	fresh.saved = &mSaved{epoch: epoch, floor: position, finished: map[int64]bool{}}
	*m = *fresh
	return stale
}

// crash is what a machine knows that is made of the saved value and a mark.
func (m *model) crash(set Settings, saved *mSaved, high int64, now time.Time) {
	fresh := newModel(set, saved.floor, now)
	fresh.armAhead, fresh.epoch, fresh.saved = m.armAhead, saved.epoch, saved
	fresh.high = max(high, saved.floor)
	for off := range saved.finished {
		if off >= saved.floor {
			fresh.firm(off)
		}
	}
	fresh.next = max(fresh.high, fresh.position())
	var crashed []*mOff
	for off := saved.floor; off < fresh.high; off++ {
		if fresh.finished(off) {
			continue
		}
		a, ok := saved.attempts[off]
		if !ok {
			a = offsetstore.Attempt{Sent: 1}
		}
		o := &mOff{place: pQueued, sent: a.Sent, spent: a.Spent, breaks: a.Breaks, due: now, unsent: a.Sent == 0 && set.Ordered}
		if a.Due > 0 {
			longest := now.Add(slices.Max(fresh.set.Backoff))
			if due := time.UnixMilli(a.Due); due.After(now) {
				o.due = due
				if due.After(longest) {
					o.due = longest
				}
			}
		} else {
			crashed = append(crashed, o)
		}
		fresh.offs[off] = o
	}
	for _, o := range crashed {
		if int(o.spent) < fresh.set.MaxAttempts {
			o.unsent, o.sent = false, max(o.sent, 1)
			fresh.breakCosts(o, len(crashed) == 1)
		}
	}
	for _, o := range fresh.offs {
		if o.firm {
			continue
		}
		if int(o.spent) >= fresh.set.MaxAttempts {
			o.place, o.due = pDying, now
			fresh.changed = true
			continue
		}
		o.unknown = fresh.set.Ordered
	}
	*m = *fresh
}

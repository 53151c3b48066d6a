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
	m := &model{
		set: set.normal(), armAhead: armAhead, start: start, next: start, high: start, now: now,
		offs: map[int64]*mOff{}, dels: map[uint64]*mDel{}, streams: map[StreamID]time.Duration{},
	}
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

// mayGo tells whether a suspect may be sent: alone, or when it has waited for
// what others hold.
func (m *model) mayGo(o *mOff) bool {
	switch {
	case m.offered() > 0:
		return false
	case m.inFlight() == 0:
		return true
	case m.now.Before(o.due.Add(suspectPatience)):
		return false
	}
	if int(o.spent)+1 < m.set.MaxAttempts {
		return true
	}
	for s := range m.streams {
		if m.holds(s) == 0 {
			return true
		}
	}
	return false
}

// holds counts what is in flight on a stream.
func (m *model) holds(s StreamID) int {
	n := 0
	for _, d := range m.dels {
		if d.state == dOut && d.stream == s && !d.orphan {
			n++
		}
	}
	return n
}

// impatient is the suspect that waits for others; nil: none.
func (m *model) impatient() *mOff {
	if _, o := m.lone(); o != nil {
		if o.place == pArmed {
			return o
		}
		return nil
	}
	if s := m.readyOnes(true); len(s) > 0 {
		return m.offs[s[0]]
	}
	return nil
}

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
		if n == 0 && m.mayGo(m.offs[s[0]]) {
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

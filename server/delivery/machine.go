package delivery

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offset"
)

// Machine is the delivery state of one subscriber in one partition. It is not
// safe for concurrent use. Its methods never block.
//
// Offsets that are delivered for the first time cost nothing but their place
// in a batch. Only those that failed, came back or were restored have a record
// of their own.
type Machine struct {
	set   Settings
	rnd   *rand.Rand
	start time.Time // times inside are ns since it
	clock time.Time // the latest time told
	now   int64

	epoch uint64
	next  int64   // NextNew
	high  int64   // no offset at or above it was ever sent
	track tracker // finished offsets, durable or not

	streams  map[StreamID]*stream
	offered  []int64 // answered Send by Offer, not yet sent; rising
	inFlight int     // bits outstanding in all batches
	lates    []*batch
	sweepAt  int
	free     []*batch
	alarms   alarms

	hist      map[int64]*rec // by offset
	order     recList        // all of hist by offset
	counts    [states]int    // records by state
	turns     int            // of them ready to armed for their first delivery
	ready     pool
	suspects  pool
	armed     recList
	armAhead  int
	lone      *rec // the suspect that is arming, armed or in flight
	unyielded []*rec

	lanes   map[uint64]*lane // ordered: by key
	laneOf  map[int64]*lane  // ordered: of unfinished offsets with a key
	unknown backlog          // ordered: restored, the key not read yet

	changed    bool // since the last Snapshot
	committing bool
	stale      bool      // Reset came into the commit under way
	cur        []pending // answers for the next commit
	commit     []pending // answers of the commit under way
	arming     []*rec    // armed by it, if it succeeds

	attemptsBefore int  // how many the last Snapshot had
	saving         mark // what it saves as finished
	durable        mark // what is saved as finished

	items    []Item
	quiesced bool // no more retries are armed
	held     bool // no suspect is
}

// Defaults of Settings.
const (
	defaultMaxAttempts = 6
	defaultJitter      = 0.2
	defaultMaxWaiting  = 1000
	defaultMaxAhead    = 100_000
	defaultLookAhead   = 10_000
	defaultTimeout     = 30 * time.Second
)

// normal returns s with its defaults filled in, sharing nothing.
func (s Settings) normal() Settings {
	s.MaxAttempts = orDefault(s.MaxAttempts, defaultMaxAttempts)
	s.MaxWaiting = orDefault(s.MaxWaiting, defaultMaxWaiting)
	s.MaxAhead = orDefault(s.MaxAhead, defaultMaxAhead)
	s.LookAhead = orDefault(s.LookAhead, defaultLookAhead)
	if s.Jitter == 0 {
		s.Jitter = defaultJitter
	}
	s.Jitter = min(max(s.Jitter, 0), 1)
	s.Backoff = slices.Clone(s.Backoff)
	if len(s.Backoff) == 0 {
		s.Backoff = []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	}
	return s
}

func orDefault[T int | int64](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// at notes the time.
func (m *Machine) at(now time.Time) {
	m.clock = now
	m.now = int64(now.Sub(m.start))
}

// after is the time d from now, never beyond the end of time.
func (m *Machine) after(d time.Duration) int64 {
	if int64(d) > math.MaxInt64-max(m.now, 0) {
		return math.MaxInt64
	}
	return m.now + int64(d)
}

// wallTime is a time d ns from now, which is in ms since 1970, in the same unit;
// at least 1.
func wallTime(now, d int64) int64 { return max(1, now+d/int64(time.Millisecond)) }

// NextNew is the lowest offset that was not offered yet.
func (m *Machine) NextNew() int64 { return m.next }

// Epoch of the value.
func (m *Machine) Epoch() uint64 { return m.epoch }

// High is the high mark: no offset at or above it was ever sent.
func (m *Machine) High() int64 { return m.high }

// Position is the floor, what is not durable yet included.
func (m *Machine) Position() int64 { return m.track.floor }

// Finished tells whether an offset is finished, durable or not.
func (m *Machine) Finished(off int64) bool { return m.track.has(off) }

// Attach adds a stream. Deliveries sent on it are due ackTimeout after Handed;
// not above 0: 30 s. Of a stream that is attached it changes the timeout.
func (m *Machine) Attach(s StreamID, ackTimeout time.Duration) {
	if ackTimeout <= 0 {
		ackTimeout = defaultTimeout
	}
	if st := m.streams[s]; st != nil {
		st.timeout = ackTimeout
		return
	}
	m.streams[s] = &stream{id: s, timeout: ackTimeout}
}

// Detach removes a stream and gives back what it holds, to be sent at once in
// offset order. broken: it costs each of them an attempt (and may make it a
// dead letter only if it was alone in flight) and counts a break; two breaks
// make a suspect. What is committing stays so; its answers are still returned
// by EndCommit.
func (m *Machine) Detach(now time.Time, s StreamID, broken bool) {
	m.at(now)
	st := m.streams[s]
	if st == nil {
		return
	}
	delete(m.streams, s)
	why := endedCleanly
	if broken {
		why = brokeWithOthers
		if m.brokeAlone(st) {
			why = brokeAlone
		}
	}
	for b := range st.table.each {
		m.orphan(b, why)
	}
}

// Reset moves the position on purpose: all state of the old epoch is dropped,
// answers that wait for a commit too (they are returned: tell them STALE).
// The new value is dirty until committed. Streams stay attached; what they
// held holds no slot of a window any more, and is unknown from now on. A
// commit under way must still be ended; it does not save the new value.
func (m *Machine) Reset(epoch uint64, position int64) []Given {
	var stale []Given
	for _, p := range append(m.commit, m.cur...) {
		stale = append(stale, Given{p.b.id, p.b.first, p.mask})
	}
	old := *m
	*m = *empty(old.set, old.start, old.rnd)
	m.clock, m.now = old.clock, old.now
	for id, st := range old.streams {
		m.streams[id] = &stream{id: id, timeout: st.timeout}
	}
	m.epoch, m.next, m.high = epoch, position, position
	m.track.floor, m.durable.floor = position, position
	m.changed = true
	m.committing = old.committing
	m.stale = old.committing
	return stale
}

// Raise finishes everything below min: retention has removed it.
func (m *Machine) Raise(min int64) {
	m.Absent(offset.Range{First: m.lowest(), Last: min - 1})
	m.next = max(m.next, min)
}

// lowest is the lowest offset that may become unfinished again: a failed
// commit takes the floor back to the durable one, never further.
func (m *Machine) lowest() int64 { return min(m.durable.floor, m.track.floor) }

// empty is a machine without a value.
func empty(set Settings, start time.Time, rnd *rand.Rand) *Machine {
	m := &Machine{
		set: set, rnd: rnd, start: start, clock: start,
		streams: map[StreamID]*stream{},
		hist:    map[int64]*rec{},
		sweepAt: minSweep, armAhead: armAhead,
	}
	m.armed.want = armed
	m.ready.list.want, m.suspects.list.want = ready, suspect
	if set.Ordered {
		m.lanes, m.laneOf = map[uint64]*lane{}, map[int64]*lane{}
	}
	return m
}

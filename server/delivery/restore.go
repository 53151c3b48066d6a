package delivery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// New makes a machine out of a stored value. What lies unfinished below the
// high mark was in flight when the process died and has spent an attempt by
// it, except what Attempts says was waiting (Due > 0): that keeps its count
// and its due time, brought forward to at most the longest backoff from now unless
// v.Absent shows that the wall clock was not set back meanwhile.
// What has no attempt left is a dead letter at once: for the reason BROKEN if it
// was alone in flight, else SPENT (the budget was lowered, or its letter was
// under way). rnd is the machine's own from now on; nil: no
// jitter.
func New(set Settings, v offsetstore.Value, now time.Time, rnd *rand.Rand) *Machine {
	m := empty(set.normal(), now, rnd)
	m.epoch = v.Epoch
	m.track.floor = v.Position
	for _, r := range v.Finished {
		m.track.add(r)
	}
	m.durable.set(&m.track)
	m.high = max(v.High, v.Position)
	m.next = max(m.high, m.track.floor)
	runs := m.unfinished(v.Attempts)
	alone, longest := crashedAlone(runs), slices.Max(m.set.Backoff)
	if v.Absent > 0 && v.Absent <= now.UnixMilli() {
		longest = math.MaxInt64
	}
	for _, r := range runs {
		m.restore(r, alone, longest)
	}
	return m
}

// unfinished cuts what is unfinished below the high mark into runs of equal
// attempts. Those without an entry were delivered once.
func (m *Machine) unfinished(attempts []offsetstore.Attempt) []offsetstore.Attempt {
	var out []offsetstore.Attempt
	i := 0
	m.track.gaps(m.high, func(gap offset.Range) {
		for gap.Len() > 0 {
			for i < len(attempts) && attempts[i].Last < gap.First {
				i++
			}
			run := offsetstore.Attempt{Range: gap, Sent: 1}
			if i < len(attempts) && attempts[i].Len() > 0 {
				a := attempts[i]
				if a.Contains(gap.First) {
					run = a
					run.Range = offset.Range{First: gap.First, Last: min(gap.Last, a.Last)}
				} else {
					run.Last = min(gap.Last, a.First-1)
				}
			}
			out = append(out, run)
			gap.First = run.Last + 1
		}
	})
	return out
}

// crashedAlone tells whether one offset alone was in flight in the crash.
func crashedAlone(runs []offsetstore.Attempt) bool {
	var n int64
	for _, r := range runs {
		if r.Due <= 0 {
			n += r.Len()
		}
	}
	return n == 1
}

// restore takes in a run of unfinished offsets, which wait no longer than longest.
func (m *Machine) restore(a offsetstore.Attempt, alone bool, longest time.Duration) {
	r := run{Range: a.Range, sent: max(a.Sent, 0), spent: max(a.Spent, 0), breaks: max(a.Breaks, 0)}
	reason := ReasonSpent
	switch {
	case int(r.spent) >= m.set.MaxAttempts:
	case a.Due > 0:
		r.due, r.cause = m.dueAgain(a.Due, longest), causeOfWaiting(a)
	default:
		reason = ReasonBroken
		r.sent = max(r.sent, 1)
		r.spent, r.breaks = m.breakCosts(r.spent, r.breaks, alone)
	}
	switch {
	case int(r.spent) >= m.set.MaxAttempts:
		m.restoreDying(r, reason)
	case m.set.Ordered:
		m.unknown.push(r)
	case r.due > m.now:
		m.restoreWaiting(r)
	case r.breaks >= suspectBreaks:
		r.due = m.now
		m.suspects.back.push(r)
	default:
		m.ready.back.push(r)
	}
}

// dueAgain is a stored due time as one of this machine; one that has passed is
// 0, which lets neighbours stay one run. The wall clock may have been set back since:
// so there is a longest wait.
func (m *Machine) dueAgain(ms int64, longest time.Duration) int64 {
	wait := ms - m.clock.UnixMilli()
	if wait <= 0 {
		return 0
	}
	return m.after(min(longest, time.Duration(min(wait, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond))
}

func (m *Machine) restoreWaiting(r run) {
	for off := r.First; off <= r.Last; off++ {
		m.move(m.adopt(r.rec(off)), waiting)
	}
}

func (m *Machine) restoreDying(r run, reason string) {
	detail := fmt.Sprintf("found at start: %d attempts spent, %d allowed", r.spent, m.set.MaxAttempts)
	for off := r.First; off <= r.Last; off++ {
		m.die(m.adopt(r.rec(off)), reason, detail)
	}
}

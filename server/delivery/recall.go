package delivery

import (
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Recall takes in the offsets of a, which begin at NextNew or above, as ones
// that went through what a tells under other offsets: a log that hands a record
// out again gives it a new place. It is for them what New is for what lies
// below the high mark, with the same meaning of Due and of alone: whether a
// crash found nothing else in flight. asked is how long they were to wait when that
// was stored: they wait no longer, nor than the longest backoff. What is passed over
// counts as finished.
func (m *Machine) Recall(now time.Time, a offsetstore.Attempt, alone bool, asked time.Duration) {
	if a.Len() == 0 || a.First < m.next {
		return
	}
	m.at(now)
	m.pass(a.First)
	m.next = a.Last + 1
	m.high = max(m.high, m.next)
	m.changed = true
	m.restore(a, alone, max(asked, slices.Max(m.set.Backoff)))
}

// Pressing is how many offsets are to be sent again as soon as possible: they
// will take slots of the streams' windows.
func (m *Machine) Pressing() int {
	n := m.counts[ready] + m.counts[suspect] + m.counts[arming] + m.counts[armed]
	return n + int(m.ready.back.n+m.suspects.back.n+m.unknown.n)
}

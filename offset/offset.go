// Package offset holds the arithmetic of log offsets: ranges of them and sets
// kept as sorted, disjoint ranges. It is pure: no goroutine, clock or I/O.
package offset

import "fmt"

// None stands for "no offset": the log's own cursor when given to a read.
const None int64 = -1

// Range is a range of offsets, both ends included. First > Last is no range.
type Range struct{ First, Last int64 }

// Len is the number of offsets in r; 0 for no range.
func (r Range) Len() int64 {
	if r.Last < r.First {
		return 0
	}
	return r.Last - r.First + 1
}

// Contains tells whether o lies in r.
func (r Range) Contains(o int64) bool { return r.First <= o && o <= r.Last }

// String writes r as "first-last", a single offset as itself.
func (r Range) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

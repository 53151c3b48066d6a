// Package delivery decides what a subscriber gets next from one partition: it
// is the state machine of deliveries, acks, retries and the floor of finished
// offsets. It is pure: time and randomness are arguments, results are values;
// there is no goroutine, clock, lock or I/O in it.
//
// One Machine serves one subscriber in one partition. Its shell owns it from
// one goroutine, feeds it what happened and does what it says, in this order:
//
//	Offer / Next+Confirm ─► Sent ─► high mark noted ─► frames written ─► Handed
//	Ack, Nack ─► Snapshot ─► committed to disk ─► EndCommit ─► answers told
//
// States of an offset below NextNew:
//
//	in flight ──ack──► committing ──EndCommit(true)──► finished
//	    │ ▲                └──────EndCommit(false)──► in flight again
//	    │ └──Sent── armed ◄──EndCommit(true)── ready ◄──due── waiting
//	    └──nack, timeout, detach──► waiting or ready, or dying when the budget
//	                                is spent; dying ──Finish──► finished
//
// The attempt of a retry is on disk before its frame is written: a ready offset
// is armed by the next successful commit, and only armed ones are sent.
package delivery

import (
	"math/rand/v2"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// StreamID names a stream within this process.
type StreamID uint64

// MaxBatch is the most deliveries that one Sent may cover: the bits of a mask.
const MaxBatch = 64

// Settings belong to the subscriber of a topic. Zero values mean the default.
type Settings struct {
	// MaxAttempts is the budget: the failure of the last one makes a dead
	// letter. Default 6.
	MaxAttempts int
	// Backoff are the waits after the first, second, … failure by nack; the
	// last one repeats. Default 1, 2, 4, 8, 16 s.
	Backoff []time.Duration
	// Jitter spreads each wait evenly over ±Jitter of it. Default 0.2;
	// negative: none.
	Jitter float64
	// MaxWaiting bounds the offsets that wait for a retry; at the bound
	// nothing new is delivered. Default 1,000.
	MaxWaiting int
	// MaxAhead bounds how far above the floor new deliveries go. Default
	// 100,000 offsets.
	MaxAhead int64
	// Ordered: per key one offset unfinished at a time.
	Ordered bool
	// LookAhead bounds the offsets held back for their key's turn. Default
	// 10,000.
	LookAhead int
}

// Verdict answers Offer and Confirm.
type Verdict uint8

const (
	// Send: put it into the next Sent.
	Send Verdict = iota
	// Skip: it is finished, or under way otherwise; go on with the next.
	Skip
	// Hold: it waits for its key's turn (ordered); Next yields it then.
	Hold
	// Full: a limit is reached, or a suspect must go alone; offer it again
	// after the machine has changed. NextNew has not moved.
	Full
)

// Item is an offset below NextNew that may be sent now.
type Item struct {
	Offset int64
	// Attempt is the number to show: 1 for the first delivery.
	Attempt int32
	// Alone: send it in a batch of its own.
	Alone bool
}

// Given names deliveries: bit i of Mask is the delivery First + i.
type Given struct {
	Stream StreamID
	First  uint64
	Mask   uint64
}

// Outcome says what an Ack, Nack or Extend did with the deliveries it named.
// The masks are disjoint and cover what was asked.
type Outcome struct {
	// Waiting: taken; answered by EndCommit.
	Waiting uint64
	// Done: the offset was finished and durable before; answer DURABLE now.
	Done uint64
	// Unknown: not outstanding here.
	Unknown uint64
}

// Answer says what to tell a stream after a commit.
type Answer struct {
	Given
	// Durable, else to be repeated: the deliveries are in flight again.
	Durable bool
}

// Dead is an offset whose budget is spent, or that is not to be tried again.
type Dead struct {
	Offset   int64
	Attempts int32
	// Reason is a word in capitals (NACKED, TIMEOUT, BROKEN, REQUESTED,
	// TOO_LARGE), for NACKED and REQUESTED with the client's own reason.
	Reason, Detail string
}

// Stats are what operators see.
type Stats struct {
	Epoch         uint64
	Position      int64 // durable floor
	High          int64
	InFlight      int       // deliveries outstanding, committing ones not counted
	Waiting       int       // offsets waiting, ready or armed for a retry
	FinishedAhead int64     // offsets finished above Position
	Held          int       // ordered: offsets held back for their key
	Dying         int       // dead letters under way
	OldestSent    time.Time // when the oldest outstanding delivery was handed over; zero: none
	PausedBy      string    // "", "max_waiting", "max_ahead", "suspect", "look_ahead"
}

// Machine is the delivery state of one subscriber in one partition. It is not
// safe for concurrent use. Its methods never block.
type Machine struct{}

// New makes a machine out of a stored value. What lies unfinished below the
// high mark was in flight when the process died and has spent an attempt by
// it, except what Attempts says was waiting (Due > 0): that keeps its count
// and its due time, brought forward to at most the longest backoff from now.
// rnd is the machine's own from now on.
func New(set Settings, v offsetstore.Value, now time.Time, rnd *rand.Rand) *Machine {
	return &Machine{}
}

// Attach adds a stream. Deliveries sent on it are due ackTimeout after Handed.
func (m *Machine) Attach(s StreamID, ackTimeout time.Duration) {}

// Detach removes a stream and gives back what it holds, to be sent at once in
// offset order. broken: it costs each of them an attempt (and may make it a
// dead letter only if it was alone in flight) and counts a break; two breaks
// make a suspect. What is committing stays so; its answers are still returned
// by EndCommit.
func (m *Machine) Detach(now time.Time, s StreamID, broken bool) {}

// NextNew is the lowest offset that was not offered yet.
func (m *Machine) NextNew() int64 { return 0 }

// Offer asks whether a record that is read for the first time may be sent.
// Offsets come in order, at or above NextNew; what is passed over does not
// exist in the log and counts as finished. key is the hash of the record's
// key, 0 for none; it matters only when ordered. After Send the shell must
// call Sent with it, or Finish.
func (m *Machine) Offer(off int64, key uint64) Verdict { return Full }

// Pass says that nothing exists in [NextNew, next): it counts as finished.
func (m *Machine) Pass(next int64) {}

// Next lists up to max offsets below NextNew that may be sent now, in offset
// order: armed retries, and ordered ones whose turn has come. It does not
// change anything; the slice is valid until the next call of any method.
func (m *Machine) Next(max int) []Item { return nil }

// Confirm asks, after the record of an Item was read, whether to send it.
// Only ordered machines may answer Hold or Skip.
func (m *Machine) Confirm(off int64, key uint64) Verdict { return Full }

// Sent notes a batch of at most MaxBatch deliveries with consecutive ids from
// first on: offs[i] has id first+i. All are either of Offer or of Next. The
// slice is not kept. The high mark (High) must be noted durably enough before
// the frames are written.
func (m *Machine) Sent(s StreamID, first uint64, offs []int64) {}

// Handed says that the batch that begins with first was handed to the
// transport: its ack deadline starts.
func (m *Machine) Handed(now time.Time, s StreamID, first uint64) {}

// Ack finishes deliveries of the batch that begins with first. A late ack, of
// a delivery that timed out since, finishes the offset just as well, whoever
// holds it now.
func (m *Machine) Ack(now time.Time, s StreamID, first, mask uint64) Outcome { return Outcome{} }

// Nack gives deliveries back. delay < 0: the backoff. dead: no further try.
func (m *Machine) Nack(now time.Time, s StreamID, first, mask uint64, delay time.Duration, dead bool, reason string) Outcome {
	return Outcome{}
}

// Extend moves the deadline of deliveries to now + by.
func (m *Machine) Extend(now time.Time, s StreamID, first, mask uint64, by time.Duration) Outcome {
	return Outcome{}
}

// Tick lets time pass: deliveries beyond their deadline are given back (or are
// dead letters), waiting ones become ready. It returns the deliveries that
// hold no slot of their stream's window any more; a late ack of them is still
// taken.
func (m *Machine) Tick(now time.Time) []Given { return nil }

// Deadline is when Tick has something to do next; ok is false for never.
func (m *Machine) Deadline() (t time.Time, ok bool) { return t, ok }

// Finish finishes offsets without an ack: filtered out, expired, lost to
// retention, or dead-lettered. Offsets that are finished already are no error.
func (m *Machine) Finish(offs ...int64) {}

// Kill makes an offset that is offered, waiting or armed a dead letter, unsent.
func (m *Machine) Kill(off int64, reason, detail string) {}

// Dead yields the dead letters that were not yielded yet, in offset order.
// After the letter is durable the shell calls Finish; if it cannot be, Undead
// makes Dead yield it again.
func (m *Machine) Dead() []Dead { return nil }

// Undead puts a yielded dead letter back.
func (m *Machine) Undead(off int64) {}

// Dirty tells whether there is something to commit and no commit under way.
func (m *Machine) Dirty() bool { return false }

// Snapshot begins a commit: it returns the value to store, without Log and
// Absent. It must be followed by EndCommit before the next Snapshot. The
// slices are the caller's.
func (m *Machine) Snapshot() offsetstore.Value { return offsetstore.Value{} }

// EndCommit ends the commit that Snapshot began. ok: what was in it is
// durable; else nothing of it is, and what was acked or nacked in it is in
// flight again with a new deadline and no attempt spent. It returns what to
// tell the streams, adjacent answers joined.
func (m *Machine) EndCommit(now time.Time, ok bool) []Answer { return nil }

// Reset moves the position on purpose: all state of the old epoch is dropped,
// answers that wait for a commit too (they are returned: tell them STALE).
// The new value is dirty until committed.
func (m *Machine) Reset(epoch uint64, position int64) []Given { return nil }

// Raise finishes everything below min: retention has removed it.
func (m *Machine) Raise(min int64) {}

// Epoch of the value.
func (m *Machine) Epoch() uint64 { return 0 }

// High is the high mark: no offset at or above it was ever sent.
func (m *Machine) High() int64 { return 0 }

// Position is the floor, what is not durable yet included.
func (m *Machine) Position() int64 { return 0 }

// Finished tells whether an offset is finished, durable or not.
func (m *Machine) Finished(off int64) bool { return false }

// Stats returns what operators see.
func (m *Machine) Stats() Stats { return Stats{} }

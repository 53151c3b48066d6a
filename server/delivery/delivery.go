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
// is armed by the next successful commit, and only armed ones are sent. First
// attempts are covered by the high mark: what is unfinished below it after a
// crash, and not saved as waiting, was in flight.
//
// An offset has two counters. Sent is the attempt that is shown; it rises with
// each delivery. Spent counts against the budget: nacks, timeouts and breaks
// cost, a stream or server that ended cleanly does not. A break, of a stream or
// of the server, spends the last attempt only of an offset that was alone in
// flight. In two breaks it becomes a suspect: it is sent when nothing else is
// in flight, and nothing else is sent while it is. What clients hold for long
// it waits for 10 s; then it goes beside it, on a stream of its own if there is
// one, and is alone in the break of that stream. An answer, ack or nack, clears
// it, a timeout does not. So a record that kills its clients is found, and its
// neighbours never die with it.
//
// Ordered, an offset is held back while an earlier one of its key is
// unfinished, also while the ack of that is not durable yet.
package delivery

import "time"

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
	// MaxWaiting bounds the offsets that wait for a retry. While any waits,
	// nothing new is delivered that would bring those waiting and those in
	// flight together to the bound, so it holds even if all of them fail. Only
	// what was in flight while none waited may exceed it. Default 1,000.
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
	// Waiting: taken; answered by EndCommit, except of Extend.
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
	// Held are those that hold a slot of their stream's window again: not the
	// ones that had timed out, nor any of a stream that is gone.
	Held uint64
	// Nack: it answers nacks, else acks.
	Nack bool
}

// Dead is an offset whose budget is spent, or that is not to be tried again.
type Dead struct {
	Offset int64
	// Attempts is how often it was delivered.
	Attempts int32
	// Reason is one of the Reason constants or what Kill was given. Detail is,
	// for NACKED and REQUESTED, the client's own reason.
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
	// PausedBy is what pauses new deliveries: "", "max_waiting", "max_ahead",
	// "suspect", "look_ahead", or "keys" (ordered: after a start the keys of
	// what was unfinished are read first).
	PausedBy string
}

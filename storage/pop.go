package storage

import (
	"context"
	"errors"
	"time"
)

// ErrUnsupported: the log cannot do this, as it is or as it is set up. The text
// names the log and says what to set or do.
var ErrUnsupported = errors.New("not supported")

// Popper is a log that hands records out to groups instead of being read by
// position, as RocketMQ 5 does (RIP-19, POP): each record goes to one popper of
// a group, is invisible to the others for a while, and is handed out again
// unless it is acked (Acker). A log that is a Popper is an Acker too.
//
// The mesh has a technical group for each subscriber of a topic. All methods
// may be called concurrently, also for one group.
type Popper interface {
	// OpenGroup sees to it that a group of a topic is there. Only when it was
	// not, spec.Start is applied: to every partition, and in force before it
	// returns. It says what it did. ctx bounds it.
	//
	// Errors: ErrTopicNotFound; ErrGroupKind when the group is there and of
	// the other kind; ErrUnsupported when the group must be made, or the
	// start applied, and the log cannot: the text says what to do;
	// ErrUnavailable, ErrClosed.
	OpenGroup(ctx context.Context, spec GroupSpec) (Group, error)

	// Pop takes up to req.Max records of all partitions of a topic that are
	// visible to the group into batch, which is reset first. It returns as
	// soon as there is one, whichever partition it is in, else after req.Wait
	// with an empty batch and no error. Records are invisible to the group
	// for req.Invisible from then on. Their ID, Handle, Partition and CheckKey
	// are set; Next and Start of the batch mean nothing. Order is that of the
	// partition within what one Pop returns.
	//
	// When ctx ends, what was taken for the caller may come again only after
	// req.Invisible.
	//
	// Errors: ErrTopicNotFound, ErrTopicChanged, ErrGroupNotFound, ErrInvalid,
	// ErrUnavailable, ErrClosed, ctx.Err(). After an error batch is empty.
	Pop(ctx context.Context, req PopRequest, batch *Batch) error

	// Renew keeps popped records invisible for that long from now. Each gets
	// a new handle, which replaces the old one: an old one has no effect any
	// more, whatever is answered for it. The result has an entry for each
	// handle, in their order; one that is not OK is known no more, its record
	// was or will be handed out again, unless it has a handle all the same. With
	// an error nothing is known: what is returned is nil and the old handles may
	// still be good.
	Renew(ctx context.Context, handles []any, invisible time.Duration) ([]Renewed, error)

	// Release makes popped records visible again, at once or as soon as the
	// log can. Handles that are known no more are no error.
	Release(ctx context.Context, handles []any) error
}

// GroupAdmin is a Popper whose groups can be moved and removed.
type GroupAdmin interface {
	// MoveGroup sets where a group goes on in every partition of a topic, and
	// returns from where to where. It is in force for every Pop that begins
	// after it returns; what was popped before is not recalled. An offset is
	// corrected into the bounds. dryRun: nothing is changed.
	//
	// Errors: ErrTopicNotFound, ErrGroupNotFound, ErrUnsupported,
	// ErrUnavailable, ErrClosed.
	MoveGroup(ctx context.Context, topic, group string, to GroupStart, dryRun bool) ([]GroupMove, error)

	// GroupOffsets tells how far a group is in every partition of a topic.
	// Errors: as MoveGroup.
	GroupOffsets(ctx context.Context, topic, group string) ([]GroupOffset, error)

	// DeleteGroup removes a group with all that the log knows of it; one that
	// is not there is no error. Errors: ErrUnsupported, ErrUnavailable,
	// ErrClosed.
	DeleteGroup(ctx context.Context, topic, group string) error
}

// Errors of a Popper.
var (
	// ErrGroupNotFound: there is no such group.
	ErrGroupNotFound = errors.New("group not found")
	// ErrGroupKind: the group is ordered and should not be, or the other way
	// round.
	ErrGroupKind = errors.New("group is of the other kind")
)

// GroupSpec describes the group of a subscriber.
type GroupSpec struct {
	// Topic and Group name it. Group is of ASCII letters, digits and '-'.
	Topic, Group string
	// Ordered: records of a partition are handed out in order, the next ones
	// after those before are acked.
	Ordered bool
	// Start is where a new group begins.
	Start GroupStart
}

// GroupStart is a place in a topic.
type GroupStart struct {
	// At says which of the other fields count.
	At     GroupAt
	Offset int64
	Time   time.Time
	Match  TimeMatch
}

// GroupAt says how a GroupStart is given.
type GroupAt uint8

// The ways to give a start.
const (
	// GroupDefault is LATEST where the log can place a new group, else where
	// the log begins by itself.
	GroupDefault GroupAt = iota
	GroupLatest
	GroupEarliest
	GroupOffsetAt
	GroupTimeAt
)

// Group says what OpenGroup found or did.
type Group struct {
	// Created: the group was not there before.
	Created bool
	// StartOpen: it was created where the log begins by itself, because the
	// log cannot place a group. Note says so, and what to set.
	StartOpen bool
	Note      string
}

// PopRequest says what to pop.
type PopRequest struct {
	Topic, Group string
	// TopicID, where not empty, is the identity that the caller expects the
	// topic to have; with another one Pop fails with ErrTopicChanged.
	TopicID string
	// Max is how many records at most, from 1. The log may have a lower bound
	// of its own.
	Max int
	// Invisible is for how long nobody else gets them. The log may have
	// bounds; outside them it fails with ErrInvalid and names them.
	Invisible time.Duration
	// Wait is how long to wait for a first record. 0: do not wait.
	Wait time.Duration
}

// Renewed is the outcome of Renew for one handle.
type Renewed struct {
	// Handle is the new one where OK. Else it is nil, or the old one: nothing
	// is known then of this one alone, and it may still be good.
	Handle any
	OK     bool
}

// GroupMove is what MoveGroup did in one partition. Offsets are what is handed
// out next.
type GroupMove struct {
	Partition          string
	From, To, Min, Max int64
}

// GroupOffset is how far a group is in one partition.
type GroupOffset struct {
	Partition string
	// Next is what the log hands out next, Acked the offset below which the
	// group has acked everything, as far as the log knows.
	Next, Acked, Min, Max int64
}

// Package storage is the contract between the mesh and a message log.
//
// A log holds topics; a topic holds partitions, named by strings; a partition
// holds records in order, each with a 64-bit offset of the log's own. Gaps
// between offsets are normal. The log is only a durable queue: who has
// finished what is kept elsewhere.
//
// Backend is what every log can do. What only some can do is an interface of
// its own (TopicAdmin, Bounder, Acker, …), found with As, which looks through
// wrappers. Package storagetest holds every backend to this contract.
package storage

import (
	"context"
	"time"
)

// Backend is a message log. All methods may be called concurrently.
type Backend interface {
	// Name is the backend's name in settings and messages: "embedded".
	Name() string

	// Append puts events at the end of a topic, each into the partition that
	// its key selects, and reports their fate to done: once, from any
	// goroutine, possibly before Append returns. OK means durable. Calls of
	// one goroutine keep their order within a partition (and within a key).
	//
	// Append itself does not wait for the disk or the network; it may wait,
	// bounded by ctx, for room in a queue. When it returns an error, done is
	// not called and nothing was appended. ctx bounds the wait of Append
	// only, not that of the write.
	//
	// The events and their memory belong to the backend until done is called.
	// done must not block.
	//
	// Errors: ErrTopicNotFound (and the topic may not be made), ErrTooLarge,
	// ErrReadOnly, ErrClosed.
	Append(ctx context.Context, topic string, events []Event, done AppendDone) error

	// Poll reads records of one partition in offset order into batch, which
	// is reset first. It returns as soon as there is one record, or it has come
	// to the end past offsets that hold none; else after req.Wait with an empty
	// batch and no error. One Poll at a time may be under way with Start =
	// Cursor for a partition; any number with explicit offsets.
	//
	// Errors: ErrTopicNotFound, ErrPartitionNotFound, ErrTopicChanged, a
	// *RangeError when Start is outside what the log holds, ErrClosed,
	// ctx.Err(). After an error batch is empty.
	Poll(ctx context.Context, req PollRequest, batch *Batch) error

	// Cursor is the pull offset of a partition: what Poll with Start = Cursor
	// reads next. ok is false when nothing has set it yet, or when what was
	// kept of it could not be read: align it with Seek.
	Cursor(topic, partition string) (next int64, ok bool)

	// Seek sets the pull offset. It takes effect for the next Poll; one under
	// way does not overwrite it.
	Seek(ctx context.Context, topic, partition string, next int64) error

	// Topic describes a topic. Errors: ErrTopicNotFound.
	Topic(ctx context.Context, topic string) (Topic, error)

	// EnsureTopic describes a topic and makes it first, where the backend may
	// and it is missing. Errors: ErrTopicNotFound with what to create.
	EnsureTopic(ctx context.Context, topic string) (Topic, error)

	// Topics describes all topics, in order of name.
	Topics(ctx context.Context) ([]Topic, error)

	// Close saves the pull offsets, ends what is under way (Poll returns
	// ErrClosed, waiting appends are written or fail) and frees everything.
	// It waits for the backend's goroutines. A second Close returns nil.
	Close() error
}

// Cursor as PollRequest.Start reads from the backend's own pull offset, which
// then moves past what was returned. One that nothing has set begins at the
// lowest offset held.
const Cursor int64 = -1

// Event is one record to append.
type Event struct {
	// Key selects the partition: equal keys, equal partition, as long as the
	// number of partitions stays the same. Empty: the backend spreads events,
	// in runs.
	Key string
	// Frame is a valid binary EventMesh frame.
	Frame []byte
	// DedupKey, where not empty, names the event (source and id): a repeat
	// within the backend's window may be answered with the first one's place.
	DedupKey string
}

// AppendDone takes the fate of the events of one Append, in their order. The
// slice is the receiver's. err is what befell all of them; where it is nil
// each result has its own.
type AppendDone func(results []Appended, err error)

// OffsetUntold is Appended.Offset where the log does not tell it, as RocketMQ 5
// does not of its lite topics.
const OffsetUntold int64 = -1

// Appended says what became of one event.
type Appended struct {
	// Partition and Offset tell where the record is. Valid when Err is nil.
	Partition string
	Offset    int64 // OffsetUntold: the log does not tell
	// Err is why the event is not stored.
	Err error
	// Duplicate: the event had been appended before; this is that one's place.
	Duplicate bool
}

// PollRequest says what to read.
type PollRequest struct {
	Topic, Partition string
	// TopicID, where not empty, is the identity that the caller expects the
	// topic to have; with another one Poll fails with ErrTopicChanged.
	TopicID string
	// Start is the lowest offset to return, or Cursor.
	Start int64
	// MaxRecords and MaxBytes bound the batch; at least one record is
	// returned however large. 0 or less: the backend's default.
	MaxRecords, MaxBytes int
	// Wait is how long to wait for a first record. 0: do not wait.
	Wait time.Duration
}

// Default sets the bounds that the request leaves open.
func (r *PollRequest) Default(records, bytes int) {
	if r.MaxRecords <= 0 {
		r.MaxRecords = records
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = bytes
	}
}

// Batch is what Poll read. It is the caller's and may be used again: its
// memory is then reused, so nothing of it may be kept.
type Batch struct {
	// Records are in offset order.
	Records []Record
	// Next is the offset to read after this batch. It may be beyond the last
	// record + 1: there is nothing in between.
	Next int64
	// Start is the offset that the batch begins at: what was asked for, or
	// the cursor. There are no records between it and the first.
	Start int64
	// Buf holds the records' bytes; backends append to it.
	Buf []byte
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Records)
	b.Records, b.Buf, b.Next, b.Start = b.Records[:0], b.Buf[:0], 0, 0
}

// Record is one record of a log.
type Record struct {
	Offset int64
	// Time is when it was appended, in ms since 1970. It never runs back
	// within a partition of the embedded log; elsewhere it may.
	Time int64
	// Frame is a valid binary EventMesh frame, a part of Batch.Buf.
	Frame []byte
	// ID is the log's own stable identity of the message where offset is not
	// one; else empty.
	ID string
	// Handle is what Acker.Ack takes. Opaque; nil where the log takes no ack.
	Handle any
	// LeaderEpoch is that of the leader that took the record: it rises when
	// another one takes over, which may lack records that the one before had.
	// Always the same where the log has no such number.
	LeaderEpoch int32
	// Plain: the backend has looked, and no attribute's name begins with "em"
	// (frame.ParseOwn). false says nothing: whoever must know looks for itself.
	Plain bool

	// The fields below are set by Popper.Pop only.

	// Partition is where a popped record is now: it may be another one than
	// the record was appended to, when it is handed out again.
	Partition string
	// CheckKey names the record's receipt in text: what the frame carries as
	// empopck. At most frame.MaxValueLen bytes of UTF-8.
	CheckKey string
	// DeliveryCount is how often the log has handed the record out to the group,
	// this time included; 0: not known.
	DeliveryCount int
}

// Topic describes a topic.
type Topic struct {
	Name string
	// ID differs after the topic was deleted and made again. Empty where the
	// backend has no such identity.
	ID string
	// Partitions are the names, in the backend's order.
	Partitions []string
	// Lite: it is a parent of lite topics (Liter) and has no partitions.
	Lite bool
}

// TimeMatch says which record a time means.
type TimeMatch int

const (
	// Nearest is the record with the nearest time; of several, the first;
	// the end for a time after the last record.
	Nearest TimeMatch = iota
	// AtOrAfter is the first record of that time or later; the end if none.
	AtOrAfter
)

// Bounder knows the bounds of partitions and finds offsets by time.
type Bounder interface {
	// Bounds returns the lowest offset held and the offset that the next
	// record will get. Equal: empty. Errors: ErrTopicNotFound,
	// ErrPartitionNotFound, ErrUnknown when the log cannot tell now.
	Bounds(ctx context.Context, topic, partition string) (min, max int64, err error)
	// OffsetByTime finds the offset that a time of append means. In an empty
	// partition it is the maximum.
	OffsetByTime(ctx context.Context, topic, partition string, t time.Time, m TimeMatch) (int64, error)
}

// TopicAdmin makes and removes topics.
type TopicAdmin interface {
	// CreateTopic makes a topic. Errors: ErrTopicExists, ErrInvalid.
	CreateTopic(ctx context.Context, topic string, cfg TopicConfig) (Topic, error)
	// DeleteTopic removes a topic with its records and pull offsets. Errors:
	// ErrTopicNotFound.
	DeleteTopic(ctx context.Context, topic string) error
}

// TopicConfig describes a new topic.
type TopicConfig struct {
	// Partitions: 1 to 1,024; 0: the backend's default.
	Partitions int
	// Retention is how long records are kept; 0: the backend's.
	Retention time.Duration
}

// Acker is a log that must be told when a record is finished.
type Acker interface {
	// Ack tells the log that records are finished. Handles that the log does
	// not know any more are no error: their result is false. Where err is not
	// nil, the handles whose result is true are acked, and the others may be
	// tried again; known may then be shorter than handles.
	Ack(ctx context.Context, handles []any) (known []bool, err error)
}

// Fingerprinter identifies the record before an offset, so that a log that
// was cut or replaced under a stored position is noticed.
type Fingerprinter interface {
	// Fingerprint is Record.Fingerprint of the record at the highest offset
	// below next, as Poll returns it. ok is false when there is no such record
	// any more, or none ever. Errors: ErrTopicNotFound, ErrPartitionNotFound,
	// ErrUnknown when the log cannot tell now.
	Fingerprint(ctx context.Context, topic, partition string, next int64) (f Fingerprint, ok bool, err error)
}

// Trimmer drops old records on request, where a log can.
type Trimmer interface {
	// Trim moves a partition's minimum up to before, at once for readers;
	// space is freed later. Below the minimum: nothing; above the maximum:
	// ErrInvalid.
	Trim(ctx context.Context, topic, partition string, before int64) error
}

// Checkpointer saves its pull offsets on request.
type Checkpointer interface {
	// Checkpoint saves all pull offsets, durably, and waits for it.
	Checkpoint(ctx context.Context) error
}

// Wrapper is a Backend around another one.
type Wrapper interface{ Unwrap() Backend }

// As finds the capability T of b or of what b wraps. A wrapper that
// implements T itself comes first.
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		w, ok := b.(Wrapper)
		if !ok {
			break
		}
		b = w.Unwrap()
	}
	var zero T
	return zero, false
}

// AppendWait is Append that waits until the fate of the events is known or
// ctx ends; then their fate is open, and their memory stays the backend's.
func AppendWait(ctx context.Context, b Backend, topic string, events []Event) ([]Appended, error) {
	return await(ctx, func(done AppendDone) error { return b.Append(ctx, topic, events, done) })
}

// await calls append and waits for its report, or for ctx.
func await(ctx context.Context, append func(AppendDone) error) ([]Appended, error) {
	type fate struct {
		results []Appended
		err     error
	}
	ch := make(chan fate, 1)
	if err := append(func(r []Appended, err error) { ch <- fate{r, err} }); err != nil {
		return nil, err
	}
	select {
	case f := <-ch:
		return f.results, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

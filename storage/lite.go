package storage

import (
	"context"
	"errors"
	"fmt"
)

// ErrTopicType: the topic is of a type that cannot do this, as a parent of lite
// topics cannot be published to itself. The text says which type is needed.
var ErrTopicType = errors.New("topic is of another type")

// MaxLiteName is the longest name of a lite topic, in bytes.
const MaxLiteName = 64

// CheckLite tells whether s may name a lite topic: 1 to 64 bytes of A-Z, a-z,
// 0-9, '_' and '-', as RocketMQ 5 has them. what names the field in the error,
// which wraps ErrInvalid.
func CheckLite(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty: give 1 to %d bytes of A-Z, a-z, 0-9, _ and -: %w", what, MaxLiteName, ErrInvalid)
	case len(s) > MaxLiteName:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", what, len(s), MaxLiteName, ErrInvalid)
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return fmt.Errorf("%s %q has %q: only A-Z, a-z, 0-9, _ and - are allowed: %w", what, s, c, ErrInvalid)
		}
	}
	return nil
}

// Liter is a log with lite topics: many small topics below one parent topic,
// each a sequence of records of its own with one queue, made on first use and
// cheap while nothing happens. The parent holds no records of its own that a
// Backend's other methods would show; its Topic.Lite is true and its Partitions
// are empty.
//
// A lite topic is read by position, whoever reads it. All methods may be called
// concurrently. Names of lite topics are those that CheckLite passes; others
// are refused with ErrInvalid.
type Liter interface {
	// LiteParent describes a parent, and makes it first where the log may and
	// it is missing. Errors: ErrTopicNotFound with what to create;
	// ErrTopicType; ErrUnsupported with what to set; ErrUnavailable, ErrClosed.
	LiteParent(ctx context.Context, parent string) (Topic, error)

	// EnsureLite makes a lite topic unless it is there. Errors: those of
	// LiteParent.
	EnsureLite(ctx context.Context, parent, lite string) error

	// AppendLite puts events at the end of a lite topic, which is made if it
	// is missing, in their order. It is Backend.Append in all else; keys mean
	// nothing, and Appended.Partition is the lite topic. Errors: those of
	// Append and of LiteParent.
	AppendLite(ctx context.Context, parent, lite string, events []Event, done AppendDone) error

	// PollLite reads records in offset order into batch, which is reset first.
	// req.Topic is the parent, req.Partition the lite topic, and req.Start an
	// offset, not Cursor. It does not wait for a record: with none it returns
	// an empty batch and no error; see AwaitLite. A lite topic that is not
	// there, or not any more, is an empty one: nothing comes, wherever reading
	// begins.
	//
	// Errors: those of Poll; a *RangeError only with bounds that the log knows
	// for certain, else ErrUnknown; ErrTopicType.
	PollLite(ctx context.Context, req PollRequest, batch *Batch) error

	// LiteBounds returns the lowest offset that a lite topic holds and the one
	// that its next record will get; 0 and 0 for one that is not there. Errors:
	// those of Bounds.
	LiteBounds(ctx context.Context, parent, lite string) (min, max int64, err error)

	// AwaitLite has arrived called once as soon as the lite topic may hold a
	// record at next or above, which may be before it returns, from any
	// goroutine. It may be called for nothing: where the log cannot tell, when
	// the parent was deleted, when the connection was lost. stop ends the wait;
	// arrived may be under way still. Neither AwaitLite nor stop blocks, and
	// arrived must not. Waiting for many lite topics of a parent is cheap.
	AwaitLite(parent, lite string, next int64, arrived func()) (stop func())

	// LiteCursor is the pull offset of a lite topic: up to where those who
	// read it here have finished. ok is false while nothing has set it, or when
	// what was kept of it could not be read.
	LiteCursor(parent, lite string) (next int64, ok bool)

	// SeekLite sets the pull offset. Nothing else moves it. It is saved as that
	// of a partition is: every checkpoint interval, by Checkpointer, and by
	// Close. It does not wait for the disk. Errors: ErrInvalid for an offset
	// below 0, ErrTopicNotFound, ErrClosed.
	SeekLite(parent, lite string, next int64) error

	// ForgetLite drops the pull offset of a lite topic that nobody reads here
	// any more.
	ForgetLite(parent, lite string)
}

// AppendLiteWait is AppendWait for a lite topic.
func AppendLiteWait(ctx context.Context, l Liter, parent, lite string, events []Event) ([]Appended, error) {
	return await(ctx, func(done AppendDone) error { return l.AppendLite(ctx, parent, lite, events, done) })
}

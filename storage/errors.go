package storage

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Errors of a Backend, to be matched with errors.Is. Backends wrap them with
// what, where and what to do.
var (
	// ErrTopicNotFound: there is no such topic.
	ErrTopicNotFound = errors.New("topic not found")
	// ErrPartitionNotFound: the topic has no such partition.
	ErrPartitionNotFound = errors.New("partition not found")
	// ErrTopicExists: there is such a topic already.
	ErrTopicExists = errors.New("topic exists")
	// ErrTopicChanged: the topic was deleted and made again.
	ErrTopicChanged = errors.New("topic was deleted and created again")
	// ErrInvalid: an argument is outside what is allowed.
	ErrInvalid = errors.New("invalid argument")
	// ErrTooLarge: a record is larger than the log takes.
	ErrTooLarge = errors.New("record too large")
	// ErrReadOnly: the log takes no writes now, because the disk is full or
	// failed. It heals by itself when the disk does.
	ErrReadOnly = errors.New("log takes no writes now")
	// ErrUnknown: the log cannot tell now; not the same as zero or absent.
	ErrUnknown = errors.New("not known now")
	// ErrUnavailable: the log cannot be reached now; try again.
	ErrUnavailable = errors.New("log is unavailable")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("log is damaged")
	// ErrLocked: another process has the data directory open.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrNewerFormat: a newer version of the program wrote the data.
	ErrNewerFormat = errors.New("data was written by a newer version")
	// ErrClosed: the backend is closed.
	ErrClosed = errors.New("log is closed")
)

// RangeError says that an offset is outside what a partition holds.
type RangeError struct {
	Topic, Partition string
	// Offset is what was asked for.
	Offset int64
	// Min and Max are the bounds: the lowest offset held, the next one to be
	// written.
	Min, Max int64
}

// Error names offset, place and bounds.
func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d of topic %q partition %q is outside %d..%d", e.Offset, e.Topic, e.Partition, e.Min, e.Max)
}

// MaxNameLen is the longest name of a topic, client, share or partition, in bytes.
const MaxNameLen = 255

// CheckName tells whether s may name a topic, client, share or partition: 1 to
// 255 bytes of UTF-8 without control characters. what names the field in the
// error, which wraps ErrInvalid.
func CheckName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty: give 1 to %d bytes: %w", what, MaxNameLen, ErrInvalid)
	case len(s) > MaxNameLen:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", what, len(s), MaxNameLen, ErrInvalid)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8: %w", what, ErrInvalid)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s has the control character %U: %w", what, r, ErrInvalid)
		}
	}
	return nil
}

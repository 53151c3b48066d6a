// Package offsetstore is the contract of the store that keeps what each
// subscriber has finished: the ack offset. It is apart from the pull offset,
// which says how far the log was read and lives with the log.
//
// Writes are conditional: within an epoch a position only moves up, and after
// a value is visible no lower one can be. Many writes share one transaction
// and one sync. Package offsetstoretest holds every store to this contract.
package offsetstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ackmesh/ackmesh/offset"
)

// Kind says what owns progress.
type Kind uint8

const (
	// KindClient is a client of its own (BROADCAST, MULTICAST).
	KindClient Kind = 1
	// KindShare is a share of clients (LOAD_BALANCE).
	KindShare Kind = 2
)

// String is "client" or "share".
func (k Kind) String() string {
	switch k {
	case KindClient:
		return "client"
	case KindShare:
		return "share"
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// Subscriber owns progress on a topic.
type Subscriber struct {
	Kind Kind
	// Name is the client id or the share's name; of the default share: empty.
	Name string
}

// String writes s as "client/NAME" or "share/NAME".
func (s Subscriber) String() string { return s.Kind.String() + "/" + s.Name }

// ParseSubscriber reads what String writes.
func ParseSubscriber(s string) (Subscriber, error) {
	kind, name, ok := strings.Cut(s, "/")
	switch {
	case ok && kind == "client":
		return Subscriber{KindClient, name}, nil
	case ok && kind == "share":
		return Subscriber{KindShare, name}, nil
	}
	return Subscriber{}, fmt.Errorf("subscriber %q is neither client/NAME nor share/NAME", s)
}

// Key names one ack offset. Stores encode it with length prefixes: every
// character that a name may have is legal in each part.
type Key struct {
	Topic      string
	Subscriber Subscriber
	Partition  string
}

// Value is what is known of a subscriber in a partition.
type Value struct {
	// Epoch is raised by each reset. Values compare by (Epoch, Position).
	Epoch uint64
	// Position is the next offset to deliver: all below it is finished.
	Position int64
	// Finished are the offsets finished above Position: sorted, disjoint.
	Finished []offset.Range
	// High is the high mark: no offset at or above it was ever delivered.
	High int64
	// Attempts tells of unfinished offsets below High whose count is not the
	// plain one (delivered once, no failure): sorted, disjoint.
	Attempts []Attempt
	// Log identifies the log that the offsets are of.
	Log LogID
	// Absent is when the subscriber's last stream ended, in ms since 1970; 0
	// while it has one, or when unknown.
	Absent int64
}

// Attempt tells what unfinished offsets went through.
type Attempt struct {
	offset.Range
	// Sent is how often they were delivered, or are about to be.
	Sent int32
	// Spent is how many of their attempts count against the budget.
	Spent int32
	// Breaks is in how many broken streams or crashes they were in flight.
	Breaks int32
	// Due is when they are to be retried, in ms since 1970; 0: not waiting.
	Due int64
}

// LogID identifies the log behind a position.
type LogID struct {
	// TopicID is the topic's identity; empty where the backend has none.
	TopicID string
	// Floor is a record below Position: the last one before it, as far as it
	// was known when the value was made.
	Floor Fingerprint
	// Top is the same for what was delivered: a record at or above Floor,
	// below which all of Finished lies.
	Top Fingerprint
}

// Fingerprint tells a record from another one at its offset: see
// storage.Record. The zero value is none.
type Fingerprint struct {
	Offset      int64
	Hash        uint64 // 0: none
	LeaderEpoch int32
}

// Known tells whether f is one.
func (f Fingerprint) Known() bool { return f.Hash != 0 }

// Store keeps ack offsets and small records beside them. All methods may be
// called concurrently.
type Store interface {
	// Get returns the durable value of a key, its High raised to what was
	// marked since. ok is false when there is none; that it could not be read
	// is an error. The slices are the caller's.
	Get(key Key) (v Value, ok bool, err error)

	// Scan calls fn for every key of a topic in key order, until fn returns
	// false. Empty: of all topics. fn may call the store.
	Scan(topic string, fn func(Key, Value) bool) error

	// Submit queues a transaction. done is called once, from the committer's
	// goroutine, after everything of it is on disk (nil) or none of it is
	// (an error): ErrReadOnly, ErrClosed, ErrTooBig or the disk's own. After an
	// error of the disk's own in the midst of a commit, ErrReadOnly with that
	// as its cause, its fate is open until the store is opened again; nothing
	// of it is visible until then. Transactions are applied in the order of
	// Submit. Submit does not block for the disk; done must not block, and of a
	// closed store it is called from a goroutine of its own, never from Submit.
	// The transaction belongs to the store until done is called.
	Submit(txn *Txn, done func(error))

	// GetRecord returns a record beside the offsets. ok is false when there
	// is none. The slice is the caller's.
	GetRecord(space, key string) (value []byte, ok bool, err error)

	// ScanRecords calls fn for every record of a space whose key has the
	// prefix and is above after, in key order, until fn returns false.
	ScanRecords(space, prefix, after string, fn func(key string, value []byte) bool) error

	// Marker returns a cheap way to raise a key's High mark. The key must
	// have a value. The marker stays valid until the key is deleted.
	Marker(key Key) (Marker, error)

	// Healthy returns nil while writes are taken, else why they are not.
	Healthy() error

	// Close commits what is queued, ends the goroutines and waits for them. A
	// second Close returns nil.
	Close() error
}

// Marker raises a high mark.
type Marker interface {
	// Mark notes that offsets below high may have been delivered in an epoch.
	// It survives the death of the process; after a loss of power the mark
	// may be an older one. One small write, no sync; it is not to be called
	// concurrently for one key. Lower marks are no-ops.
	Mark(epoch uint64, high int64) error
}

// Txn is a set of changes that become durable together or not at all. Deletes
// are applied before Puts and Unsets before Sets: what is in both is replaced.
type Txn struct {
	// Puts are conditional writes, see Merge.
	Puts []Put
	// Deletes remove keys with all that is known of them.
	Deletes []Key
	// Sets write records; Unsets remove them.
	Sets   []Record
	Unsets []Record
	// Acks is how many acks the transaction stands for, whose answers are all
	// that waits for it. It means nothing to what is stored: a store that many
	// come to may wait some milliseconds for more. 0: there is no time to wait.
	Acks int
}

// Put writes a value. It never fails for being lower: see Merge.
type Put struct {
	Key   Key
	Value Value
}

// Record is a small value beside the offsets, in a space of its own.
type Record struct {
	Space, Key string
	Value      []byte
}

// Errors of a Store.
var (
	// ErrReadOnly: the store takes no writes now, because the disk is full or
	// failed. It heals by itself.
	ErrReadOnly = errors.New("offset store takes no writes now")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("offset store is closed")
	// ErrTooBig: one transaction is larger than the store takes.
	ErrTooBig = errors.New("transaction too big")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("offset store is damaged")
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("directory is in use by another process")
	// ErrNewerFormat: a newer version of the program wrote the data.
	ErrNewerFormat = errors.New("data was written by a newer version")
	// ErrNotFound: the key has no value.
	ErrNotFound = errors.New("no such key")
)

// Commit is Submit that waits for the fate of the transaction, or for ctx;
// then its fate is open.
func Commit(ctx context.Context, s Store, txn *Txn) error {
	ch := make(chan error, 1)
	s.Submit(txn, func(err error) { ch <- err })
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Merge is the rule of a conditional write: the value that is stored when next
// is put over current. A higher epoch wins whole. Within an epoch the position
// is the higher one, finished offsets are united, the high mark is the higher
// one; attempts, log identity and absence are those of the value with the
// higher position, of equal ones next's. A lower epoch changes nothing.
func Merge(current, next Value) Value {
	if next.Epoch != current.Epoch {
		if next.Epoch > current.Epoch {
			return next
		}
		return current
	}
	out := next
	if next.Position < current.Position {
		out = current
	}
	out.Position = max(current.Position, next.Position)
	out.High = max(current.High, next.High, out.Position)
	out.Finished = mergeFinished(current.Finished, next.Finished, out.Position)
	out.Attempts = attemptsFrom(out.Attempts, out.Position)
	return out
}

package badger

import (
	"fmt"
	"log/slog"
	"time"
)

// Options of a store. The zero value is good.
type Options struct {
	// NoSync leaves out the sync of each commit: the death of the process
	// still loses nothing, a loss of power loses what was not yet written. For
	// tests.
	NoSync bool
	// Writable is asked before each commit; an error refuses it as ErrReadOnly
	// with the error as its cause. It is to be quick: one statfs, say. Badger
	// maps its files, so writing to a full disk would kill the process; this
	// is what keeps it from that. Default: always writable.
	Writable func() error
	// Room is asked for free bytes before what cannot be put off: opening and
	// closing. It may release a ballast. Default: there is room.
	Room func(need int64) error
	// Logger gets warnings, and what Badger has to say. Default: discarded.
	Logger *slog.Logger
	// Observe is told of each commit, from the committer's goroutine. Default:
	// nobody is.
	Observe func(Commit)
	// Sizes of the files of a new store. An existing store keeps those it was
	// made with. Default: SizesFor the filesystem of the directory.
	Sizes Sizes
}

// Commit tells of one commit, which is one sync.
type Commit struct {
	// Took is how long it took, sync and all.
	Took time.Duration
	// Transactions is how many were in it, Writes how many keys and records
	// it wrote, Bytes their size.
	Transactions, Writes, Bytes int
	// Err is why it failed.
	Err error
}

// Sizes of Badger's files, in bytes.
type Sizes struct {
	// MemTable is the size of a table of recent writes and its log.
	MemTable int64
	// ValueLog is the size of a value log file. Nothing is stored in it here,
	// but Badger needs one.
	ValueLog int64
}

// SizesFor chooses sizes for a filesystem of total bytes: small ones on small
// disks, so that the margin leaves room to work in.
//
//	below 512 MiB   1 MiB tables   margin  6 MiB
//	below 2 GiB     4 MiB tables   margin 24 MiB
//	else            8 MiB tables   margin 64 MiB
func SizesFor(total int64) Sizes {
	const mib = 1 << 20
	switch {
	case total < 512*mib:
		return Sizes{MemTable: 1 * mib, ValueLog: 1 * mib}
	case total < 2048*mib:
		return Sizes{MemTable: 4 * mib, ValueLog: 4 * mib}
	}
	return Sizes{MemTable: 8 * mib, ValueLog: 16 * mib}
}

// Margin is how many bytes are to be free for a commit: room for what Badger
// does behind it, flushing and compacting.
func (s Sizes) Margin() int64 { return 2 * (2*s.MemTable + s.ValueLog) }

// Needs is how many bytes are to be free to open or close a store: a ballast
// of this size gets home from a full disk.
func (s Sizes) Needs() int64 { return 4 * s.MemTable }

// check holds the bounds that Badger has.
func (s Sizes) check() error {
	const mib, gib = 1 << 20, 1 << 30
	if s.MemTable < mib || s.MemTable > gib || s.ValueLog < mib || s.ValueLog > gib {
		return fmt.Errorf("sizes of the offset store: table %d and value log %d are to be 1 MiB to 1 GiB",
			s.MemTable, s.ValueLog)
	}
	return nil
}

// withDefaults fills in what is not set, but Sizes.
func (o Options) withDefaults() Options {
	if o.Writable == nil {
		o.Writable = func() error { return nil }
	}
	if o.Room == nil {
		o.Room = func(int64) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Commit) {}
	}
	return o
}

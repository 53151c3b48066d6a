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
	// with the error as its cause. It is to be quick: one statfs, say. A commit
	// on a full disk may be the last until the store is opened again: this is
	// what keeps it from that. Default: always writable.
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
//	filesystem      table     margin   needs
//	below 128 MiB   512 KiB    4 MiB    5 MiB
//	below 2 GiB       2 MiB   10 MiB   11 MiB
//	else              8 MiB   34 MiB   35 MiB
func SizesFor(total int64) Sizes {
	switch {
	case total < 128*mib:
		return Sizes{MemTable: mib / 2, ValueLog: mib}
	case total < 2048*mib:
		return Sizes{MemTable: 2 * mib, ValueLog: mib}
	}
	return Sizes{MemTable: 8 * mib, ValueLog: mib}
}

const mib = 1 << 20

// Margin is how many bytes are to be free for a commit: room for a new table's
// log, which takes twice the table, and for what Badger does behind it,
// flushing and compacting.
func (s Sizes) Margin() int64 { return 2 * (2*s.MemTable + s.ValueLog) }

// Needs is how many bytes are to be free to open or close a store: a ballast
// of this size gets home from a full disk.
func (s Sizes) Needs() int64 { return 4*s.MemTable + 2*s.ValueLog + mib }

// check holds the bounds that Badger has.
func (s Sizes) check() error {
	const gib = 1024 * mib
	if s.MemTable < mib/2 || s.MemTable > gib || s.ValueLog < mib || s.ValueLog > gib {
		return fmt.Errorf("sizes of the offset store: table %d is to be 512 KiB to 1 GiB, value log %d 1 MiB to 1 GiB",
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

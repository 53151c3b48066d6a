package embedded

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// Options of a log. The zero value is ready for production. For every number
// and duration: 0 means the default, and negative means off where that is said.
type Options struct {
	// Partitions of a topic made without a number: 1 to 1,024. Default 4.
	Partitions int
	// NoAutoCreate turns off the making of topics on first use: EnsureTopic
	// and Append then fail for unknown topics and say how to make them.
	NoAutoCreate bool

	// Retention is how long records are kept. Default 7 days; negative: for
	// ever. A topic's own TopicConfig.Retention counts where it is shorter.
	Retention time.Duration
	// MaxBytes is how large the log may grow before its oldest records are
	// dropped, whatever their topic. Default: half of the file system that
	// holds it; negative: no bound.
	MaxBytes int64
	// RetentionInterval is the time between two looks at age and size.
	// Default 30 s; negative: only when the log is opened.
	RetentionInterval time.Duration

	// CheckpointInterval is how often changed pull offsets are saved. Default
	// 5 s; negative: only by Checkpoint and Close.
	CheckpointInterval time.Duration

	// SegmentSize is the size of a segment file in bytes, the unit in which
	// space is freed. Default 64 MiB, or less: a 64th of the file system, a
	// quarter of MaxBytes, at least 1 MiB.
	SegmentSize int64
	// MaxRecordBytes is the largest frame taken. Default 16 MiB.
	MaxRecordBytes int
	// QueueBytes bounds what is appended and not yet answered; beyond it
	// Append waits. Default 64 MiB.
	QueueBytes int
	// TailBytes is how much of the newest log is kept in memory for readers.
	// Default 32 MiB; 4 MiB or more is sensible.
	TailBytes int

	// DedupWindow is how long an event with the DedupKey of an earlier one of
	// the topic is answered with that one's place. Default 2 minutes;
	// negative: off.
	DedupWindow time.Duration
	// DedupEntries bounds how many keys are remembered, 50 to 100 bytes each;
	// beyond it the window gets shorter. Default 1,048,576.
	DedupEntries int

	// NoSync leaves out every sync to disk: faster, and safe when the process
	// is killed, but not when the machine loses power.
	NoSync bool
	// Writable, where set, is called before each write of records or topics;
	// what it returns fails them, wrapped in storage.ErrReadOnly. It must be
	// quick.
	Writable func() error

	// Logger takes warnings. Default slog.Default().
	Logger *slog.Logger
	// Observe takes figures.
	Observe Observe

	// FS is the file system; for tests. Default the real one.
	FS vfs.FS
	// Now is the clock that records are stamped from; for tests. Default
	// time.Now. A clock that runs back does no harm.
	Now func() time.Time
	// Elapsed is how long ago some moment was, by a clock that only runs; for
	// tests. Default: time.Since, or by Now where that is given.
	Elapsed func() time.Duration
}

// Observe is where figures go. Nil funcs are left out. They are called from
// the log's goroutines and must not block.
type Observe struct {
	// Commit tells how long one write with its sync took, and what it held.
	Commit func(took time.Duration, records, bytes int)
	// CommitFailed tells that a write was refused or failed.
	CommitFailed func(err error)
	// Duplicate counts events answered with an earlier one's place.
	Duplicate func(n int)
	// CursorsDamaged tells that a cursor file could not be read; usedBackup
	// whether its backup could.
	CursorsDamaged func(usedBackup bool)
	// CheckpointFailed tells that pull offsets could not be saved.
	CheckpointFailed func(err error)
	// IndexRebuilt tells that a segment's index file was missing or damaged,
	// so that the segment had to be read.
	IndexRebuilt func(segment int64)
	// Dropped tells how many bytes of the log retention has removed.
	Dropped func(bytes int64)
	// Size tells the log's size in bytes, after each look at retention.
	Size func(bytes int64)
}

const (
	maxPartitions  = 1024
	minSegmentSize = 1 << 20
	frameLimit     = 16 << 20
	maxDedup       = 1 << 28
)

// withDefaults fills in what is absent.
func (o Options) withDefaults() Options {
	o.Partitions = cmp.Or(o.Partitions, 4)
	o.Retention = cmp.Or(o.Retention, 7*24*time.Hour)
	o.RetentionInterval = cmp.Or(o.RetentionInterval, 30*time.Second)
	o.CheckpointInterval = cmp.Or(o.CheckpointInterval, 5*time.Second)
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, frameLimit)
	o.QueueBytes = cmp.Or(o.QueueBytes, 64<<20)
	o.TailBytes = cmp.Or(o.TailBytes, 32<<20)
	o.DedupWindow = cmp.Or(o.DedupWindow, 2*time.Minute)
	o.DedupEntries = cmp.Or(o.DedupEntries, 1<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.NoSync {
		o.FS = vfs.NoSync(o.FS)
	}
	if o.Now == nil {
		o.Now = time.Now // with it comes the reading of the clock that only runs
	}
	if o.Elapsed == nil {
		begun, now := o.Now(), o.Now
		o.Elapsed = func() time.Duration { return now().Sub(begun) }
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Partitions < 1 || o.Partitions > maxPartitions:
		return fmt.Errorf("embedded log: Partitions is %d, 1 to %d are allowed: %w", o.Partitions, maxPartitions, storage.ErrInvalid)
	case o.MaxRecordBytes < 1 || o.MaxRecordBytes > frameLimit:
		return fmt.Errorf("embedded log: MaxRecordBytes is %d, 1 to %d are allowed: %w", o.MaxRecordBytes, frameLimit, storage.ErrInvalid)
	case o.QueueBytes < 1 || o.TailBytes < 1 || o.SegmentSize < 0 || o.DedupEntries < 1 || o.DedupEntries > maxDedup:
		return fmt.Errorf("embedded log: QueueBytes, TailBytes, SegmentSize and DedupEntries must not be negative, and DedupEntries at most %d: %w", maxDedup, storage.ErrInvalid)
	}
	return nil
}

// sizes fills in what depends on the file system: MaxBytes and SegmentSize. One
// that does not tell its size bounds nothing.
func (o Options) sizes(dir string) (Options, error) {
	total, _, err := o.FS.Space(dir)
	if err != nil {
		return o, err
	}
	if total <= 0 {
		total = math.MaxInt64
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, total/2)
	if o.SegmentSize == 0 {
		o.SegmentSize = min(64<<20, total/64)
		if o.MaxBytes > 0 {
			o.SegmentSize = min(o.SegmentSize, o.MaxBytes/4)
		}
		o.SegmentSize = max(o.SegmentSize, minSegmentSize)
	}
	return o, nil
}

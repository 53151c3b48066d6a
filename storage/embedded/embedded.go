// Package embedded is the log of one machine: all partitions of all topics
// share one row of segment files (package seglog) and one group commit.
//
// One goroutine, the committer, takes whatever was appended while it wrote
// last, gives out offsets, gathers the events by partition into runs, writes
// and syncs them with one call each, makes them readable, wakes who waits, and
// answers. Nothing waits for a timer.
//
// The directory:
//
//	LOCK               held while the log is open
//	FORMAT             version of all this
//	topics             topics and the bounds of their partitions
//	cursors, .bak      pull offsets, and how far the log goes
//	log/*.seg          the records
//	log/*.idx          an index of each full segment, so that a start need not
//	                   read it; made again when missing or damaged
//
// Memory: the tail of the log (Options.TailBytes), about 8 bytes for each run
// of up to 48 KiB, and what the duplicate window needs.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/internal/wallclock"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// Log is an open embedded log. It is a storage.Backend and a storage.Bounder,
// TopicAdmin, Trimmer, Fingerprinter and Checkpointer.
type Log struct {
	dir  string
	opts Options
	lock io.Closer
	seg  *seglog.Log
	tail tail

	// readable is the position up to which the partitions know what the log
	// holds; it follows the log's end when a commit is published.
	readable atomic.Int64

	// admin serialises what changes the topics file; it is held over disk
	// writes, so it is a channel that can be waited for with a context.
	admin chan struct{}

	mu      sync.RWMutex // guards topics and nextNum
	topics  map[string]*topic
	nextNum uint32
	unsaved atomic.Bool // the topics file on disk may differ from topics

	queue   queue
	commits committer

	steps   wallclock.Steps // of the clock; for who looks at retention
	cursors cursorFile
	polls   sync.Pool // of *poll
	batches sync.Pool // of *storage.Batch, for Fingerprint

	closing chan struct{} // closed when Close begins
	closed  atomic.Bool
	wg      sync.WaitGroup
}

var (
	_ storage.Backend       = (*Log)(nil)
	_ storage.Bounder       = (*Log)(nil)
	_ storage.TopicAdmin    = (*Log)(nil)
	_ storage.Trimmer       = (*Log)(nil)
	_ storage.Fingerprinter = (*Log)(nil)
	_ storage.Checkpointer  = (*Log)(nil)
)

const (
	formatKind    = "ackmesh-embedded"
	formatVersion = 1
)

// Open opens the log in dir, which is made where it is missing, or begins one.
// It takes time in proportion to the number of segments and to the size of
// the last two. Errors: storage.ErrLocked, ErrNewerFormat, ErrCorrupt,
// ErrInvalid, what the disk says; each names the path.
func Open(dir string, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := opts.FS.MkdirAll(filepath.Join(dir, "log")); err != nil {
		return nil, fmt.Errorf("embedded log: cannot make data directory %s: %w", dir, err)
	}
	lock, err := opts.FS.Lock(filepath.Join(dir, "LOCK"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("embedded log: data directory %s: %w: %w", dir, storage.ErrLocked, err)
	}
	if err != nil {
		return nil, fmt.Errorf("embedded log: cannot write to data directory %s, check its owner and mode: %w", dir, err)
	}
	l, err := open(dir, opts)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l.lock = lock
	return l, nil
}

func open(dir string, opts Options) (*Log, error) {
	if err := checkFormat(opts.FS, dir); err != nil {
		return nil, err
	}
	opts, err := opts.sizes(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded log: %w", err)
	}
	l := &Log{
		dir: dir, opts: opts, tail: tail{limit: opts.TailBytes},
		admin: make(chan struct{}, 1), topics: map[string]*topic{}, nextNum: 1,
		closing: make(chan struct{}),
	}
	l.queue.init(opts.QueueBytes)
	l.polls.New = func() any { return newPoll() }
	l.batches.New = func() any { return new(storage.Batch) }
	if err := l.recover(); err != nil {
		if l.seg != nil {
			err = errors.Join(err, l.seg.Close())
		}
		return nil, err
	}
	l.wg.Go(l.runCommitter)
	l.wg.Go(l.runKeeper)
	return l, nil
}

// checkFormat reads the version, or writes it into a new directory.
func checkFormat(f vfs.FS, dir string) error {
	name := filepath.Join(dir, "FORMAT")
	_, _, err := vfs.ReadState(f, name, formatKind, formatVersion)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeFormat(f, dir, name)
	case errors.Is(err, vfs.ErrVersion):
		return fmt.Errorf("embedded log: %w: %w", storage.ErrNewerFormat, err)
	case errors.Is(err, vfs.ErrDamaged):
		return fmt.Errorf("embedded log: %w: %w", storage.ErrCorrupt, err)
	case err != nil:
		return fmt.Errorf("embedded log: read %s: %w", name, err)
	}
	return nil
}

// writeFormat marks a new directory. One that holds records and no mark has
// lost files.
func writeFormat(f vfs.FS, dir, name string) error {
	old, err := f.List(filepath.Join(dir, "log"))
	if err != nil {
		return fmt.Errorf("embedded log: list %s: %w", filepath.Join(dir, "log"), err)
	}
	if len(old) > 0 {
		return fmt.Errorf("embedded log: %s is missing beside existing records: %w", name, storage.ErrCorrupt)
	}
	if err := vfs.WriteState(f, name, formatKind, formatVersion, nil); err != nil {
		return fmt.Errorf("embedded log: cannot write to data directory %s, check its owner, mode and free space: %w", dir, err)
	}
	// The directory's own name. Its parent may be closed to us; then whoever
	// made the directory has to care for it.
	if err := f.SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("embedded log: sync the directory that holds %s: %w", dir, err)
	}
	return nil
}

// Name is "embedded".
func (l *Log) Name() string { return "embedded" }

// Close implements storage.Backend. What was appended before is written.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	close(l.closing)
	l.queue.close()
	l.wg.Wait()
	l.admin <- struct{}{} // what changes topics ends first; nothing new begins
	l.cursors.saving <- struct{}{}
	defer func() { <-l.cursors.saving }()
	errs := []error{l.saveCursors()}
	if l.unsaved.Load() {
		errs = append(errs, l.saveTopics(l.allTopics(), nil))
	}
	errs = append(errs, l.seg.Close(), l.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("embedded log: close %s: %w", l.dir, err)
	}
	return nil
}

// enter takes the right to change topics.
func (l *Log) enter(ctx context.Context) error {
	select {
	case <-l.closing:
		return fmt.Errorf("embedded log: %w", storage.ErrClosed)
	default:
	}
	select {
	case l.admin <- struct{}{}:
		return nil
	case <-l.closing:
		return fmt.Errorf("embedded log: %w", storage.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) leave() { <-l.admin }

// writable asks the guard before a write.
func (l *Log) writable() error {
	if l.unsaved.Load() {
		return fmt.Errorf("embedded log: %w: %s could not be saved and is tried again", storage.ErrReadOnly, l.topicsName())
	}
	if l.opts.Writable == nil {
		return nil
	}
	if err := l.opts.Writable(); err != nil {
		return fmt.Errorf("embedded log: %w: %w", storage.ErrReadOnly, err)
	}
	return nil
}

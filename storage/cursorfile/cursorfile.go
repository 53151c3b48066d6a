// Package cursorfile keeps the pull offsets of a backend: in memory for use,
// and in one small file that is written whole, so that after a restart reading
// goes on where it was.
//
// The file is a state file (package vfs) of kind "ackmesh-cursors", the one
// before it stays as .bak, and both lie in a directory that is locked while
// the File is open. A lost or damaged file never skips a record: the cursors
// are then not set, and who polls aligns them.
package cursorfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// DefaultInterval is how often changed pull offsets are saved.
const DefaultInterval = 5 * time.Second

// Options of a File. The zero value is ready for use.
type Options struct {
	// Interval is how often changed pull offsets are saved. 0: 5 s; negative:
	// only by Checkpoint and Close.
	Interval time.Duration
	// Logger takes warnings. nil: slog.Default().
	Logger *slog.Logger
	// Damaged is told when a file could not be read, and whether its backup
	// could. nil: nothing is told.
	Damaged func(usedBackup bool)
	// Failed is told when pull offsets could not be saved. nil: nothing is
	// told.
	Failed func(error)
	// FS is the file system; for tests. nil: the real one.
	FS vfs.FS
}

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Damaged == nil {
		o.Damaged = func(bool) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	return o
}

// File is an open set of pull offsets. All methods may be called
// concurrently; only Checkpoint and Close wait for the disk.
type File struct {
	name string
	opts Options
	lock io.Closer // nil: of InMemory

	mu     sync.Mutex // guards topics and dirty
	topics map[string]*topic
	dirty  bool

	saving chan struct{} // held while the file is written
	sound  bool          // the file is whole, so it may become the backup; for who holds saving
	closed bool          // for who holds saving
	stop   chan struct{}
	wg     sync.WaitGroup
}

// topic holds the pull offsets of one topic.
type topic struct {
	id    string
	parts map[string]*cursor
}

// cursor is a pull offset. seeks tells a Move whether there was a Seek since.
type cursor struct {
	next  int64
	seeks uint64
}

// Open opens the pull offsets in dir, which is made where it is missing.
// Errors: storage.ErrLocked when another process has it open,
// storage.ErrNewerFormat, what the disk says.
func Open(dir string, opts Options) (*File, error) {
	f := &File{
		name: filepath.Join(dir, "cursors"), opts: opts.withDefaults(), topics: map[string]*topic{},
		saving: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if err := f.opts.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("pull offsets: cannot make directory %s: %w", dir, err)
	}
	lock, err := f.opts.FS.Lock(filepath.Join(dir, "LOCK"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("pull offsets: directory %s: %w: %w", dir, storage.ErrLocked, err)
	}
	if err != nil {
		return nil, fmt.Errorf("pull offsets: cannot write to directory %s, check its owner and mode: %w", dir, err)
	}
	if err := f.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	f.lock = lock
	if f.opts.Interval > 0 {
		f.wg.Go(f.saveOften)
	}
	return f, nil
}

// InMemory makes pull offsets that are kept nowhere: Checkpoint and Close save
// nothing.
func InMemory() *File {
	return &File{topics: map[string]*topic{}, saving: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Get returns a pull offset and the identity of the topic that it is for. ok
// is false while nothing has set it.
func (f *File) Get(topicName, partition string) (next int64, topicID string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[topicName]
	if t == nil || t.parts[partition] == nil || t.parts[partition].next == storage.Cursor {
		return 0, "", false
	}
	return t.parts[partition].next, t.id, true
}

// Seek sets a pull offset of the topic of that identity. What was kept for
// another identity of the topic is dropped.
func (f *File) Seek(topicName, topicID, partition string, next int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cursor(topicName, topicID, partition)
	c.next = next
	c.seeks++
	f.dirty = true
}

// Mark remembers a pull offset as a reader found it.
type Mark struct {
	c     *cursor
	seeks uint64
}

// Begin returns the pull offset that a reader of a topic of that identity
// begins at; set is false where there is none. What was kept for another
// identity of the topic is dropped.
func (f *File) Begin(topicName, topicID, partition string) (next int64, set bool, m Mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cursor(topicName, topicID, partition)
	return c.next, c.next != storage.Cursor, Mark{c: c, seeks: c.seeks}
}

// Move sets the pull offset behind what a reader has got, unless there was a
// Seek since its Begin, or the topic was forgotten.
func (f *File) Move(m Mark, next int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.c.seeks == m.seeks && m.c.next != next {
		m.c.next = next
		f.dirty = true
	}
}

// ForgetPartition drops the pull offset of one partition.
func (f *File) ForgetPartition(topicName, partition string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[topicName]
	if t == nil || t.parts[partition] == nil {
		return
	}
	delete(t.parts, partition)
	if len(t.parts) == 0 {
		delete(f.topics, topicName)
	}
	f.dirty = true
}

// Forget drops the pull offsets of a topic.
func (f *File) Forget(topicName string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topics[topicName] != nil {
		delete(f.topics, topicName)
		f.dirty = true
	}
}

// cursor finds or makes a cursor; the lock is held. An empty identity fits
// every other one.
func (f *File) cursor(topicName, topicID, partition string) *cursor {
	t := f.topics[topicName]
	if t != nil && t.id != topicID && t.id != "" && topicID != "" {
		f.dirty = true
		t = nil
	}
	if t == nil {
		t = &topic{id: topicID, parts: map[string]*cursor{}}
		f.topics[topicName] = t
	}
	if t.id == "" {
		t.id = topicID
	}
	c := t.parts[partition]
	if c == nil {
		c = &cursor{next: storage.Cursor}
		t.parts[partition] = c
	}
	return c
}

// Checkpoint saves the pull offsets, durably, and waits for it. Errors:
// storage.ErrClosed, ctx.Err(), what the disk says.
func (f *File) Checkpoint(ctx context.Context) error {
	select {
	case f.saving <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.saving }()
	if f.closed {
		return fmt.Errorf("pull offsets: %w", storage.ErrClosed)
	}
	return f.save()
}

// Close saves the pull offsets and frees the directory. A second Close
// returns nil.
func (f *File) Close() error {
	f.saving <- struct{}{}
	if f.closed {
		<-f.saving
		return nil
	}
	f.closed = true
	err := f.save()
	close(f.stop)
	<-f.saving
	f.wg.Wait()
	if f.lock == nil {
		return err
	}
	return errors.Join(err, f.lock.Close())
}

// saveOften saves until Close.
func (f *File) saveOften() {
	ticker := time.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-ticker.C:
			if err := f.Checkpoint(context.Background()); err != nil && !errors.Is(err, storage.ErrClosed) {
				f.opts.Logger.Warn("pull offsets could not be saved, trying again", "file", f.name, "error", err)
			}
		}
	}
}

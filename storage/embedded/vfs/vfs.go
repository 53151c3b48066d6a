// Package vfs is the file system as the embedded log sees it: the few calls it
// makes, as an interface, so that tests can record, fail or lose them.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// FS is a file system. All methods may be called concurrently. Names are
// paths; errors wrap the ones of package os (fs.ErrNotExist, syscall.ENOSPC).
type FS interface {
	// MkdirAll makes a directory and its parents; existing ones are fine.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Create makes a file or empties the one that is there, for reading and
	// writing.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Remove deletes a file. It is durable after SyncDir.
	Remove(name string) error
	// Rename moves a file over another, atomically. It is durable after SyncDir.
	Rename(from, to string) error
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it makes, without
	// waiting. The lock ends with Close or with the process. Held by another:
	// an error that wraps ErrLocked and says by whom where that is known.
	Lock(name string) (io.Closer, error)
	// Space tells the size of the file system that holds dir and what an
	// ordinary user may still take of it, in bytes.
	Space(dir string) (total, free int64, err error)
}

// File is an open file. Reads may run beside one writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the file's content and size durable.
	Sync() error
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Allocate reserves room for the first n bytes and lengthens the file to
	// n where it is shorter: the new part reads as zeros.
	Allocate(n int64) error
}

// ErrLocked is what Lock returns for a lock that another holds.
var ErrLocked = errors.New("locked by another process")

// ErrDamaged is what ReadState returns for a file that is not what WriteState
// wrote.
var ErrDamaged = errors.New("file is damaged")

// ErrUncertain is what WriteFile returns when it failed so late that either
// content, the old or the new, may be there after a crash.
var ErrUncertain = errors.New("old or new content may be there")

// OS is the real file system.
func OS() FS { return osFS{} }

// ReadFile returns the whole content of a file of at most limit bytes.
func ReadFile(f FS, name string, limit int64) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only: nothing to lose
	n, err := file.Size()
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected: %w", name, n, limit, ErrDamaged)
	}
	b := make([]byte, n)
	if _, err := file.ReadAt(b, 0); err != nil && (n > 0 || !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// WriteFile puts b into a file such that after any crash either the old or the
// new content is there: temporary file, sync, rename, sync of the directory.
func WriteFile(f FS, name string, b []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(f, tmp, b); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := f.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename %s: %w: %w", tmp, ErrUncertain, err)
	}
	if err := f.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync directory of %s: %w: %w", name, ErrUncertain, err)
	}
	return nil
}

func writeSynced(f FS, name string, b []byte) error {
	file, err := f.Create(name)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(b, 0)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// NoSync is f without its syncs: what was written survives the death of the
// process but not that of the machine.
func NoSync(f FS) FS { return noSyncFS{f} }

type noSyncFS struct{ FS }

// SyncDir does nothing.
func (noSyncFS) SyncDir(string) error { return nil }

// Create makes a file whose Sync does nothing.
func (n noSyncFS) Create(name string) (File, error) { return noSync(n.FS.Create(name)) }

// Open opens a file whose Sync does nothing.
func (n noSyncFS) Open(name string) (File, error) { return noSync(n.FS.Open(name)) }

func noSync(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

type noSyncFile struct{ File }

// Sync does nothing.
func (noSyncFile) Sync() error { return nil }

// holder reads who wrote itself into a lock file; for messages only.
func holder(name string) string {
	b, err := os.ReadFile(name)
	if s := strings.TrimSpace(string(b)); err == nil && s != "" && len(s) < 32 {
		return "process " + s
	}
	return "another process"
}

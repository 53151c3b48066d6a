package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

type osFS struct{}

// MkdirAll implements FS.
func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o750) }

// List implements FS.
func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Create implements FS.
func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open implements FS.
func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDWR) }

// Remove implements FS.
func (osFS) Remove(name string) error { return os.Remove(name) }

// Rename implements FS.
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

// SyncDir implements FS.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock implements FS.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%s is held by %s: %w", name, holder(name), ErrLocked)
	}
	if err == nil {
		err = writePid(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writePid says in the lock file who holds it. A full disk is no reason not to
// start, so only the emptying must succeed.
func writePid(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil && !noRoom(err) {
		return err
	}
	return nil
}

// noRoom tells whether an error is that the disk is full, or a quota used up.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Space implements FS.
func (osFS) Space(dir string) (total, free int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	unit := int64(s.Bsize)
	return int64(s.Blocks) * unit, int64(s.Bavail) * unit, nil
}

type osFile struct{ *os.File }

func openOS(name string, flags int) (File, error) {
	f, err := os.OpenFile(filepath.Clean(name), flags, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Sync is fdatasync: it leaves out times, which nothing here needs.
func (f osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Size implements File.
func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Allocate falls back to a sparse file where the file system cannot reserve.
func (f osFile) Allocate(n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, n)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if size, err := f.Size(); err != nil || size >= n {
		return err
	}
	return f.Truncate(n)
}

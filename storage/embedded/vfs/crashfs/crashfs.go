// Package crashfs is a file system in memory for tests: it can lose what was
// not synced, as a machine that loses power does, tear what was being written,
// be full, and fail any call.
package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// Op is one call that changes or reads the file system.
type Op struct {
	// Kind is create, open, read, write, sync, allocate, remove, rename,
	// syncdir, mkdir, list, lock or space.
	Kind string
	// Name is the path; of a rename the new one.
	Name string
	// Off and Len are the range of a read or write.
	Off int64
	Len int
}

// FS is a file system in memory. Use New. It may be used concurrently.
type FS struct {
	mu       sync.Mutex
	dirs     map[string]bool
	now      map[string]*node // what a running program sees
	durable  map[string]*node // names that a crash keeps
	changes  []change         // of names, not yet durable
	locks    map[string]bool
	capacity int64
	hook     func(Op) error
}

// node is the content of a file, with or without a name.
type node struct {
	data    []byte
	durable []byte
	pending []write
}

// write is a change of content that is not synced.
type write struct {
	off  int64
	data []byte // nil: only grow to off
}

// change is a change of the names in a directory that is not synced.
type change struct {
	dir, name string
	node      *node // nil: removed
}

// New makes an empty file system without a limit.
func New() *FS {
	return &FS{dirs: map[string]bool{}, now: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}, capacity: 1 << 40}
}

var _ vfs.FS = (*FS)(nil)

// SetCapacity bounds the bytes of all files together; beyond it calls fail
// with ENOSPC.
func (f *FS) SetCapacity(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = n
}

// SetHook makes every call ask h first, which may fail it. A write that h
// fails puts its first half into the file; what a sync that h fails was to sync
// is read back and never synced, unless it is written again.
// h must not call the file system. nil: no hook.
func (f *FS) SetHook(h func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

// Halt makes every later call fail, as the end of the machine does for its
// programs. Crashed copies can still be made.
func (f *FS) Halt() { f.SetHook(func(Op) error { return ErrHalted }) }

// Used is how many bytes all files have together.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used()
}

func (f *FS) used() (n int64) {
	for _, x := range f.now {
		n += int64(len(x.data))
	}
	return n
}

// ask runs the hook. The caller holds mu.
func (f *FS) ask(kind, name string, off int64, n int) error {
	if f.hook == nil {
		return nil
	}
	return f.hook(Op{kind, name, off, n})
}

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// MkdirAll implements vfs.FS. Directories are durable at once.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask("mkdir", dir, 0, 0); err != nil {
		return pathErr("mkdir", dir, err)
	}
	for dir = filepath.Clean(dir); !f.dirs[dir]; dir = filepath.Dir(dir) {
		f.dirs[dir] = true
	}
	return nil
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir = filepath.Clean(dir)
	if err := f.ask("list", dir, 0, 0); err != nil {
		return nil, pathErr("list", dir, err)
	}
	if !f.dirs[dir] {
		return nil, pathErr("list", dir, fs.ErrNotExist)
	}
	var names []string
	for n := range f.now {
		if filepath.Dir(n) == dir {
			names = append(names, filepath.Base(n))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	if err := f.ask("create", name, 0, 0); err != nil {
		return nil, pathErr("create", name, err)
	}
	if !f.dirs[filepath.Dir(name)] {
		return nil, pathErr("create", name, fs.ErrNotExist)
	}
	if f.used() >= f.capacity {
		return nil, pathErr("create", name, syscall.ENOSPC)
	}
	n := &node{}
	f.setName(name, n)
	return &file{fs: f, name: name, node: n}, nil
}

func (f *FS) setName(name string, n *node) {
	if n == nil {
		delete(f.now, name)
	} else {
		f.now[name] = n
	}
	f.changes = append(f.changes, change{filepath.Dir(name), name, n})
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	if err := f.ask("open", name, 0, 0); err != nil {
		return nil, pathErr("open", name, err)
	}
	n := f.now[name]
	if n == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	return &file{fs: f, name: name, node: n}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	if err := f.ask("remove", name, 0, 0); err != nil {
		return pathErr("remove", name, err)
	}
	if f.now[name] == nil {
		return pathErr("remove", name, fs.ErrNotExist)
	}
	f.setName(name, nil)
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to = filepath.Clean(from), filepath.Clean(to)
	if err := f.ask("rename", to, 0, 0); err != nil {
		return pathErr("rename", to, err)
	}
	n := f.now[from]
	if n == nil {
		return pathErr("rename", from, fs.ErrNotExist)
	}
	f.setName(to, n)
	f.setName(from, nil)
	return nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir = filepath.Clean(dir)
	if err := f.ask("syncdir", dir, 0, 0); err != nil {
		return pathErr("sync", dir, err)
	}
	f.changes = slices.DeleteFunc(f.changes, func(c change) bool {
		if c.dir != dir {
			return false
		}
		c.apply(f.durable)
		return true
	})
	return nil
}

func (c change) apply(names map[string]*node) {
	if c.node == nil {
		delete(names, c.name)
		return
	}
	names[c.name] = c.node
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask("lock", name, 0, 0); err != nil {
		return nil, pathErr("lock", name, err)
	}
	if f.locks[name] {
		return nil, fmt.Errorf("%s: %w", name, vfs.ErrLocked)
	}
	f.locks[name] = true
	return &lock{f, name}, nil
}

type lock struct {
	fs   *FS
	name string
}

// Close gives the lock back.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// Space implements vfs.FS.
func (f *FS) Space(dir string) (total, free int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask("space", dir, 0, 0); err != nil {
		return 0, 0, pathErr("space", dir, err)
	}
	return f.capacity, max(0, f.capacity-f.used()), nil
}

// Kill returns the file system as it is after the program was killed: with
// all that was written, and no lock held. f itself stays as it is.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.empty()
	for name, n := range f.now {
		g.put(name, slices.Clone(n.data))
	}
	return g
}

// PowerLoss returns the file system as it is after the machine lost power:
// without what was written since each file's last sync, without names made
// or removed since the directory's. f itself stays as it is.
func (f *FS) PowerLoss() *FS { return f.crash(nil) }

// Torn is PowerLoss that keeps some of what was not synced, as rnd says, a
// number from 0 to n-1: any of the 512-byte sectors written, and the first few
// changes of names.
func (f *FS) Torn(rnd func(n int) int) *FS { return f.crash(rnd) }

const sector = 512

func (f *FS) crash(rnd func(n int) int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := maps.Clone(f.durable)
	if rnd != nil {
		for _, c := range f.changes[:rnd(len(f.changes)+1)] {
			c.apply(names)
		}
	}
	g := f.empty()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n := names[name]
		data := slices.Clone(n.durable)
		if rnd != nil {
			data = n.tear(data, rnd)
		}
		g.put(name, data)
	}
	return g
}

func (n *node) tear(data []byte, rnd func(n int) int) []byte {
	for _, w := range n.pending {
		if w.data == nil && rnd(2) == 0 {
			data = grow(data, w.off)
		}
		for off := int64(0); off < int64(len(w.data)); {
			end := min((w.off+off)/sector*sector+sector-w.off, int64(len(w.data)))
			if rnd(2) == 0 {
				data = grow(data, w.off+end)
				copy(data[w.off+off:], w.data[off:end])
			}
			off = end
		}
	}
	return data
}

func (f *FS) empty() *FS {
	g := New()
	g.capacity = f.capacity
	g.dirs = maps.Clone(f.dirs)
	return g
}

func (f *FS) put(name string, data []byte) {
	n := &node{data: data, durable: slices.Clone(data)}
	f.now[name], f.durable[name] = n, n
}

// Corrupt changes a file's content behind everybody's back, durably.
func (f *FS) Corrupt(name string, change func([]byte) []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.now[filepath.Clean(name)]
	if n == nil {
		return pathErr("corrupt", name, fs.ErrNotExist)
	}
	n.data = change(n.data)
	n.durable, n.pending = slices.Clone(n.data), nil
	f.durable[filepath.Clean(name)] = n
	return nil
}

var (
	// ErrInjected is an error for hooks to return.
	ErrInjected = errors.New("injected by the test")
	// ErrHalted is what every call returns after Halt.
	ErrHalted = errors.New("the machine has stopped")
)

package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
)

// file is an open file.
type file struct {
	fs     *FS
	name   string
	node   *node
	closed bool
}

// ask fails calls of closed files and those that the hook fails.
func (o *file) ask(kind string, off int64, n int) error {
	err := fs.ErrClosed
	if !o.closed {
		err = o.fs.ask(kind, o.name, off, n)
	}
	if err != nil {
		return pathErr(kind, o.name, err)
	}
	return nil
}

func grow(b []byte, n int64) []byte {
	if int64(len(b)) >= n {
		return b
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

// ReadAt implements vfs.File.
func (o *file) ReadAt(b []byte, off int64) (int, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if err := o.ask("read", off, len(b)); err != nil {
		return 0, err
	}
	if off >= int64(len(o.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, o.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements vfs.File.
func (o *file) WriteAt(b []byte, off int64) (int, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	err := o.ask("write", off, len(b))
	if errors.Is(err, fs.ErrClosed) {
		return 0, err
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	if room := o.room(off + int64(len(b))); room < 0 {
		err = pathErr("write", o.name, syscall.ENOSPC)
		b = b[:max(0, int64(len(b))+room)]
	}
	if len(b) > 0 {
		o.node.data = grow(o.node.data, off+int64(len(b)))
		copy(o.node.data[off:], b)
		o.node.pending = append(o.node.pending, write{off, slices.Clone(b)})
	}
	return len(b), err
}

// room is how many bytes stay free when the file has n; negative: too few.
func (o *file) room(n int64) int64 {
	more := n - int64(len(o.node.data))
	if more <= 0 {
		return 0
	}
	return o.fs.capacity - o.fs.used() - more
}

// Sync implements vfs.File.
func (o *file) Sync() error {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if err := o.ask("sync", 0, 0); err != nil {
		o.node.pending = nil // as on Linux: it is clean now, and no later sync writes it
		return err
	}
	n := o.node
	for _, w := range n.pending {
		n.durable = grow(n.durable, w.off+int64(len(w.data)))
		copy(n.durable[w.off:], w.data)
	}
	n.pending = nil
	return nil
}

// Size implements vfs.File.
func (o *file) Size() (int64, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	return int64(len(o.node.data)), nil
}

// Allocate implements vfs.File.
func (o *file) Allocate(n int64) error {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if err := o.ask("allocate", 0, int(n)); err != nil {
		return err
	}
	if o.room(n) < 0 {
		return pathErr("allocate", o.name, syscall.ENOSPC)
	}
	o.node.data = grow(o.node.data, n)
	o.node.pending = append(o.node.pending, write{off: n})
	return nil
}

// Close implements vfs.File.
func (o *file) Close() error {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.closed {
		return pathErr("close", o.name, fs.ErrClosed)
	}
	o.closed = true
	return nil
}

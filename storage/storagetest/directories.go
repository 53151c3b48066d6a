package storagetest

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
)

// Directories opens logs that keep something on disk, each case in a directory
// of its own. Its methods are those that a Harness needs.
type Directories struct {
	base string
	dir  string // of the case
	open func(t T, dir string) storage.Backend
}

// NewDirectories makes directories that go with the test; open opens a log on
// one.
func NewDirectories(t *testing.T, open func(t T, dir string) storage.Backend) *Directories {
	return &Directories{base: t.TempDir(), open: open}
}

// Open opens a log in a new directory.
func (d *Directories) Open(t T) storage.Backend {
	t.Helper()
	d.next(t)
	return d.open(t, d.dir)
}

// Reopen closes a log and opens it again.
func (d *Directories) Reopen(t T, b storage.Backend) storage.Backend {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return d.open(t, d.dir)
}

// CrashReopen goes on with the directory as a killed process leaves it; what
// the old log writes to it later is not seen.
func (d *Directories) CrashReopen(t T, b storage.Backend) storage.Backend {
	t.Helper()
	was := d.dir
	d.next(t)
	if err := os.CopyFS(d.dir, os.DirFS(was)); err != nil {
		t.Fatalf("copy: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close of the crashed log: %v", err)
		}
	})
	return d.open(t, d.dir)
}

func (d *Directories) next(t T) {
	t.Helper()
	dir, err := os.MkdirTemp(d.base, "")
	if err != nil {
		t.Fatalf("directory: %v", err)
	}
	d.dir = dir
}

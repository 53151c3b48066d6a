// Package mapalloc gives Badger's files their space before they are mapped, and
// its tables a name that is durable.
//
// Badger makes a file by truncating it to its size, maps it and copies into the
// mapping. A truncated file has no space yet: where the disk has none left, the
// copy is SIGBUS, which ends the process and cannot be caught in goroutines
// that are not ours. An error instead would be worse: a compaction of Badger
// v4.9.6 that cannot make one of its tables goes on without it
// (levelsController.subcompact), and what was in it is lost. So the mapping
// waits until there is space.
//
// When Badger has flushed a table of recent writes, it syncs the new table and
// then writes its name into the MANIFEST, which it syncs too; but it does not
// sync the directory that the name is in. After a loss of power at that moment
// the MANIFEST names a table that is not there, and the store does not open. So
// the directory is synced when a table is mapped, before it is filled.
//
// Badger maps through golang.org/x/sys/unix, which keeps the system call in a
// variable. This package puts itself in front of it, once for the process, and
// lets everything pass that is not of a watched directory.
package mapalloc

import (
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Watch is a directory whose files get their space when they are mapped for
// writing.
type Watch struct {
	dir    string
	onWait func(path string, err error)
	opened atomic.Bool
}

var (
	mu      sync.RWMutex
	watches = map[string]*Watch{}
)

// Dir begins to watch a directory, which must exist and be watched once only.
// Where there is no space for a table (*.sst), its mapping waits; for another
// file it fails until Opened is called and then waits too. onWait is told when
// a wait begins.
func Dir(dir string, onWait func(path string, err error)) (*Watch, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	w := &Watch{dir: dir, onWait: onWait}
	mu.Lock()
	defer mu.Unlock()
	watches[dir] = w
	return w, nil
}

// Opened tells that from now on nothing may fail for want of space.
func (w *Watch) Opened() { w.opened.Store(true) }

// End ends the watch.
func (w *Watch) End() {
	mu.Lock()
	defer mu.Unlock()
	delete(watches, w.dir)
}

// of finds the watch of a file; nil when there is none.
func of(path string) *Watch {
	mu.RLock()
	defer mu.RUnlock()
	return watches[filepath.Dir(path)]
}

// waits tells whether a file without space is waited for.
func (w *Watch) waits(path string) bool {
	return w.opened.Load() || isTable(path)
}

func isTable(path string) bool { return filepath.Ext(path) == ".sst" }

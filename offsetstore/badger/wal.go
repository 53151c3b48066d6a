package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// walNames watches for new write-ahead logs. Badger syncs what it writes into
// one, but not the directory that a new one's name is in: without that the
// file may be gone after a loss of power, with every commit in it.
type walNames struct {
	dir  string
	last int // the highest number seen
}

const walExt = ".mem"

// newWALNames notes the logs that are there and syncs their names.
func newWALNames(dir string) (*walNames, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("offset store: %w", err)
	}
	w := &walNames{dir: dir}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), walExt)
		if n, err := strconv.Atoi(name); ok && err == nil {
			w.last = max(w.last, n)
		}
	}
	return w, syncDir(dir)
}

// sync makes the names of new logs durable, if there are any: one stat when
// there is none.
func (w *walNames) sync() error {
	grown := false
	for {
		_, err := os.Lstat(filepath.Join(w.dir, fmt.Sprintf("%05d%s", w.last+1, walExt)))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return fmt.Errorf("offset store: %w", err)
		}
		w.last, grown = w.last+1, true
	}
	if !grown {
		return nil
	}
	return syncDir(w.dir)
}

package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wal watches Badger's write-ahead logs by their names. Each goes with a table
// of recent writes, from its first write until it is flushed; Badger begins the
// next one when that is full. A spare is made for it before: an empty file of
// the name to come, which has its space and whose name is durable. So a commit
// never lacks space in its midst, and no log vanishes with its name after a
// loss of power (Badger syncs what is in a log, not the directory).
type wal struct {
	dir         string
	size        int64 // of a log's file
	first, last int   // the lowest and highest number in use
	spare       bool  // there is one for last + 1
}

const walExt = ".mem"

// maxLogs is how many logs may be in use before a commit: with one more full,
// Badger would wait for a flush, however long that takes.
const maxLogs = memTables + 1

// memTables is how many full tables may wait to be flushed.
const memTables = 2

// logNumbers are the numbers of the logs in a directory, with their sizes.
func logNumbers(dir string) (map[int]int64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("offset store: %w", err)
	}
	numbers := map[int]int64{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), walExt)
		n, err := strconv.Atoi(name)
		if !ok || err != nil {
			continue
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // flushed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("offset store: %w", err)
		}
		numbers[n] = info.Size()
	}
	return numbers, nil
}

func walPath(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("%05d%s", n, walExt)) }

// removeSpares removes what makeSpare made: Badger does not open an empty log.
func removeSpares(dir string) error {
	numbers, err := logNumbers(dir)
	if err != nil {
		return err
	}
	for n, size := range numbers {
		if size > 0 {
			continue
		}
		if err := os.Remove(walPath(dir, n)); err != nil {
			return fmt.Errorf("offset store: %w", err)
		}
	}
	return nil
}

// openWAL notes the logs of an open database.
func openWAL(dir string, memTable int64) (*wal, error) {
	w := &wal{dir: dir, size: 2 * memTable, first: math.MaxInt}
	numbers, err := logNumbers(dir)
	for n := range numbers {
		w.first, w.last = min(w.first, n), max(w.last, n)
	}
	return w, err
}

// size of a log; 0 for a spare and for none.
func (w *wal) sizeOf(n int) (int64, error) {
	info, err := os.Lstat(walPath(w.dir, n))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("offset store: %w", err)
	}
	return info.Size(), nil
}

// count is how many logs are in use: one stat where none was flushed.
func (w *wal) count() (int, error) {
	for w.first < w.last {
		if size, err := w.sizeOf(w.first); size > 0 || err != nil {
			return w.last - w.first + 1, err
		}
		w.first++
	}
	return 1, nil
}

// follow notes that Badger went on to the spare: one stat when it did not.
func (w *wal) follow() error {
	for {
		size, err := w.sizeOf(w.last + 1)
		if size == 0 || err != nil {
			return err
		}
		w.last, w.spare = w.last+1, false
	}
}

// provide sees to it that there is a spare. Its name is synced with that of
// the log in use.
func (w *wal) provide(sync bool) error {
	if w.spare {
		return nil
	}
	if err := makeSpare(walPath(w.dir, w.last+1), w.size); err != nil {
		return fmt.Errorf("offset store: space for the next log: %w", err)
	}
	if sync {
		if err := syncDir(w.dir); err != nil {
			return err
		}
	}
	w.spare = true
	return nil
}

// Package audit keeps a record of what operators changed: a line of JSON for
// each change, on the disk before the change is answered.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Entry is one change, or one attempt at it.
type Entry struct {
	// Time is when the call came.
	Time time.Time `json:"time"`
	// Who names the caller's token; empty: the caller is not known.
	Who string `json:"who"`
	// Address is where the call came from.
	Address string `json:"address,omitempty"`
	// Call is the method of Admin: ResetOffset.
	Call string `json:"call"`
	// Request is what was asked for, as JSON.
	Request json.RawMessage `json:"request,omitempty"`
	// From and To are positions by partition, of a reset.
	From map[string]int64 `json:"from,omitempty"`
	To   map[string]int64 `json:"to,omitempty"`
	// Result is what else was answered, as JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// Outcome is the status code as the wire writes it: OK, PERMISSION_DENIED.
	Outcome string `json:"outcome"`
	// Detail is the status message of a call that failed.
	Detail string `json:"detail,omitempty"`
}

// Log appends entries to a file. Its methods may be called concurrently.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	torn bool // the last line may lack its end
}

// Open opens or makes the file, which only its owner can read.
func Open(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.Reopen()
}

// Reopen opens the file anew, for after it was moved away. On an error the file
// that was open stays.
func (l *Log) Reopen() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	torn, err := endsTorn(f)
	if err != nil {
		return fmt.Errorf("audit log: %w", errors.Join(err, f.Close()))
	}
	l.mu.Lock()
	old := l.file
	l.file, l.torn = f, torn
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// endsTorn tells whether a file ends within a line: a crash or a full disk has
// cut it off.
func endsTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

// Write appends an entry as one line and syncs it.
func (l *Log) Write(e *Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("audit log %s: %w", l.path, os.ErrClosed)
	}
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	_, err = l.file.Write(append(line, '\n'))
	l.torn = err != nil
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// Close closes the file. Later entries are errors.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

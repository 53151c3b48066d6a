package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// The cursors file: a state file (package vfs) with this as JSON. Every save
// writes it whole; the one before stays as .bak. It also notes how far the log
// goes, since the log's own last write may be damaged in ways that look like a
// write that a crash has torn.
const (
	cursorsKind    = "ackmesh-cursors"
	cursorsVersion = 1
)

type cursorsFile struct {
	Topics []topicCursors `json:"topics"`
	// LogEnd is a position that the log had reached: all before it was written
	// and, but with NoSync, synced. A log that ends earlier has lost records.
	LogEnd int64 `json:"log_end,omitempty"`
	NoSync bool  `json:"no_sync,omitempty"`
}

type topicCursors struct {
	Name string `json:"name"`
	// ID keeps the cursors of a deleted topic from its successor.
	ID string `json:"id"`
	// Next is the pull offset of each partition; -1: not set.
	Next []int64 `json:"next"`
}

// cursorFile is what is known of the file. Its fields but dirty are for who
// holds saving.
type cursorFile struct {
	dirty  atomic.Bool
	saving chan struct{}
	sound  bool // the file is whole, so it may become the backup
}

// Cursor implements storage.Backend.
func (l *Log) Cursor(topic, partition string) (next int64, ok bool) {
	p, err := l.partition(topic, partition)
	if err != nil {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursor == storage.Cursor {
		return 0, false
	}
	return p.cursor, true
}

// Seek implements storage.Backend. Any offset from 0 on is taken; one outside
// the partition's bounds fails the next Poll.
func (l *Log) Seek(_ context.Context, topic, partition string, next int64) error {
	p, err := l.partition(topic, partition)
	if err != nil {
		return err
	}
	if next < 0 {
		return fmt.Errorf("embedded log: seek to %d in topic %q partition %q: %w", next, topic, partition, storage.ErrInvalid)
	}
	p.mu.Lock()
	p.cursor = next
	p.seeks++
	p.mu.Unlock()
	l.cursors.dirty.Store(true)
	return nil
}

// moveCursor sets the cursor behind what a poll returned, unless there was a
// Seek meanwhile.
func (l *Log) moveCursor(p *partition, next int64, seeks uint64) {
	p.mu.Lock()
	moved := p.seeks == seeks
	if moved {
		p.cursor = next
	}
	p.mu.Unlock()
	if moved {
		l.cursors.dirty.Store(true)
	}
}

// Checkpoint implements storage.Checkpointer.
func (l *Log) Checkpoint(ctx context.Context) error {
	select {
	case l.cursors.saving <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.cursors.saving }()
	if l.closed.Load() {
		return fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
	return l.saveCursors()
}

// saveCursors writes the file if something changed. The caller holds saving.
func (l *Log) saveCursors() error {
	if !l.cursors.dirty.Swap(false) {
		return nil
	}
	b, err := json.Marshal(l.collectCursors())
	if err == nil {
		err = l.replaceCursors(b)
	}
	if err != nil {
		l.cursors.dirty.Store(true)
		if l.opts.Observe.CheckpointFailed != nil {
			l.opts.Observe.CheckpointFailed(err)
		}
		return fmt.Errorf("embedded log: pull offsets not saved: %w", err)
	}
	return nil
}

func (l *Log) collectCursors() cursorsFile {
	f := cursorsFile{LogEnd: l.readable.Load(), NoSync: l.opts.NoSync}
	for _, t := range l.allTopics() {
		next, set := make([]int64, len(t.parts)), false
		for i, p := range t.parts {
			p.mu.Lock()
			next[i] = p.cursor
			p.mu.Unlock()
			set = set || next[i] != storage.Cursor
		}
		if set {
			f.Topics = append(f.Topics, topicCursors{Name: t.name, ID: t.id, Next: next})
		}
	}
	return f
}

func (l *Log) cursorsName() string { return filepath.Join(l.dir, "cursors") }

// replaceCursors keeps the present file as backup if it is whole.
func (l *Log) replaceCursors(b []byte) error {
	name := l.cursorsName()
	if l.cursors.sound {
		if err := l.opts.FS.Rename(name, name+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.cursors.sound = false
	}
	if err := vfs.WriteState(l.opts.FS, name, cursorsKind, cursorsVersion, b); err != nil {
		return err
	}
	l.cursors.sound = true
	return nil
}

// loadCursors reads the file or its backup. What is damaged is left out with a
// warning: the cursors are then not set, and who polls aligns them.
// noted is the file that was read.
func (l *Log) loadCursors() (noted cursorsFile, err error) {
	l.cursors.saving = make(chan struct{}, 1)
	f, err := l.readCursors(l.cursorsName())
	if err == nil {
		l.cursors.sound = true
		l.useCursors(f)
		return f, nil
	}
	if errors.Is(err, vfs.ErrVersion) {
		return f, fmt.Errorf("embedded log: %w: %w", storage.ErrNewerFormat, err)
	}
	bak, bakErr := l.readCursors(l.cursorsName() + ".bak")
	if errors.Is(err, fs.ErrNotExist) && errors.Is(bakErr, fs.ErrNotExist) {
		return f, nil // a new directory, or nothing was ever polled
	}
	if bakErr == nil {
		l.useCursors(bak)
	}
	l.opts.Logger.Warn("embedded log: pull offsets could not be read", "err", err, "backup_used", bakErr == nil, "backup_err", bakErr)
	if l.opts.Observe.CursorsDamaged != nil {
		l.opts.Observe.CursorsDamaged(bakErr == nil)
	}
	return bak, nil
}

func (l *Log) readCursors(name string) (cursorsFile, error) {
	var f cursorsFile
	_, b, err := vfs.ReadState(l.opts.FS, name, cursorsKind, cursorsVersion)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return cursorsFile{}, fmt.Errorf("%s: %w: %w", name, vfs.ErrDamaged, err)
	}
	return f, nil
}

func (l *Log) useCursors(f cursorsFile) {
	for _, tc := range f.Topics {
		t := l.topics[tc.Name]
		if t == nil || t.id != tc.ID {
			continue
		}
		for i, next := range tc.Next[:min(len(tc.Next), len(t.parts))] {
			t.parts[i].cursor = max(next, storage.Cursor)
		}
	}
}

// Package badger is the offset store on disk, in a Badger database.
//
// # What survives
//
// A commit is one transaction of Badger's. It is told after Badger's
// write-ahead log is synced; the name of a new log is synced before. The death
// of the process loses nothing that was told, a loss of power neither; with
// Options.NoSync a loss of power does. High marks written by a Marker survive
// the death of the process only.
//
// Synced are: FORMAT (file and directory), Badger's logs (*.mem, by msync at
// each commit, their names when they are made), its tables (*.sst, when
// written) and its MANIFEST (when a table is added). Never synced: marks, lock.
//
// # What damage does
//
// Every pair has a checksum, and each commit writes down how many pairs there
// are and the sum of their hashes, and stamps its number into the file of
// marks. Open reads it all: what is damaged, missing, lost or back from the
// dead is ErrCorrupt, never absence. Badger itself ignores a table whose
// checksum is wrong, cuts a damaged log short, and loses a table of a
// compaction that the system refuses a file for.
//
// # Space
//
// Values are small and live in Badger's tables; its value log stays empty, so
// there is nothing in it to collect. Old versions go when two tables of recent
// writes are compacted.
//
// On a full disk a write to a mapped file would end the process, and an error
// could lose a table of a compaction. So Options.Writable refuses commits
// early, the next log and the manifest have their space ahead of need, and a
// table that Badger makes waits until there is space.
package badger

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	kv "github.com/dgraph-io/badger/v4"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/badger/internal/mapalloc"
	"github.com/ackmesh/ackmesh/offsetstore/internal/committer"
)

// Store is an offsetstore.Store in a directory.
type Store struct {
	dir     string
	opt     Options
	lock    *os.File
	sizes   Sizes
	db      *kv.DB
	space   *mapalloc.Watch
	index   *index
	marks   *marks
	commits *committer.Committer

	// The committer's own.
	meta  meta
	wal   *wal
	batch *batch
	buf   []byte
	stuck bool // flushing was behind for too long

	reads  sync.RWMutex // held for reading by reads of db, for writing to close it
	closed atomic.Bool
	broken atomic.Pointer[error] // why no commit is taken any more
	closes sync.Once
	ended  error
}

var _ offsetstore.Store = (*Store)(nil)

// Submit implements offsetstore.Store.
func (s *Store) Submit(txn *offsetstore.Txn, done func(error)) { s.commits.Submit(txn, done) }

// Healthy implements offsetstore.Store.
func (s *Store) Healthy() error {
	if err := s.usable(); err != nil {
		return err
	}
	if broken := s.broken.Load(); broken != nil {
		return *broken
	}
	if err := s.opt.Writable(); err != nil {
		return fmt.Errorf("offset store %s: %w: %w", s.dir, offsetstore.ErrReadOnly, err)
	}
	return nil
}

// setBroken notes an error of Badger's and returns what it means.
func (s *Store) setBroken(err error) error {
	err = fmt.Errorf("offset store %s: %w until it is opened again: commit failed: %w",
		s.dir, offsetstore.ErrReadOnly, err)
	s.broken.Store(&err)
	s.opt.Logger.Error("offset store: takes no more writes", "error", err)
	return err
}

// Close implements offsetstore.Store. Badger flushes what is only in its log;
// where there is no room for that it is left to the next Open and the database
// stays locked until the process ends: an error tells it.
func (s *Store) Close() error {
	s.commits.Close()
	first := false
	s.closes.Do(func() {
		first = true
		s.ended = s.shut()
	})
	if !first {
		return nil
	}
	return s.ended
}

func (s *Store) shut() error {
	s.closed.Store(true)
	s.reads.Lock()
	defer s.reads.Unlock()
	return s.release()
}

// release lets go of all that is open.
func (s *Store) release() (err error) {
	switch {
	case s.db != nil:
		err = s.closeDB()
	case s.space != nil:
		s.space.End()
	}
	if s.marks != nil {
		err = errors.Join(err, s.marks.close())
	}
	return errors.Join(err, s.lock.Close())
}

// closePatience is how long Badger may take to flush: on a full disk it would
// try for ever.
const closePatience = 10 * time.Second

func (s *Store) closeDB() error {
	if err := s.opt.Room(s.sizes.Needs()); err != nil {
		return fmt.Errorf("offset store %s: %w: %w", s.dir, errUnflushed, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.db.Close() }()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case err := <-ended:
		s.space.End()
		if err != nil {
			return fmt.Errorf("offset store %s: close: %w", s.dir, err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("offset store %s: %w after %v", s.dir, errUnflushed, closePatience)
	}
}

var errUnflushed = errors.New("closed without a flush, the next start makes up for it")

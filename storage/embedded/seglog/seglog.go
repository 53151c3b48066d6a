// Package seglog is an append-only log of entries in a row of segment files,
// with one writer whose every Write is one write and one sync.
//
// A position is a 64-bit number of bytes since the log began; it goes on from
// one file to the next without a gap and is never used twice, so an entry's
// position tells file and place.
//
//	dir/000000000001.seg   file header, then entries
//	dir/000000000002.seg   …the last one with entries is written to
//	dir/000000000003.seg   may be there already, prepared and empty
//
// What a crash can leave behind is the end of the last Write, torn anywhere.
// Each entry names its own position, the position where its Write began, and
// the checksum of the entry before it. So leftovers of a failed Write are
// never taken for entries (their chain is broken), and damage in the middle
// is told from a torn end: behind a torn end there is nothing of a later
// Write.
//
// Why not a library: hashicorp/raft-wal v0.4.0 was tried first. A run of 120
// appends over 17 segments, stopped at each of its 291 calls to the disk,
// left at 51 of them (three at each change of segment) a log that opened and
// then refused every append, at every later start. A batch whose sync had
// failed was there after reopening. It checks no checksum when it reads, and
// keeps its list of segments in a memory-mapped file, which a test cannot make
// lose power.
package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// Errors of this package, to be matched with errors.Is.
var (
	// ErrCorrupt: stored bytes are damaged, other than by a torn last Write.
	ErrCorrupt = errors.New("segment log is damaged")
	// ErrShort: the log ends before Options.Reach. It is ErrCorrupt too.
	ErrShort = errors.New("the end of the log is missing")
	// ErrNotFound: the position is outside what the log holds.
	ErrNotFound = errors.New("position is not in the log")
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("segment log is closed")
)

// Options of a log.
type Options struct {
	// FS is the file system. Required.
	FS vfs.FS
	// Dir holds the segment files and nothing else that ends in .seg. It must
	// exist.
	Dir string
	// Reach is a position that the log is known to have reached, durably: Open
	// refuses one that ends before. 0: nothing is known.
	Reach int64
	// SegmentSize is how large a segment may grow, in bytes, before the next
	// one begins; a single larger Write still goes into one. The first
	// segments of a small log are smaller. Default 64 MiB.
	SegmentSize int64
}

const (
	defaultSegmentSize = 64 << 20
	firstSegmentSize   = 4 << 20
)

// Log is a segment log. Write, DropBefore and Close are for one goroutine at
// a time each; reads may run beside all of them.
type Log struct {
	opts Options

	mu   sync.RWMutex // guards segs and the number of users of each
	segs []*segment   // oldest first; the last is written to

	end    atomic.Int64 // position behind the last entry
	closed atomic.Bool

	// The writer's own.
	prev      uint32        // checksum of the last entry
	fresh     *segment      // begun, but nothing is written to it yet
	next      chan prepared // result of the preparation under way
	preparing bool
	wg        sync.WaitGroup
}

// segment is one file. It is closed when its last user is gone.
type segment struct {
	seq, base int64
	size      int64 // how large it may grow
	file      vfs.File
	headed    bool // its header is durable
	users     int  // guarded by Log.mu; the log itself is one
}

// Segment describes a segment for the owner of the log.
type Segment struct {
	// Seq numbers the files, one after the other.
	Seq int64
	// Base and End are the positions of its first entry and behind its last.
	Base, End int64
}

func (o Options) name(seq int64) string {
	return filepath.Join(o.Dir, fmt.Sprintf("%012d.seg", seq))
}

// Segments lists the segments with entries, oldest first. The last one may
// be empty and still grows.
func (l *Log) Segments() []Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]Segment, len(l.segs))
	for i, s := range l.segs {
		out[i] = Segment{Seq: s.seq, Base: s.base, End: l.segEnd(i)}
	}
	return out
}

// segEnd is the position behind segment i. The caller holds mu.
func (l *Log) segEnd(i int) int64 {
	if i+1 < len(l.segs) {
		return l.segs[i+1].base
	}
	return l.end.Load()
}

// Bounds are the positions of the first entry and behind the last.
func (l *Log) Bounds() (first, end int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.segs[0].base, l.end.Load()
}

// Writing is the number of the segment that is written to.
func (l *Log) Writing() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.segs[len(l.segs)-1].seq
}

// EndOf is the end of the segment that holds a position: how far one ReadAt
// from there can reach. 0 where the log does not hold it.
func (l *Log) EndOf(pos int64) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := l.find(pos)
	if i < 0 {
		return 0
	}
	return l.segEnd(i)
}

// find is the segment of a position, -1 where there is none. The caller holds
// mu.
func (l *Log) find(pos int64) int {
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].base > pos }) - 1
	if i < 0 || pos >= l.segEnd(i) {
		return -1
	}
	return i
}

// ReadAt reads bytes of entries from a position on into b, at most up to the
// end of that position's segment, and returns how many. The layout of an
// entry is that of Parse. Errors: ErrNotFound, ErrClosed, what the disk says.
func (l *Log) ReadAt(b []byte, pos int64) (int, error) {
	s, end, err := l.use(pos)
	if err != nil {
		return 0, err
	}
	defer l.release(s)
	if room := end - pos; int64(len(b)) > room {
		b = b[:room]
	}
	n, err := s.file.ReadAt(b, pos-s.base+headerLen)
	if n < len(b) {
		return n, fmt.Errorf("read %d bytes at position %d (%s): %w", len(b), pos, l.opts.name(s.seq), err)
	}
	return n, nil
}

// use finds the segment of a position, its end, and counts the caller as user.
func (l *Log) use(pos int64) (*segment, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return nil, 0, ErrClosed
	}
	i := l.find(pos)
	if i < 0 {
		return nil, 0, fmt.Errorf("position %d: %w", pos, ErrNotFound)
	}
	l.segs[i].users++
	return l.segs[i], l.segEnd(i), nil
}

// release takes back one use and closes the file after the last. Everything
// in it is synced by then, so an error of the close says nothing of use.
func (l *Log) release(s *segment) {
	l.mu.Lock()
	s.users--
	last := s.users == 0
	l.mu.Unlock()
	if last {
		_ = s.file.Close()
	}
}

// DropBefore removes the segments that lie wholly below a position, oldest
// first, never the one that is written to. It may run beside a Write. After
// an error the rest is still there; call it again.
func (l *Log) DropBefore(pos int64) error {
	for {
		s := l.oldestBelow(pos)
		if s == nil {
			return nil
		}
		// One by one, and synced: a hole in the row would read as damage.
		if err := l.opts.FS.Remove(l.opts.name(s.seq)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop segment: %w", err)
		}
		l.forgetOldest()
		l.release(s)
		if err := l.opts.FS.SyncDir(l.opts.Dir); err != nil {
			return fmt.Errorf("drop segment: sync %s: %w", l.opts.Dir, err)
		}
	}
}

func (l *Log) oldestBelow(pos int64) *segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.segs) < 2 || l.segs[1].base > pos {
		return nil
	}
	return l.segs[0]
}

func (l *Log) forgetOldest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs = append([]*segment(nil), l.segs[1:]...)
}

// Close waits for what is prepared in the background and closes the files;
// reads under way end first. A second Close returns nil.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	l.wg.Wait()
	var errs []error
	if l.preparing {
		if p := <-l.next; p.file != nil {
			errs = append(errs, p.file.Close())
		}
	}
	if l.fresh != nil {
		errs = append(errs, l.fresh.file.Close())
	}
	l.mu.RLock()
	segs := l.segs
	l.mu.RUnlock()
	for _, s := range segs {
		l.release(s)
	}
	return errors.Join(errs...)
}

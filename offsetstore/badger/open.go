package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	kv "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/badger/internal/mapalloc"
	"github.com/ackmesh/ackmesh/offsetstore/internal/committer"
)

// dbDir is Badger's directory within the store's.
const dbDir = "badger"

// Open opens the store in a directory, making both when there are none. It
// reads all values, and blocks for that. Errors name the path and wrap:
// ErrLocked, ErrNewerFormat, ErrCorrupt when anything is damaged or missing,
// ErrReadOnly when the disk is too full to open; else the system's own.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("offset store: cannot make directory %s: %w", dir, err)
	}
	lock, err := lockDir(dir, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opt: o, lock: lock, index: newIndex()}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.commits = committer.Start(s.commit)
	return s, nil
}

// open is Open under the lock.
func (s *Store) open() error {
	f, err := s.prepare()
	if err != nil {
		return err
	}
	if err := s.opt.Room(f.sizes.Needs()); err != nil {
		return fmt.Errorf("offset store %s: %w: no room to open: %w", s.dir, offsetstore.ErrReadOnly, err)
	}
	s.sizes = f.sizes
	opt := badgerOptions(s.path(), f.sizes, s.opt)
	if f.state == stateReady {
		if err := verifyFiles(s.path(), opt); err != nil {
			return err
		}
	}
	if err := s.openDB(opt); err != nil {
		return err
	}
	s.batch = newBatch(s.index, limits{
		size:  int(s.db.MaxBatchSize()) - reserve,
		count: int(s.db.MaxBatchCount()) - reserve/pairCost,
		value: int(valueLimit(f.sizes)),
	})
	if err := s.load(f); err != nil {
		return err
	}
	if f.state == stateReady {
		return nil
	}
	if err := s.write(nil, nil, meta{seq: 1}); err != nil {
		return err
	}
	if err := errors.Join(s.db.Sync(), syncDir(s.path())); err != nil { // whatever Options.NoSync
		return fmt.Errorf("offset store %s: %w", s.dir, err)
	}
	f.state = stateReady
	return writeFormat(s.dir, f)
}

// openDB opens Badger, and takes the space that it must not lack later.
func (s *Store) openDB(opt kv.Options) (err error) {
	s.space, err = mapalloc.Dir(s.path(), func(path string, err error) {
		s.opt.Logger.Error("offset store: waits for space", "file", path, "error", err)
	})
	if err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	if err := removeSpares(s.path()); err != nil {
		return err
	}
	db, err := kv.Open(opt)
	if err != nil {
		return s.openError(err) // db is not nil then, but cannot be closed
	}
	s.db = db
	if err := reserveManifest(s.path()); err != nil {
		return s.openError(err)
	}
	if s.wal, err = openWAL(s.path(), s.sizes.MemTable); err != nil {
		return err
	}
	if err := s.wal.provide(!s.opt.NoSync); err != nil {
		return s.openError(err)
	}
	s.space.Opened()
	if whole, err := hasItsSpace(walPath(s.path(), s.wal.last)); err != nil {
		return fmt.Errorf("offset store: %w", err)
	} else if !whole {
		s.opt.Logger.Warn("offset store: the filesystem takes no space ahead of need: "+
			"if others fill the disk, the process may end", "dir", s.path())
	}
	return nil
}

// reserve is what a transaction holds beside what a batch counts: the meta
// record and Badger's own end mark.
const reserve = 1024

// path is Badger's directory.
func (s *Store) path() string { return filepath.Join(s.dir, dbDir) }

// prepare reads the format, or begins a new store.
func (s *Store) prepare() (format, error) {
	f, ok, err := readFormat(s.dir)
	if err != nil {
		return format{}, err
	}
	if ok && f.state == stateReady {
		return f, nil
	}
	if ok { // it was never finished, so nothing can be in it
		if err := os.RemoveAll(s.path()); err != nil {
			return format{}, fmt.Errorf("offset store: %w", err)
		}
		return f, s.begin(f)
	}
	if _, err := os.Lstat(s.path()); !errors.Is(err, fs.ErrNotExist) {
		return format{}, damaged(filepath.Join(s.dir, formatFile), errors.New("the file is missing, but there is data"))
	}
	f, err = s.newFormat()
	if err != nil {
		return format{}, err
	}
	return f, s.begin(f)
}

// newFormat is that of a new store.
func (s *Store) newFormat() (format, error) {
	f := format{state: stateNew, sizes: s.opt.Sizes, id: rand.Uint64()}
	if f.sizes == (Sizes{}) {
		var err error
		if f.sizes, err = sizesFor(s.dir); err != nil {
			return format{}, err
		}
	}
	return f, f.sizes.check()
}

// sizesFor is SizesFor the filesystem of a directory.
func sizesFor(dir string) (Sizes, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Sizes{}, fmt.Errorf("offset store: size of the filesystem of %s: %w", dir, err)
	}
	return SizesFor(int64(st.Blocks) * int64(st.Bsize)), nil
}

// SizesOf are the sizes of the store in a directory, or those that a new one
// would get there: what a guard of the disk needs to know before Open. The
// directory or its parent must exist.
func SizesOf(dir string) (Sizes, error) {
	f, ok, err := readFormat(dir)
	if err != nil || ok {
		return f.sizes, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir)
	}
	return sizesFor(dir)
}

// begin notes that a store is being made, and makes its directory.
func (s *Store) begin(f format) error {
	if err := writeFormat(s.dir, f); err != nil {
		return err
	}
	if err := os.Mkdir(s.path(), 0o750); err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	if err := syncDir(filepath.Dir(s.dir)); err != nil { // it may be closed to us
		s.opt.Logger.Warn("offset store: the name of its directory may not be durable", "error", err)
	}
	return syncDir(s.dir)
}

// openError tells a damaged store from a system that does not play along:
// Badger's errors cannot be told apart but by their text.
func (s *Store) openError(err error) error {
	text := err.Error()
	if strings.Contains(text, "Cannot acquire directory lock") {
		return fmt.Errorf("offset store %s: %w: %w", s.path(), offsetstore.ErrLocked, err)
	}
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if strings.Contains(text, errno.Error()) {
			return fmt.Errorf("offset store %s: %w: no room to open: %w", s.path(), offsetstore.ErrReadOnly, err)
		}
	}
	for _, errno := range []unix.Errno{unix.EACCES, unix.EPERM, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO} {
		if strings.Contains(text, errno.Error()) {
			return fmt.Errorf("offset store %s: %w: %w", s.path(), errno, err)
		}
	}
	return damaged(s.path(), err)
}

// badgerOptions are those of a small store that is read at start and then only
// written: no cache, no compression, and no value that goes to the value log.
func badgerOptions(dir string, z Sizes, o Options) kv.Options {
	opt := kv.DefaultOptions(dir)
	opt.SyncWrites = !o.NoSync
	opt.MemTableSize = z.MemTable
	opt.NumMemtables = memTables
	opt.ValueLogFileSize = z.ValueLog
	opt.ValueThreshold = valueLimit(z)
	opt.BaseTableSize = max(mib, z.MemTable/4)
	opt.BaseLevelSize = 4 * opt.BaseTableSize
	opt.NumLevelZeroTables = 2
	opt.NumLevelZeroTablesStall = 4
	opt.NumCompactors = 2
	opt.BlockCacheSize, opt.IndexCacheSize = 0, 0
	opt.Compression = options.None
	opt.ChecksumVerificationMode = options.OnBlockRead
	opt.DetectConflicts = false // there is one writer
	opt.MetricsEnabled = false
	opt.Logger = logAdapter{o.Logger}
	return opt
}

// valueLimit is the size from which on Badger would put a value into the value
// log; no transaction may hold one.
func valueLimit(z Sizes) int64 { return min(mib, z.MemTable*15/100) }

// logAdapter gives Badger's lines to a slog.Logger.
type logAdapter struct{ log *slog.Logger }

// Errorf implements Badger's Logger.
func (a logAdapter) Errorf(f string, v ...any) { a.log.Error(line(f, v)) }

// Warningf implements Badger's Logger.
func (a logAdapter) Warningf(f string, v ...any) { a.log.Warn(line(f, v)) }

// Infof implements Badger's Logger: its info is our debug.
func (a logAdapter) Infof(f string, v ...any) { a.log.Debug(line(f, v)) }

// Debugf implements Badger's Logger: it has a line for every commit.
func (a logAdapter) Debugf(string, ...any) {}

func line(f string, v []any) string { return "badger: " + strings.TrimSpace(fmt.Sprintf(f, v...)) }

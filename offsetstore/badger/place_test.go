package badger

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	kv "github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/offsetstoretest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	// A database that does not open leaves these behind, in Badger; of one that
	// was closed see TestCloseLeavesNoGoroutine.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4/y.(*WaterMark).process"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).updateSize"),
	)
}

// small are the sizes for tests: files are full soon.
var small = Sizes{MemTable: 1 << 20, ValueLog: 1 << 20}

// place is a directory, and the store that has it open.
type place struct {
	t     testing.TB
	dir   string
	opt   Options
	store *Store

	mu   sync.Mutex
	fail error
	held chan struct{}
}

func newPlace(t testing.TB) *place {
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "offsets")}
	p.opt = Options{Sizes: small, Writable: p.writable, Logger: testLogger(t)}
	return p
}

func forSuite(t *testing.T) offsetstoretest.Place { return newPlace(t) }

// testLogger shows warnings in the test's output.
func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// writable is the hand on the commits.
func (p *place) writable() error {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fail
}

func (p *place) Open() (offsetstore.Store, error) {
	s, err := Open(p.dir, p.opt)
	if err != nil {
		return nil, err
	}
	p.store = s
	p.t.Cleanup(func() {
		p.release()
		if err := s.Close(); err != nil {
			p.t.Errorf("close: %v", err)
		}
	})
	return s, nil
}

// Kill leaves the store behind and goes on with a copy of its directory: what
// the death of the process leaves in the page cache.
func (p *place) Kill() {
	to := filepath.Join(p.t.TempDir(), "offsets")
	copyDir(p.t, p.dir, to)
	p.Fail(errors.New("killed"))
	p.release()
	if err := p.store.Close(); err != nil {
		p.t.Errorf("close: %v", err)
	}
	p.Fail(nil)
	p.dir = to
}

func (p *place) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

func (p *place) Hold() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
	return p.release
}

func (p *place) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

func (p *place) TooBig() *offsetstore.Txn {
	txn := &offsetstore.Txn{}
	for i := range 5000 {
		txn.Puts = append(txn.Puts, offsetstore.Put{Key: benchKey(i), Value: offsetstore.Value{Position: 1}})
	}
	return txn
}

// Tidy compacts all levels and collects the value log.
func (p *place) Tidy() {
	if err := p.store.db.Flatten(2); err != nil {
		p.t.Errorf("flatten: %v", err)
	}
	if err := p.store.db.RunValueLogGC(0.01); err != nil && !errors.Is(err, kv.ErrNoRewrite) {
		p.t.Errorf("collect the value log: %v", err)
	}
}

// copyDir copies a directory with all in it, as it was at one instant: when
// Badger moved files meanwhile, it begins anew.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	for range 1000 {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		before := listing(t, from)
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil && maps.Equal(before, listing(t, from)) {
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("copy %s: %v", from, err)
		}
	}
	t.Fatalf("copy %s: its files never stood still", from)
}

// listing are the files of a directory with their sizes.
func listing(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[path] = info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("list %s: %v", dir, err)
	}
	return files
}

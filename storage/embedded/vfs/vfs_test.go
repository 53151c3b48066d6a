package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// systems are the file systems that must behave alike.
func systems(t *testing.T) map[string]struct {
	fs  vfs.FS
	dir string
} {
	return map[string]struct {
		fs  vfs.FS
		dir string
	}{
		"os":      {vfs.OS(), t.TempDir()},
		"crashfs": {crashfs.New(), "/base"},
		"nosync":  {vfs.NoSync(vfs.OS()), t.TempDir()},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileSystemsBehaveAlike(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(s.dir, "a", "b")
			must(t, s.fs.MkdirAll(dir))
			must(t, s.fs.MkdirAll(dir))
			path := filepath.Join(dir, "f")
			if _, err := s.fs.Open(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open of nothing: %v", err)
			}
			if err := s.fs.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("remove of nothing: %v", err)
			}
			f, err := s.fs.Create(path)
			must(t, err)
			must(t, f.Allocate(100))
			must(t, f.Allocate(50))
			if n, err := f.Size(); n != 100 || err != nil {
				t.Errorf("allocated file has %d bytes, %v", n, err)
			}
			if _, err := f.WriteAt([]byte("hello"), 98); err != nil {
				t.Error(err)
			}
			must(t, f.Sync())
			b := make([]byte, 10)
			if n, err := f.ReadAt(b, 96); n != 7 || err == nil || string(b[:7]) != "\x00\x00hello" {
				t.Errorf("read at the end: %q, %v", b[:n], err)
			}
			must(t, f.Close())
			if _, err := f.WriteAt(b, 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("write to a closed file: %v", err)
			}
			must(t, s.fs.Rename(path, path+"2"))
			_, err = s.fs.Create(filepath.Join(dir, "e"))
			must(t, err)
			must(t, s.fs.SyncDir(dir))
			if names, err := s.fs.List(dir); err != nil || !slices.Equal(names, []string{"e", "f2"}) {
				t.Errorf("list: %v, %v", names, err)
			}
			if _, err := s.fs.List(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("list of nothing: %v", err)
			}
			if total, free, err := s.fs.Space(dir); err != nil || free < 0 || total < free {
				t.Errorf("space: %d of %d, %v", free, total, err)
			}
			testLock(t, s.fs, filepath.Join(dir, "LOCK"))
		})
	}
}

func testLock(t *testing.T, f vfs.FS, name string) {
	t.Helper()
	l, err := f.Lock(name)
	must(t, err)
	if _, err := f.Lock(name); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), name) {
		t.Errorf("second lock: %v", err)
	}
	must(t, l.Close())
	l, err = f.Lock(name)
	must(t, err)
	must(t, l.Close())
}

func TestState(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			must(t, s.fs.MkdirAll(s.dir))
			path := filepath.Join(s.dir, "state")
			if _, _, err := vfs.ReadState(s.fs, path, "kind", 3); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no file: %v", err)
			}
			for _, payload := range []string{"", "x", "two\nlines\n"} {
				must(t, vfs.WriteState(s.fs, path, "kind", 3, []byte(payload)))
				v, got, err := vfs.ReadState(s.fs, path, "kind", 3)
				if v != 3 || string(got) != payload || err != nil {
					t.Errorf("%q came back as %q of version %d, %v", payload, got, v, err)
				}
			}
			if _, _, err := vfs.ReadState(s.fs, path, "other", 3); !errors.Is(err, vfs.ErrDamaged) {
				t.Errorf("a file of another kind: %v", err)
			}
			if _, _, err := vfs.ReadState(s.fs, path, "kind", 2); !errors.Is(err, vfs.ErrVersion) || !strings.Contains(err.Error(), path) {
				t.Errorf("a newer version: %v", err)
			}
		})
	}
}

// Every single changed bit is noticed, and every cut; that of a version is not
// taken for a newer one.
func TestStateDamage(t *testing.T) {
	f := crashfs.New()
	must(t, f.MkdirAll("/d"))
	must(t, vfs.WriteState(f, "/d/s", "kind", 1, []byte("the payload")))
	whole, err := vfs.ReadFile(f, "/d/s", 1000)
	must(t, err)
	try := func(what string, at int, b []byte) {
		t.Helper()
		must(t, f.Corrupt("/d/s", func([]byte) []byte { return b }))
		if _, _, err := vfs.ReadState(f, "/d/s", "kind", 1); !errors.Is(err, vfs.ErrDamaged) {
			t.Errorf("%s at byte %d: %v", what, at, err)
		}
	}
	for i := range whole {
		for bit := range 8 {
			b := slices.Clone(whole)
			b[i] ^= 1 << bit
			try("changed", i, b)
		}
		try("cut", i, slices.Clone(whole[:i]))
	}
	try("longer", len(whole), append(slices.Clone(whole), 0))
}

// What was written when headers had no checksum of their own is read.
func TestStateWithoutHeaderSum(t *testing.T) {
	f := crashfs.New()
	must(t, f.MkdirAll("/d"))
	must(t, vfs.WriteFile(f, "/d/s", []byte("kind 2 0 00000000\n")))
	if v, b, err := vfs.ReadState(f, "/d/s", "kind", 2); v != 2 || len(b) != 0 || err != nil {
		t.Errorf("version %d, %q, %v", v, b, err)
	}
	if _, _, err := vfs.ReadState(f, "/d/s", "kind", 1); !errors.Is(err, vfs.ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

// A failure of any call leaves the old or the new content, and says which is
// possible.
func TestWriteFileFails(t *testing.T) {
	for n := 0; ; n++ {
		f := crashfs.New()
		must(t, f.MkdirAll("/d"))
		must(t, vfs.WriteFile(f, "/d/s", []byte("old")))
		calls := 0
		f.SetHook(func(crashfs.Op) error {
			if calls++; calls == n+1 {
				return crashfs.ErrInjected
			}
			return nil
		})
		err := vfs.WriteFile(f, "/d/s", []byte("new"))
		f.SetHook(nil)
		if err == nil {
			if n < 5 {
				t.Errorf("only %d calls", n)
			}
			return
		}
		for _, g := range []*crashfs.FS{f.Kill(), f.PowerLoss()} {
			got, readErr := vfs.ReadFile(g, "/d/s", 10)
			must(t, readErr)
			if string(got) != "old" && (string(got) != "new" || !errors.Is(err, vfs.ErrUncertain)) {
				t.Errorf("call %d fails (%v): %q is there", n, err, got)
			}
		}
	}
}

func TestReadFileLimit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, []byte("12345"), 0o600))
	if _, err := vfs.ReadFile(vfs.OS(), name, 4); !errors.Is(err, vfs.ErrDamaged) {
		t.Errorf("5 bytes, limit 4: %v", err)
	}
}

// Whatever a file holds, reading it gives its payload or an error.
func FuzzReadState(f *testing.F) {
	f.Add([]byte("kind 1 2 8a2f1c3d\nhi"))
	f.Add([]byte("kind 1 0 00000000\n"))
	f.Add([]byte("kind 1 0 00000000 0\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := crashfs.New()
		must(t, d.MkdirAll("/d"))
		must(t, vfs.WriteFile(d, "/d/s", b))
		v, payload, err := vfs.ReadState(d, "/d/s", "kind", 5)
		if err == nil && (v < 1 || v > 5 || len(payload) > len(b)) {
			t.Errorf("version %d, %d bytes of %d", v, len(payload), len(b))
		}
	})
}

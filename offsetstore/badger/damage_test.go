package badger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kv "github.com/dgraph-io/badger/v4"

	"github.com/ackmesh/ackmesh/offsetstore"
)

func mustCommit(t testing.TB, s offsetstore.Store, txn *offsetstore.Txn) {
	t.Helper()
	if err := offsetstore.Commit(t.Context(), s, txn); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func mustOpen(t testing.TB, p *place) *Store {
	t.Helper()
	if _, err := p.Open(); err != nil {
		t.Fatalf("open: %v", err)
	}
	return p.store
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func ackOf(i int, position int64) *offsetstore.Txn {
	return &offsetstore.Txn{Puts: []offsetstore.Put{{Key: benchKey(i), Value: offsetstore.Value{Epoch: 1, Position: position}}}}
}

// filled is a place whose store was closed, with tables and a log that was
// not flushed: what the death of a process leaves.
func filled(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	s := mustOpen(t, p)
	for i := range 300 {
		mustCommit(t, s, ackOf(i, 1))
	}
	mustClose(t, s)
	s = mustOpen(t, p)
	for i := 150; i < 450; i++ { // some only in a table, some only in the log
		mustCommit(t, s, ackOf(i, 2))
	}
	mustCommit(t, s, &offsetstore.Txn{Sets: []offsetstore.Record{{Space: "s", Key: "k", Value: []byte("v")}}})
	p.Kill()
	return p
}

// files are the paths of the files in a place's database that match a pattern.
func (p *place) files(pattern string) []string {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, pattern))
	if err != nil || len(files) == 0 {
		p.t.Fatalf("no file is like %s: %v", pattern, err)
	}
	return files
}

// edit changes a file's bytes.
func edit(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o640); err != nil {
		t.Fatal(err)
	}
}

func flip(at func(n int) int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at(len(b))] ^= 0x5a
		return b
	}
}

func half(b []byte) []byte { return b[:len(b)/2] }

func zeros(b []byte) []byte { return make([]byte, len(b)) }

// TestDamageIsRefused: whatever is damaged or missing, the store does not
// start, and says where.
func TestDamageIsRefused(t *testing.T) {
	begin := func(int) int { return 0 }
	middle := func(n int) int { return n / 2 }
	end := func(n int) int { return n - 1 }
	var remove func([]byte) []byte
	base := filled(t)
	for name, c := range map[string]struct {
		file   string
		change func([]byte) []byte // nil: remove the file
	}{
		"table, first byte":     {"badger/*.sst", flip(begin)},
		"table, middle":         {"badger/*.sst", flip(middle)},
		"table, last byte":      {"badger/*.sst", flip(end)},
		"table, checksum size":  {"badger/*.sst", flip(func(n int) int { return n - 4 })},
		"table, cut":            {"badger/*.sst", half},
		"table, zeros":          {"badger/*.sst", zeros},
		"table, empty":          {"badger/*.sst", func([]byte) []byte { return []byte{} }},
		"table, missing":        {"badger/*.sst", remove},
		"manifest, first byte":  {"badger/MANIFEST", flip(begin)},
		"manifest, last byte":   {"badger/MANIFEST", flip(end)},
		"manifest, cut":         {"badger/MANIFEST", half},
		"manifest, missing":     {"badger/MANIFEST", remove},
		"manifest, zeros":       {"badger/MANIFEST", zeros},
		"log, header":           {"badger/*.mem", flip(begin)},
		"log, early":            {"badger/*.mem", flip(func(int) int { return 60 })},
		"log, later":            {"badger/*.mem", flip(func(int) int { return 9_000 })},
		"log, zeros":            {"badger/*.mem", zeros},
		"log, missing":          {"badger/*.mem", remove},
		"value log, header":     {"badger/*.vlog", flip(begin)},
		"format, first byte":    {"FORMAT", flip(begin)},
		"format, last byte":     {"FORMAT", flip(end)},
		"format, a size":        {"FORMAT", func(b []byte) []byte { return []byte(strings.Replace(string(b), "memtable 1", "memtable 2", 1)) }},
		"format, empty":         {"FORMAT", func([]byte) []byte { return []byte{} }},
		"format, missing":       {"FORMAT", remove},
		"database, all of it":   {"badger", remove},
		"tables and logs, gone": {"badger/*[.sm]*", remove},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			p := newPlace(t)
			copyDir(t, base.dir, p.dir)
			for _, path := range p.files(c.file) {
				damage(t, path, c.change)
			}
			s, err := Open(p.dir, p.opt)
			if err == nil {
				mustClose(t, s)
			}
			if !errors.Is(err, offsetstore.ErrCorrupt) || !strings.Contains(err.Error(), p.dir) {
				t.Fatalf("open: %v, want ErrCorrupt with the path", err)
			}
			t.Log(err)
		})
	}
}

// damage changes a file that has content, or removes it.
func damage(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	info, err := os.Stat(path)
	switch {
	case err != nil:
		t.Fatal(err)
	case change == nil:
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	case info.Size() > 0:
		edit(t, path, change)
	}
}

// TestDamageBehindChecksums: pairs that Badger takes for whole, but that are
// not what was committed.
func TestDamageBehindChecksums(t *testing.T) {
	key := string(badgerKey(nil, benchKey(1)))
	for name, change := range map[string]func(txn *kv.Txn) error{
		"a pair is lost":          func(txn *kv.Txn) error { return txn.Delete([]byte(key)) },
		"a record is lost":        func(txn *kv.Txn) error { return txn.Delete(recordKey(nil, "s", "k")) },
		"the meta record is lost": func(txn *kv.Txn) error { return txn.Delete(metaKey) },
		"a pair is older":         func(txn *kv.Txn) error { return older(txn, key) },
		"a deleted pair came back": func(txn *kv.Txn) error {
			return txn.Set(recordKey(nil, "s", "old"), sealRecord(recordKey(nil, "s", "old"), nil))
		},
		"a pair is another's":       func(txn *kv.Txn) error { return swap(txn, key) },
		"a value is garbled":        func(txn *kv.Txn) error { return txn.Set([]byte(key), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}) },
		"a value is of a newer one": func(txn *kv.Txn) error { return txn.Set([]byte(key), seal([]byte(key), []byte{2, 0, 0})) },
		"a value has no content":    func(txn *kv.Txn) error { return txn.Set([]byte(key), seal([]byte(key), []byte{1})) },
		"a value is empty":          func(txn *kv.Txn) error { return txn.Set([]byte(key), nil) },
		"a key is garbled":          func(txn *kv.Txn) error { return txn.Set([]byte("k\xff"), seal([]byte("k\xff"), []byte{1, 1, 1, 0})) },
		"a foreign key":             func(txn *kv.Txn) error { return txn.Set([]byte("zebra"), []byte("stripes")) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			p := newPlace(t)
			s := mustOpen(t, p)
			for i := range 5 {
				mustCommit(t, s, ackOf(i, 1))
			}
			mustCommit(t, s, &offsetstore.Txn{Sets: []offsetstore.Record{{Space: "s", Key: "k", Value: []byte("v")}}})
			if err := s.db.Update(change); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			if s, err := Open(p.dir, p.opt); !errors.Is(err, offsetstore.ErrCorrupt) || !strings.Contains(err.Error(), p.dir) {
				if err == nil {
					mustClose(t, s)
				}
				t.Fatalf("open: %v, want ErrCorrupt with the path", err)
			}
		})
	}
}

// older puts a whole, but older value in the place of a key's.
func older(txn *kv.Txn, key string) error {
	v := offsetstore.AppendValue(nil, offsetstore.Value{Epoch: 1})
	env, _ := sealValue([]byte(key), slotRef{1, 1}, v)
	return txn.Set([]byte(key), env)
}

// swap puts another key's value in the place of a key's.
func swap(txn *kv.Txn, key string) error {
	item, err := txn.Get(badgerKey(nil, benchKey(2)))
	if err != nil {
		return err
	}
	env, err := item.ValueCopy(nil)
	if err != nil {
		return err
	}
	return txn.Set([]byte(key), env)
}

// TestTornTailIsCut: what a commit left behind that was cut off in its midst
// is not damage: it was told to nobody.
func TestTornTailIsCut(t *testing.T) {
	p := filled(t)
	log := p.files("badger/*.mem")
	edit(t, log[len(log)-1], func(b []byte) []byte {
		end := len(b)
		for end > 0 && b[end-1] == 0 {
			end--
		}
		copy(b[end:], "half of an entry")
		return b
	})
	s := mustOpen(t, p)
	for i := range 450 {
		if v, ok, err := s.Get(benchKey(i)); err != nil || !ok || (v.Position == 2) != (i >= 150) {
			t.Fatalf("key %d has %+v, %v, %v", i, v, ok, err)
		}
	}
}

// TestLostMarks: a file of marks that is damaged or missing costs the marks,
// no more.
func TestLostMarks(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"missing": nil,
		"zeros":   zeros,
		"cut":     func(b []byte) []byte { return b[:40] },
		"garbled": func(b []byte) []byte {
			for i := range b {
				b[i] ^= byte(i * 7)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			s := mustOpen(t, p)
			txn := ackOf(1, 5)
			txn.Puts[0].Value.High = 9
			mustCommit(t, s, txn)
			markTo(t, s, 20)
			mustClose(t, s)
			damage(t, filepath.Join(p.dir, marksFile), change)
			s = mustOpen(t, p)
			highMarkIs(t, s, 9)
			markTo(t, s, 30)
			highMarkIs(t, s, 30)
			mustClose(t, s)
			s = mustOpen(t, p)
			highMarkIs(t, s, 30)
		})
	}
}

func markTo(t *testing.T, s *Store, high int64) {
	t.Helper()
	m, err := s.Marker(benchKey(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Mark(1, high); err != nil {
		t.Fatal(err)
	}
}

func highMarkIs(t *testing.T, s *Store, want int64) {
	t.Helper()
	v, ok, err := s.Get(benchKey(1))
	if err != nil || !ok || v.High != want {
		t.Fatalf("high mark is %d (%v, %v), want %d", v.High, ok, err, want)
	}
}

func TestNewerFormat(t *testing.T) {
	p := filled(t)
	edit(t, filepath.Join(p.dir, formatFile), func([]byte) []byte {
		return []byte(formatMagic + "2\nwith all that is new\n")
	})
	_, err := Open(p.dir, p.opt)
	if !errors.Is(err, offsetstore.ErrNewerFormat) || !strings.Contains(err.Error(), p.dir) {
		t.Fatalf("open: %v, want ErrNewerFormat with the path", err)
	}
	if _, err := SizesOf(p.dir); !errors.Is(err, offsetstore.ErrNewerFormat) {
		t.Fatalf("sizes: %v, want ErrNewerFormat", err)
	}
}

// TestUnfinishedBegin: the process died while it made the store.
func TestUnfinishedBegin(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(filepath.Join(p.dir, dbDir), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := writeFormat(p.dir, format{state: stateNew, sizes: small, id: 7}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, dbDir, "MANIFEST"), []byte("ha"), 0o640); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, p)
	mustCommit(t, s, ackOf(1, 1))
	mustClose(t, s)
	mustOpen(t, p)
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/offsets"} {
		_, err := Open(dir, Options{})
		if err == nil || errors.Is(err, offsetstore.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(dir)) {
			t.Errorf("open of %s: %v", dir, err)
		}
	}
}

// TestSizesStay: a store keeps the sizes it was made with.
func TestSizesStay(t *testing.T) {
	p := newPlace(t)
	mustClose(t, mustOpen(t, p))
	p.opt.Sizes = Sizes{MemTable: 4 * mib, ValueLog: mib}
	s := mustOpen(t, p)
	if got, err := SizesOf(p.dir); err != nil || got != small || s.sizes != small {
		t.Fatalf("sizes are %+v and %+v (%v), want %+v", got, s.sizes, err, small)
	}
	bad := newPlace(t)
	bad.opt.Sizes.MemTable = 1
	if _, err := bad.Open(); err == nil {
		t.Fatal("a table of 1 byte was taken")
	}
}

func TestSizesFor(t *testing.T) {
	for _, total := range []int64{32 * mib, 200 * mib, 1 << 40} {
		z := SizesFor(total)
		if err := z.check(); err != nil {
			t.Errorf("for %d: %v", total, err)
		}
		if rest := total - z.Margin()*5/4 - z.Needs(); rest < 16*mib {
			t.Errorf("for %d: margin %d and ballast %d leave %d", total, z.Margin(), z.Needs(), rest)
		}
		t.Logf("%d MiB: table %d KiB, margin %d MiB, needs %d MiB", total/mib, z.MemTable/1024, z.Margin()/mib, z.Needs()/mib)
	}
}

func FuzzDecodeFormat(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(format{state: stateReady, sizes: small, id: 1}.encode())
	f.Add([]byte(formatMagic + "2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeFormat(b)
		if err == nil {
			if string(v.encode()) != string(b) {
				t.Fatalf("%q decodes to %+v, which encodes to %q", b, v, v.encode())
			}
			return
		}
		if !errors.Is(err, offsetstore.ErrCorrupt) && !errors.Is(err, offsetstore.ErrNewerFormat) {
			t.Fatalf("%q: %v", b, err)
		}
	})
}

// FuzzVerifyTable: any bytes are a whole table or an error.
func FuzzVerifyTable(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, 64))
	p := newPlace(f)
	s := mustOpen(f, p)
	mustCommit(f, s, ackOf(1, 1))
	mustClose(f, s)
	whole, err := os.ReadFile(p.files("badger/*.sst")[0])
	if err != nil || verifyTable(whole) != nil {
		f.Fatalf("a whole table: %v, %v", err, verifyTable(whole))
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := verifyTable(b); err == nil && len(b) < 32 {
			t.Fatalf("%x passes for a table", b)
		}
	})
}

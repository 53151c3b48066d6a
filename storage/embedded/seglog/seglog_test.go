package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/log"

func newDisk(t testing.TB) *crashfs.FS {
	t.Helper()
	f := crashfs.New()
	if err := f.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	return f
}

func mustOpen(t testing.TB, f *crashfs.FS, segment int64) *Log {
	t.Helper()
	l, err := Open(Options{FS: f, Dir: dir, SegmentSize: segment})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // many tests end on a failed disk
	return l
}

// batch builds entries; each text is meta and body, divided by a bar.
func batch(texts ...string) *Batch {
	b := &Batch{}
	for _, s := range texts {
		m, d, _ := bytes.Cut([]byte(s), []byte("|"))
		meta, body, _ := b.Add(len(m), len(d))
		copy(meta, m)
		copy(body, d)
	}
	return b
}

func mustWrite(t testing.TB, l *Log, texts ...string) int64 {
	t.Helper()
	pos, err := l.Write(batch(texts...))
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// content reads the whole log, checked, and makes sure of the positions.
func content(l *Log) ([]string, error) {
	var out []string
	pos, _ := l.Bounds()
	for _, s := range l.Segments() {
		if s.Base != pos {
			return nil, fmt.Errorf("segment %d begins at %d, want %d", s.Seq, s.Base, pos)
		}
		err := l.Walk(s.Seq, func(e Entry) error {
			if e.Pos != pos {
				return fmt.Errorf("entry at %d, want %d", e.Pos, pos)
			}
			buf := make([]byte, e.Size)
			if _, err := l.ReadAt(buf, pos); err != nil {
				return err
			}
			whole, err := Parse(buf, pos)
			if err != nil {
				return err
			}
			out = append(out, string(whole.Meta)+"|"+string(whole.Body))
			pos += int64(e.Size)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if _, end := l.Bounds(); end != pos {
		return nil, fmt.Errorf("the log ends at %d, its entries at %d", end, pos)
	}
	return out, nil
}

func wantContent(t testing.TB, l *Log, want ...string) {
	t.Helper()
	got, err := content(l)
	if err != nil || !equal(got, want) {
		t.Fatalf("log holds %q, %v, want %q", got, err, want)
	}
}

func equal(a, b []string) bool { return fmt.Sprintf("%q", a) == fmt.Sprintf("%q", b) }

func TestWriteReadReopen(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 512)
	var want []string
	for i := range 40 {
		texts := []string{fmt.Sprintf("m%d|%s", i, bytes.Repeat([]byte{'x'}, i*7%90)), "|"}
		mustWrite(t, l, texts...)
		want = append(want, texts...)
	}
	if n := len(l.Segments()); n < 5 {
		t.Fatalf("%d segments, want some", n)
	}
	wantContent(t, l, want...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, disk, 512)
	wantContent(t, l, want...)
	mustWrite(t, l, "after|reopen")
	wantContent(t, l, append(want, "after|reopen")...)
}

func TestReadOutside(t *testing.T) {
	l := mustOpen(t, newDisk(t), 0)
	end := mustWrite(t, l, "a|b") + int64(EntrySize(1, 1))
	for _, pos := range []int64{-1, end, end + 100} {
		if _, err := l.ReadAt(make([]byte, 8), pos); !errors.Is(err, ErrNotFound) {
			t.Errorf("read at %d: %v, want ErrNotFound", pos, err)
		}
	}
	if n, err := l.ReadAt(make([]byte, 1000), 0); int64(n) != end || err != nil {
		t.Errorf("a read beyond the end gives %d bytes, %v, want %d", n, err, end)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ReadAt(make([]byte, 8), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read of a closed log: %v", err)
	}
	if _, err := l.Write(batch("a|b")); !errors.Is(err, ErrClosed) {
		t.Errorf("write to a closed log: %v", err)
	}
}

func TestDropBefore(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 256)
	for i := range 30 {
		mustWrite(t, l, fmt.Sprintf("m%d|0123456789", i))
	}
	segs := l.Segments()
	cut := segs[3].Base
	if err := l.DropBefore(cut + 1); err != nil {
		t.Fatal(err)
	}
	if first, _ := l.Bounds(); first != cut {
		t.Errorf("after a drop the log begins at %d, want %d", first, cut)
	}
	if _, err := l.ReadAt(make([]byte, 8), cut-1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dropped position: %v", err)
	}
	_, end := l.Bounds()
	if err := l.DropBefore(end); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Segments()); n != 1 {
		t.Errorf("%d segments left, want the one that is written to", n)
	}
	want, err := content(l)
	if err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, disk.PowerLoss(), 256)
	wantContent(t, l, want...)
	if _, e := l.Bounds(); e != end {
		t.Errorf("the end was %d and is %d", end, e)
	}
}

// A removal that fails must leave the row of files whole.
func TestDropBeforeFails(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 256)
	for i := range 30 {
		mustWrite(t, l, fmt.Sprintf("m%d|0123456789", i))
	}
	_, end := l.Bounds()
	for _, kind := range []string{"remove", "syncdir"} {
		n := 0
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind == kind {
				if n++; n == 2 {
					return crashfs.ErrInjected
				}
			}
			return nil
		})
		if err := l.DropBefore(end - 500); !errors.Is(err, crashfs.ErrInjected) {
			t.Errorf("%s fails: %v", kind, err)
		}
		disk.SetHook(nil)
		mustWrite(t, l, "more|0123456789")
		for _, d := range []*crashfs.FS{disk.Kill(), disk.PowerLoss()} {
			if _, err := content(mustOpen(t, d, 256)); err != nil {
				t.Errorf("after %s failed: %v", kind, err)
			}
		}
	}
}

// TestDamageIsFound changes each byte of a log in turn: it must refuse to open
// with ErrCorrupt, or fail to be read with it, or be unharmed; or lose no more
// than its last Write, which a crash may do as well.
func TestDamageIsFound(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 300)
	var want []string
	for i := range 8 {
		texts := []string{fmt.Sprintf("m%d|body%d", i, i), fmt.Sprintf("n%d|", i)}
		mustWrite(t, l, texts...)
		want = append(want, texts...)
	}
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for at := range size(t, disk, dir+"/"+name) {
			damaged := disk.Kill()
			if err := damaged.Corrupt(dir+"/"+name, func(b []byte) []byte { b[at] ^= 0x41; return b }); err != nil {
				t.Fatal(err)
			}
			checkDamaged(t, damaged, fmt.Sprintf("%s byte %d", name, at), want)
		}
	}
}

func size(t testing.TB, disk *crashfs.FS, name string) int64 {
	t.Helper()
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func checkDamaged(t *testing.T, disk *crashfs.FS, what string, want []string) {
	t.Helper()
	l, err := Open(Options{FS: disk, Dir: dir, SegmentSize: 300})
	if errors.Is(err, ErrCorrupt) {
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer l.Close()
	got, err := content(l)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%s: %v", what, err)
	}
	if err == nil && !equal(got, want) && !equal(got, want[:len(want)-2]) && !equal(got, want[:len(want)-1]) {
		t.Fatalf("%s: the log holds %q", what, got)
	}
}

func TestMissingSegment(t *testing.T) {
	for _, missing := range []int{0, 1, 2} {
		disk := newDisk(t)
		l := mustOpen(t, disk, 256)
		for i := range 12 {
			mustWrite(t, l, fmt.Sprintf("m%d|0123456789", i))
		}
		segs := l.Segments()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := disk.Remove(l.opts.name(segs[missing].Seq)); err != nil {
			t.Fatal(err)
		}
		l2, err := Open(Options{FS: disk, Dir: dir, SegmentSize: 256})
		if missing == 0 {
			// The owner of the log knows where it should begin.
			if err != nil {
				t.Fatal(err)
			}
			if first, _ := l2.Bounds(); first != segs[1].Base {
				t.Errorf("the log begins at %d", first)
			}
			_ = l2.Close()
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("without segment %d: %v, want ErrCorrupt", missing, err)
		}
	}
}

// TestStaleEntryIsNotRevived: the second entry of a torn Write is whole on
// disk. A later Write of the same length as the first entry must not make it
// the next one.
func TestStaleEntryIsNotRevived(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk, 0)
	mustWrite(t, l, "a|1")
	disk.SetHook(func(op crashfs.Op) error {
		if op.Kind == "sync" {
			return crashfs.ErrInjected
		}
		return nil
	})
	if _, err := l.Write(batch("b|2", "c|3")); err == nil {
		t.Fatal("the write did not fail")
	}
	disk.SetHook(nil)
	mustWrite(t, l, "d|4")
	wantContent(t, mustOpen(t, disk.Kill(), 0), "a|1", "d|4")
}

// TestRandomFaultsAndCrashes drives a log with failing calls and crashes of
// every kind against a list of what must be there.
func TestRandomFaultsAndCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{segment: int64(rapid.IntRange(200, 2000).Draw(t, "segment")), disk: crashfs.New()}
		if err := m.disk.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		m.reopen(t)
		defer func() { _ = m.l.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "fault": m.fault, "crash": m.crash, "close": m.close, "drop": m.drop, "": m.check,
		})
	})
}

// machine is the model: what was written with success, and what failed since
// the last success and so may be there after a crash.
type machine struct {
	disk    *crashfs.FS
	l       *Log
	segment int64
	acked   []string
	dropped int // of acked, from the front
	sure    int // of dropped, those that cannot come back
	maybe   [][]string
	n       int
}

func (m *machine) write(t *rapid.T) {
	var texts []string
	for range rapid.IntRange(1, 4).Draw(t, "entries") {
		m.n++
		texts = append(texts, fmt.Sprintf("%d|%s", m.n, bytes.Repeat([]byte{'b'}, rapid.IntRange(0, 700).Draw(t, "body"))))
	}
	if _, err := m.l.Write(batch(texts...)); err != nil {
		m.maybe = append(m.maybe, texts)
		return
	}
	m.acked, m.maybe = append(m.acked, texts...), nil
}

// fault makes the n-th call from now fail, and the ones behind it up to a
// number.
func (m *machine) fault(t *rapid.T) {
	from := rapid.IntRange(0, 6).Draw(t, "from")
	to := from + rapid.IntRange(1, 4).Draw(t, "number")
	n := 0
	m.disk.SetHook(func(op crashfs.Op) error {
		if op.Kind == "read" {
			return nil
		}
		if n++; n > from && n <= to {
			return crashfs.ErrInjected
		}
		return nil
	})
}

func (m *machine) crash(t *rapid.T) {
	m.disk.Halt()
	_ = m.l.Close()
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		m.disk = m.disk.Kill()
	case 1:
		m.disk = m.disk.PowerLoss()
	case 2:
		rnd := rand.New(rand.NewPCG(uint64(rapid.Int64().Draw(t, "seed")), 0))
		m.disk = m.disk.Torn(rnd.IntN)
	}
	m.reopen(t)
	m.sure = m.dropped
}

func (m *machine) close(t *rapid.T) {
	m.disk.SetHook(nil)
	if err := m.l.Close(); err != nil {
		t.Fatal(err)
	}
	m.reopen(t)
}

func (m *machine) reopen(t *rapid.T) {
	l, err := Open(Options{FS: m.disk, Dir: dir, SegmentSize: m.segment})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.l = l
	got, err := content(l)
	if err != nil {
		t.Fatalf("after a crash: %v", err)
	}
	// Segments whose removal was not synced may come back.
	for d := m.dropped; d >= m.sure; d-- {
		if extra := len(got) - (len(m.acked) - d); extra >= 0 && equal(got[:len(got)-extra], m.acked[d:]) && (extra == 0 || m.isMaybe(got[len(got)-extra:])) {
			m.acked, m.maybe = append(m.acked, got[len(got)-extra:]...), nil
			m.dropped = d
			return
		}
	}
	t.Fatalf("the log holds %q, want %q and perhaps the begin of one of %q", got, m.acked[m.dropped:], m.maybe)
}

func (m *machine) isMaybe(got []string) bool {
	for _, texts := range m.maybe {
		if len(got) <= len(texts) && equal(got, texts[:len(got)]) {
			return true
		}
	}
	return false
}

// drop drops the older half of the segments.
func (m *machine) drop(t *rapid.T) {
	segs := m.l.Segments()
	err := m.l.DropBefore(segs[len(segs)/2].Base)
	got, readErr := content(m.l)
	if readErr != nil {
		t.Fatal(readErr)
	}
	before := m.dropped
	m.dropped = len(m.acked) - len(got)
	if err == nil && m.dropped > before {
		m.sure = m.dropped
	}
}

func (m *machine) check(t *rapid.T) {
	got, err := content(m.l)
	if err != nil {
		t.Fatal(err)
	}
	if !equal(got, m.acked[m.dropped:]) {
		t.Fatalf("the log holds %q, want %q", got, m.acked[m.dropped:])
	}
}

// Whatever a segment file holds, opening and reading it ends without a panic,
// and what can be read once can be read after another start.
func FuzzOpen(f *testing.F) {
	disk := newDisk(f)
	l := mustOpen(f, disk, 0)
	mustWrite(f, l, "a|1", "b|2")
	mustWrite(f, l, "c|3")
	file, err := disk.Open(dir + "/000000000001.seg")
	if err != nil {
		f.Fatal(err)
	}
	seed := make([]byte, 300)
	if _, err := file.ReadAt(seed, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := newDisk(t)
		if _, err := disk.Create(dir + "/000000000001.seg"); err != nil {
			t.Fatal(err)
		}
		if err := disk.Corrupt(dir+"/000000000001.seg", func([]byte) []byte { return b }); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{FS: disk, Dir: dir, SegmentSize: 1 << 10})
		if err != nil {
			return
		}
		defer l.Close()
		got, err := content(l)
		if err != nil {
			t.Fatalf("an open log cannot be read: %v", err)
		}
		mustWrite(t, l, "more|x")
		wantContent(t, mustOpen(t, disk.PowerLoss(), 1<<10), append(got, "more|x")...)
	})
}

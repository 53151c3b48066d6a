package cursorfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/cursorfile"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file that is saved only on request.
func open(t *testing.T, dir string, o cursorfile.Options) *cursorfile.File {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = -1
	}
	if o.FS == nil {
		o.FS = vfs.NoSync(vfs.OS()) // nothing here loses power
	}
	o.Logger = slog.New(slog.DiscardHandler)
	f, err := cursorfile.Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func reopen(t *testing.T, f *cursorfile.File, dir string) *cursorfile.File {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return open(t, dir, cursorfile.Options{})
}

func want(t *testing.T, f *cursorfile.File, topic, partition string, next int64) {
	t.Helper()
	if got, _, ok := f.Get(topic, partition); !ok || got != next {
		t.Errorf("%s/%s is %d, %v; want %d", topic, partition, got, ok, next)
	}
}

func wantNone(t *testing.T, f *cursorfile.File, topic, partition string) {
	t.Helper()
	if got, _, ok := f.Get(topic, partition); ok {
		t.Errorf("%s/%s is %d, want it not set", topic, partition, got)
	}
}

func TestOutlivesClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	f := open(t, dir, cursorfile.Options{})
	wantNone(t, f, "a", "0")
	f.Seek("a", "id", "0", 0)
	f.Seek("a", "id", "7", 1<<62)
	f.Seek("a", "id", "broker-a:3", 5)
	f.Seek("a", "id", "007", 6)
	f.Begin("b", "id", "0")
	for range 2 {
		f = reopen(t, f, dir)
		want(t, f, "a", "0", 0)
		want(t, f, "a", "7", 1<<62)
		want(t, f, "a", "broker-a:3", 5)
		want(t, f, "a", "007", 6)
		for _, part := range []string{"1", "6", "8", "-1", ""} {
			wantNone(t, f, "a", part)
		}
		wantNone(t, f, "b", "0")
	}
}

// Any set of pull offsets comes back.
func TestAnySet(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		f := open(t, dir, cursorfile.Options{})
		set := map[[2]string]int64{}
		for range rapid.IntRange(0, 30).Draw(rt, "n") {
			topic := rapid.SampledFrom([]string{"a", "b", "ä\"\\"}).Draw(rt, "topic")
			part := rapid.OneOf(rapid.SampledFrom([]string{"0", "1", "4095", "4096", "00", "+1", "a:1", "鍵"}), rapid.Map(rapid.IntRange(0, 9), func(n int) string { return fmt.Sprint(n) })).Draw(rt, "partition")
			next := rapid.Int64Range(0, 1<<62).Draw(rt, "next")
			f.Seek(topic, topic+" id", part, next)
			set[[2]string{topic, part}] = next
		}
		if err := f.Close(); err != nil {
			rt.Fatal(err)
		}
		f = open(t, dir, cursorfile.Options{})
		for k, next := range set {
			got, id, ok := f.Get(k[0], k[1])
			if !ok || got != next || id != k[0]+" id" {
				rt.Fatalf("%q is %d, %q, %v; want %d", k, got, id, ok, next)
			}
		}
		if err := f.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// A reader moves the pull offset, unless there was a Seek meanwhile.
func TestMove(t *testing.T) {
	f := open(t, t.TempDir(), cursorfile.Options{})
	next, set, mark := f.Begin("a", "id", "0")
	if set || next != storage.Cursor {
		t.Errorf("at first %d, %v", next, set)
	}
	f.Move(mark, 10)
	want(t, f, "a", "0", 10)
	_, _, mark = f.Begin("a", "id", "0")
	f.Seek("a", "id", "0", 3)
	f.Move(mark, 20)
	want(t, f, "a", "0", 3)
	_, _, mark = f.Begin("a", "id", "0")
	f.Forget("a")
	f.Move(mark, 30)
	wantNone(t, f, "a", "0")
}

// What belongs to a topic that was deleted is not its successor's.
func TestIdentity(t *testing.T) {
	f := open(t, t.TempDir(), cursorfile.Options{})
	f.Seek("a", "", "0", 5)
	if next, set, _ := f.Begin("a", "one", "0"); !set || next != 5 {
		t.Errorf("an identity that was unknown: %d, %v", next, set)
	}
	if _, set, _ := f.Begin("a", "two", "0"); set {
		t.Error("the successor has the pull offset")
	}
	f.Seek("a", "two", "0", 1)
	f.Seek("a", "three", "1", 2)
	wantNone(t, f, "a", "0")
}

func TestCheckpointAndInterval(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, cursorfile.Options{Interval: time.Millisecond})
	f.Seek("a", "id", "0", 5)
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(time.Millisecond); ; {
		if b, err := os.ReadFile(filepath.Join(dir, "cursors")); err == nil && bytes.Contains(b, []byte("[5]")) {
			tick.Stop()
			break
		}
		select {
		case <-deadline:
			t.Fatal("it is not saved by itself")
		case <-tick.C:
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Checkpoint(t.Context()); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Checkpoint after Close: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// Damage of any kind: the backup counts, else nothing is set; never an error.
func TestC55_DamagedFile(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
		"truncated": func(b []byte) []byte { return b[:len(b)-3] },
		"versioned": func(b []byte) []byte { return bytes.Replace(b, []byte(" 1 "), []byte(" 3 "), 1) },
		"garbled":   func(b []byte) []byte { b[len(b)/2] ^= 0x40; return b },
		"no JSON":   func([]byte) []byte { return state(t, "ackmesh-cursors", 1, "{") },
		"other":     func([]byte) []byte { return state(t, "something-else", 1, "{}") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir, cursorfile.Options{})
			f.Seek("a", "id", "0", 1)
			checkpoint(t, f)
			f.Seek("a", "id", "0", 2)
			checkpoint(t, f)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			var told []bool
			damage(t, filepath.Join(dir, "cursors"), spoil)
			f = open(t, dir, cursorfile.Options{Damaged: func(usedBackup bool) { told = append(told, usedBackup) }})
			want(t, f, "a", "0", 1)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(dir, "cursors.bak"), spoil)
			f = open(t, dir, cursorfile.Options{Damaged: func(usedBackup bool) { told = append(told, usedBackup) }})
			wantNone(t, f, "a", "0")
			if len(told) != 2 || !told[0] || told[1] {
				t.Errorf("told of damage: %v", told)
			}
			// It heals with the next save, and the bad file does not become the backup.
			f.Seek("a", "id", "0", 3)
			f = reopen(t, f, dir)
			want(t, f, "a", "0", 3)
		})
	}
}

func checkpoint(t *testing.T, f *cursorfile.File) {
	t.Helper()
	if err := f.Checkpoint(t.Context()); err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
}

func damage(t *testing.T, name string, spoil func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, spoil(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// state makes the bytes of a state file.
func state(t *testing.T, kind string, version int, payload string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "state")
	if err := vfs.WriteState(vfs.OS(), name, kind, version, []byte(payload)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A newer file stops the start and stays as it is.
func TestNewerVersion(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cursors")
	newer := state(t, "ackmesh-cursors", 2, "{}")
	if err := os.WriteFile(name, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cursorfile.Open(dir, cursorfile.Options{}); !errors.Is(err, storage.ErrNewerFormat) {
		t.Errorf("%v, want ErrNewerFormat", err)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, newer) {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, cursorfile.Options{})
	if _, err := cursorfile.Open(dir, cursorfile.Options{}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	reopen(t, f, dir)
}

// The form that the embedded log writes is read as it is.
func TestReadsFormOfEmbeddedLog(t *testing.T) {
	dir := t.TempDir()
	b := state(t, "ackmesh-cursors", 1, `{"topics":[{"name":"a","id":"x","next":[3,-1,0]}]}`)
	if err := os.WriteFile(filepath.Join(dir, "cursors"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, dir, cursorfile.Options{})
	want(t, f, "a", "0", 3)
	wantNone(t, f, "a", "1")
	want(t, f, "a", "2", 0)
}

// A disk that fails loses nothing that was set: it is saved when the disk
// heals.
func TestFailedSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	told := 0
	disk := &failing{FS: vfs.OS()}
	f := open(t, dir, cursorfile.Options{FS: disk, Failed: func(error) { told++ }})
	f.Seek("a", "id", "0", 5)
	disk.err = errors.New("disk is full")
	if err := f.Checkpoint(t.Context()); !errors.Is(err, disk.err) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	disk.err = nil
	checkpoint(t, f)
	f = reopen(t, f, dir)
	want(t, f, "a", "0", 5)
}

type failing struct {
	vfs.FS
	err error
}

func (f *failing) Create(name string) (vfs.File, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.FS.Create(name)
}

// TestForgetPartition: what was forgotten is gone, now and after a restart, and
// nothing else is.
func TestForgetPartition(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, cursorfile.Options{})
	f.Seek("chat", "", "session-1/0", 7)
	f.Seek("chat", "", "session-2/0", 8)
	f.Seek("other", "", "session-1/0", 9)
	f.ForgetPartition("chat", "session-1/0")
	f.ForgetPartition("chat", "never")
	f.ForgetPartition("never", "session-1/0")
	for range 2 {
		wantNone(t, f, "chat", "session-1/0")
		want(t, f, "chat", "session-2/0", 8)
		want(t, f, "other", "session-1/0", 9)
		f = reopen(t, f, dir)
	}
}

// TestInMemory: it keeps what it is told until it is closed, and nowhere.
func TestInMemory(t *testing.T) {
	f := cursorfile.InMemory()
	f.Seek("t", "", "0", 7)
	if err := f.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, f, "t", "0", 7)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

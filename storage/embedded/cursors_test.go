package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// readSome polls n records by the cursor.
func readSome(t *testing.T, l *Log, n int) []storage.Record {
	t.Helper()
	var b storage.Batch
	if err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: n}, &b); err != nil {
		t.Fatal(err)
	}
	return b.Records
}

func wantCursor(t *testing.T, l *Log, want int64) {
	t.Helper()
	next, ok := l.Cursor("t", "0")
	if !ok {
		next = -1
	}
	if next != want {
		t.Fatalf("cursor is %d, want %d", next, want)
	}
}

// C15: the cursor is the next to read, everywhere: no repeat and no loss at a
// restart, a reset, or a reset to the end.
func TestC15_CursorIsNextToRead(t *testing.T) {
	dir := t.TempDir()
	o := Options{Partitions: 1}
	l := mustOpen(t, dir, o)
	mustAppend(t, l, "t", events("k", 0, 20))
	wantFrames(t, readSome(t, l, 8), 0, names("k", 0, 8)...)
	mustClose(t, l)
	l = mustOpen(t, dir, o)
	wantFrames(t, readSome(t, l, 1), 8, "k-8")
	if err := l.Seek(t.Context(), "t", "0", 12); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, dir, o)
	wantFrames(t, readSome(t, l, 1), 12, "k-12")
	if err := l.Seek(t.Context(), "t", "0", 20); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, dir, o)
	mustAppend(t, l, "t", events("k", 20, 1))
	wantFrames(t, readSome(t, l, 5), 20, "k-20")
	if err := l.Seek(t.Context(), "t", "0", -1); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("seek to -1: %v", err)
	}
}

// C53: offsets and cursor go on after each start.
func TestC53_NumbersGoOnAfterRestart(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		l := mustOpen(t, dir, Options{Partitions: 1})
		if r := mustAppend(t, l, "t", events("k", 100*i, 100)); r[0].Offset != int64(100*i) {
			t.Fatalf("start %d: offset %d", i, r[0].Offset)
		}
		wantFrames(t, readSome(t, l, 100), int64(100*i), names("k", 100*i, 100)...)
		mustClose(t, l)
	}
}

// C23: nothing of a deleted topic is left for its successor.
func TestC23_RecreatedTopic(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{Partitions: 1})
	mustAppend(t, l, "t", events("old", 0, 1000))
	readSome(t, l, 1000)
	was, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, "t", events("new", 0, 5))
	for range 2 {
		now, err := l.Topic(t.Context(), "t")
		if err != nil || now.ID == was.ID {
			t.Fatalf("identity %q after %q, %v", now.ID, was.ID, err)
		}
		wantCursor(t, l, -1)
		wantFrames(t, readAll(t, l, "t", "0", 0), 0, names("new", 0, 5)...)
		var b storage.Batch
		if err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", TopicID: was.ID, Partition: "0", Start: 1000}, &b); !errors.Is(err, storage.ErrTopicChanged) {
			t.Errorf("poll of the old topic: %v", err)
		}
		mustClose(t, l)
		l = mustOpen(t, dir, Options{Partitions: 1})
	}
}

// damages of a file, by name.
var damages = map[string]func([]byte) []byte{
	"truncated": func(b []byte) []byte { return b[:len(b)/2] },
	"emptied":   func([]byte) []byte { return nil },
	"zeroed":    func(b []byte) []byte { return make([]byte, len(b)) },
	"garbled":   func(b []byte) []byte { return bytes.Map(func(r rune) rune { return r ^ 5 }, b) },
	"flipped":   func(b []byte) []byte { b[len(b)-4] ^= 4; return b },
	"versioned": func(b []byte) []byte { return bytes.Replace(b, []byte(" 1 "), []byte(" 3 "), 1) },
	"longer":    func(b []byte) []byte { return append(b, "more"...) },
}

// C55: with a damaged cursor file the log starts, uses the backup if that is
// sound, warns and counts; the cursor is never beyond what was read. A garbage
// temporary file does nothing.
func TestC55_DamagedCursorFile(t *testing.T) {
	for what, damage := range damages {
		for _, file := range []string{"cursors", "cursors.tmp", "both"} {
			t.Run(what+"/"+file, func(t *testing.T) { testDamagedCursors(t, damage, file) })
		}
	}
}

func testDamagedCursors(t *testing.T, damage func([]byte) []byte, file string) {
	dir := t.TempDir()
	var log bytes.Buffer
	counted, used := 0, false
	o := Options{Partitions: 1, NoSync: true, Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: Observe{
		CursorsDamaged: func(backup bool) { counted++; used = backup },
	}}
	l := mustOpen(t, dir, o)
	mustAppend(t, l, "t", events("k", 0, 20))
	for range 2 { // so that there is a backup
		readSome(t, l, 4)
		if err := l.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	hit := map[string][]string{"cursors": {"cursors"}, "cursors.tmp": {"cursors.tmp"}, "both": {"cursors", "cursors.bak"}}[file]
	for _, name := range hit {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			b = []byte("ackmesh-cursors 1 400 12345678\n{")
		}
		if err := os.WriteFile(path, damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{"cursors": 4, "cursors.tmp": 8, "both": -1}[file]
	l = mustOpen(t, dir, o)
	wantCursor(t, l, want)
	if damaged := file != "cursors.tmp"; damaged != (counted == 1) || damaged != bytes.Contains(log.Bytes(), []byte("WARN")) || used != (file == "cursors") {
		t.Errorf("counted %d, backup %v, log %q", counted, used, log.String())
	}
	readSome(t, l, 1)
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, dir, o)
	wantCursor(t, l, max(want, 0)+1)
}

// A crash at any moment of a save leaves the old or the new offsets, and a
// damaged file never replaces a sound backup.
func TestCursorsSurviveCrashInSave(t *testing.T) {
	for start := range 2 {
		for n := 0; ; n++ {
			disk := crashfs.New()
			o := Options{FS: disk, Partitions: 1, CheckpointInterval: -1}
			l := mustOpen(t, "/d", o)
			mustAppend(t, l, "t", events("k", 0, 20))
			for range 2 {
				readSome(t, l, 4)
				if err := l.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			old := int64(8)
			if start == 1 {
				if err := disk.Corrupt("/d/cursors", damages["zeroed"]); err != nil {
					t.Fatal(err)
				}
				disk = disk.Kill()
				o.FS = disk
				l = mustOpen(t, "/d", o)
				old = 4
			}
			readSome(t, l, 2)
			calls := 0
			disk.SetHook(func(crashfs.Op) error {
				if calls++; calls > n {
					return crashfs.ErrHalted
				}
				return nil
			})
			err := l.Checkpoint(t.Context())
			disk.SetHook(nil)
			for _, d := range []*crashfs.FS{disk.Kill(), disk.PowerLoss()} {
				o.FS = d
				after := mustOpen(t, "/d", o)
				next, ok := after.Cursor("t", "0")
				if !ok || next != old && next != old+2 || err == nil && next != old+2 {
					t.Fatalf("start %d, crash after %d calls (%v): cursor %d %v, want %d or %d", start, n, err, next, ok, old, old+2)
				}
			}
			if err == nil {
				break
			}
		}
	}
}

// The offsets are saved every CheckpointInterval, and only when they changed.
func TestCheckpointInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New()
		l, err := Open("/d", Options{FS: disk, Partitions: 1, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var saves atomic.Int64
		mustAppend(t, l, "t", events("k", 0, 20))
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind == "create" {
				saves.Add(1)
			}
			return nil
		})
		readSome(t, l, 5)
		<-time.After(6 * time.Second)
		if saves.Load() != 1 {
			t.Errorf("%d saves after 6 s, want 1", saves.Load())
		}
		<-time.After(time.Minute)
		if saves.Load() != 1 {
			t.Errorf("%d saves without a change", saves.Load()-1)
		}
		after, err := Open("/d", Options{FS: disk.PowerLoss(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close()
		wantCursor(t, after, 5)
	})
}

// A checkpoint that fails is told and tried again.
func TestCheckpointFails(t *testing.T) {
	disk := crashfs.New()
	failed := 0
	l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1, CheckpointInterval: -1, Observe: Observe{CheckpointFailed: func(error) { failed++ }}})
	mustAppend(t, l, "t", events("k", 0, 20))
	for i, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		readSome(t, l, 1)
		disk.SetHook(failing(kind))
		if err := l.Checkpoint(t.Context()); !errors.Is(err, crashfs.ErrInjected) || failed != i+1 {
			t.Errorf("%s fails: %v, %d counted", kind, err, failed)
		}
		disk.SetHook(nil)
		if err := l.Checkpoint(t.Context()); err != nil {
			t.Errorf("after %s failed: %v", kind, err)
		}
		wantCursor(t, mustOpen(t, "/d", Options{FS: disk.PowerLoss()}), int64(i+1))
	}
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	if err := l.Checkpoint(t.Context()); !errors.Is(err, storage.ErrClosed) {
		t.Error(fmt.Sprint("after Close: ", err))
	}
}

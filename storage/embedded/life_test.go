package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

var errDeadline = context.DeadlineExceeded

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

const childDir = "ACKMESH_TEST_DIR"

// TestChild is the other process of TestC70: it opens the log that the
// environment names, appends one event after the other, prints the number of
// each when it is confirmed, and ends when it is killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	say := func(words ...any) {
		if _, err := fmt.Fprintln(os.Stdout, words...); err != nil {
			os.Exit(1) // nobody listens any more
		}
	}
	l, err := Open(dir, Options{Partitions: 1})
	if err != nil {
		say("error:", err)
		return
	}
	_, next, err := l.Bounds(context.Background(), "t", "0")
	if err != nil && !errors.Is(err, storage.ErrTopicNotFound) {
		say("error:", err)
		return
	}
	for i := next; ; i++ {
		r, err := storage.AppendWait(context.Background(), l, "t", []storage.Event{{Frame: fmt.Appendf(nil, "k-%d", i)}})
		if err != nil || r[0].Offset != i {
			say("error:", err, r)
			return
		}
		say("confirmed", i)
	}
}

// startChild runs TestChild and returns its output, line by line.
func startChild(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// C70: a second process is refused at once, naming path and cause; after any
// number of kill -9 the log opens again and nothing confirmed is missing.
func TestC70_LockAndKill(t *testing.T) {
	dir := t.TempDir()
	last := int64(-1)
	for round := range 20 {
		cmd, lines := startChild(t, dir)
		for n := 0; n < 5+round; n++ {
			if !lines.Scan() {
				t.Fatalf("round %d: the child ended", round)
			}
			var at int64
			if _, err := fmt.Sscanf(lines.Text(), "confirmed %d", &at); err != nil {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
			if at != last+1 && n > 0 || at <= last {
				t.Fatalf("round %d: offset %d was confirmed after %d", round, at, last)
			}
			last = at
		}
		if round == 0 {
			_, err := Open(dir, Options{})
			if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
				t.Fatalf("second process: %v", err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // confirmed before the kill
			if _, err := fmt.Sscanf(lines.Text(), "confirmed %d", &last); err != nil {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
		}
		_ = cmd.Wait() // killed
	}
	l := mustOpen(t, dir, Options{})
	got := readAll(t, l, "t", "0", 0)
	if int64(len(got)) < last+1 || int64(len(got)) > last+2 {
		t.Fatalf("%d records, the last confirmed is %d", len(got), last)
	}
	wantFrames(t, got, 0, names("k", 0, len(got))...)
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v", err)
	}
	mustClose(t, l)
	mustOpen(t, dir, Options{})
}

// What a newer version wrote is refused, naming path and versions.
func TestNewerFormat(t *testing.T) {
	for name, kind := range map[string]string{"FORMAT": formatKind, "topics": topicsKind, "cursors": cursorsKind} {
		dir := t.TempDir()
		mustClose(t, mustOpen(t, dir, Options{}))
		path := filepath.Join(dir, name)
		if err := vfs.WriteState(vfs.OS(), path, kind, 99, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, Options{})
		if !errors.Is(err, storage.ErrNewerFormat) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "99") {
			t.Errorf("%s of version 99: %v", name, err)
		}
	}
}

// Damage that would cost records is refused, naming the path.
func TestDamageIsRefused(t *testing.T) {
	for _, name := range []string{"FORMAT", "topics", "log/000000000001.seg"} {
		dir := t.TempDir()
		l := mustOpen(t, dir, Options{})
		mustAppend(t, l, "t", events("k", 0, 1))
		mustAppend(t, l, "t", events("k", 1, 1))
		mustClose(t, l)
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 15 // in the header line of a state file
		if strings.HasSuffix(name, ".seg") {
			at = 70 // in the first entry
		}
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s damaged: %v", name, err)
		}
	}
}

// A lost file is no new directory.
func TestLostFiles(t *testing.T) {
	for _, name := range []string{"FORMAT", "topics"} {
		disk := crashfs.New()
		l := mustOpen(t, "/d", Options{FS: disk})
		mustAppend(t, l, "t", events("k", 0, 1))
		mustClose(t, l)
		if err := disk.Remove("/d/" + name); err != nil {
			t.Fatal(err)
		}
		if _, err := Open("/d", Options{FS: disk, Logger: quiet}); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "/d/"+name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A directory that cannot be written to is refused in plain words.
func TestUnwritableDirectory(t *testing.T) {
	for _, kind := range []string{"mkdir", "lock", "create", "write", "sync"} {
		disk := crashfs.New()
		disk.SetHook(failing(kind))
		_, err := Open("/data/dir", Options{FS: disk})
		if !errors.Is(err, crashfs.ErrInjected) || !strings.Contains(err.Error(), "/data/dir") {
			t.Errorf("%s fails: %v", kind, err)
		}
		disk.SetHook(nil)
		mustClose(t, mustOpen(t, "/data/dir", Options{FS: disk}))
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as directory: %v", err)
	}
}

// Whatever call fails while a log opens, the error names a path and nothing is
// left open: the next start works.
func TestOpenFailsAnywhere(t *testing.T) {
	disk := crashfs.New()
	o := Options{FS: disk, SegmentSize: 1 << 10, Logger: quiet}
	l := mustOpen(t, "/d", o)
	for i := range 30 {
		mustAppend(t, l, "t", events("k", 3*i, 3))
	}
	readTo := storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor}
	var b storage.Batch
	if err := l.Poll(t.Context(), readTo, &b); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	for n := 0; ; n++ {
		d := disk.Kill()
		o.FS = d
		calls := 0
		d.SetHook(func(crashfs.Op) error {
			if calls++; calls == n+1 {
				return crashfs.ErrInjected
			}
			return nil
		})
		l, err := Open("/d", o)
		if err == nil && calls <= n {
			d.SetHook(nil)
			mustClose(t, l)
			return
		}
		if err == nil {
			// A help that failed: an index, a cursor, a stray file.
			if err := l.Close(); err != nil && !errors.Is(err, crashfs.ErrInjected) {
				t.Fatalf("call %d: close: %v", n, err)
			}
		} else if !errors.Is(err, crashfs.ErrInjected) || !strings.Contains(err.Error(), "/d") {
			t.Fatalf("call %d: %v", n, err)
		}
		d.SetHook(nil)
		l = mustOpen(t, "/d", o)
		p := mustAppend(t, l, "t", events("k", 90, 1))[0].Partition
		wantFrames(t, readAll(t, l, "t", p, 0), 0, names("k", 0, 91)...)
		mustClose(t, l)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Partitions: -1}, {Partitions: 1025}, {MaxRecordBytes: 17 << 20}, {QueueBytes: -1}, {SegmentSize: -5}} {
		if _, err := Open(t.TempDir(), o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

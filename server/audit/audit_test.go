package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lines reads the entries of a file; a line that is none has no Call.
func lines(t *testing.T, path string) (list []Entry) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e Entry
		if json.Unmarshal(s.Bytes(), &e) != nil {
			e = Entry{}
		}
		list = append(list, e)
	}
	return list
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	want := Entry{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Who: "boss\n", Address: "127.0.0.1:1", Call: "ResetOffset",
		Request: json.RawMessage(`{"topic":"t"}`), From: map[string]int64{"0": 7}, To: map[string]int64{"0": 1}, Outcome: "OK",
	}
	if err := l.Write(&want); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&Entry{Call: "Drain", Outcome: "PERMISSION_DENIED", Detail: "no"}); err != nil {
		t.Fatal(err)
	}
	got := lines(t, path)
	if len(got) != 2 || got[0].Who != want.Who || !got[0].Time.Equal(want.Time) || got[0].From["0"] != 7 || got[0].To["0"] != 1 || got[1].Detail != "no" {
		t.Errorf("written: %+v", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&want); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	l = open(t, path) // appends
	if err := l.Write(&want); err != nil || len(lines(t, path)) != 3 {
		t.Errorf("after a restart: %v, %v", err, lines(t, path))
	}
}

// TestReopen: after the file was moved away, entries go to a new one.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for range 25 {
				if err := l.Write(&Entry{Call: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 5 {
		if err := os.Rename(path, path+string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	writing.Wait()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		n += len(lines(t, f))
	}
	if n != 100 || len(files) != 6 {
		t.Errorf("%d entries in %d files", n, len(files))
	}
}

// TestTornLine: an entry begins on a line of its own though the last one was cut
// off.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"call":"Dr`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, path)
	for range 2 {
		if err := l.Write(&Entry{Call: "Drain"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := lines(t, path); len(got) != 3 || got[0].Call != "" || got[1].Call != "Drain" || got[2].Call != "Drain" {
		t.Errorf("lines: %+v", got)
	}
}

// TestWriteFails: an error is told, and the file that was open stays when another
// cannot be opened.
func TestWriteFails(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err == nil {
		l := open(t, "/dev/full")
		if err := l.Write(&Entry{Call: "x"}); err == nil {
			t.Error("a full disk is no error")
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "audit.log")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l := open(t, path)
	if err := os.Rename(filepath.Dir(path), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a missing directory is no error")
	}
	if err := l.Write(&Entry{Call: "x"}); err != nil || len(lines(t, filepath.Join(dir, "moved", "audit.log"))) != 1 {
		t.Errorf("the file that was open: %v", err)
	}
}

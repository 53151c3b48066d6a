package storagetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// noted is a log that notes something in a file when it is closed.
type noted struct {
	storage.Backend
	file string
}

func (n noted) Close() error {
	if err := os.WriteFile(n.file, []byte("closed"), 0o600); err != nil {
		return err
	}
	return n.Backend.Close()
}

// A case finds what its log has kept, a crash what it had kept by then, another
// case nothing.
func TestDirectories(t *testing.T) {
	d := NewDirectories(t, func(_ T, dir string) storage.Backend {
		return noted{memory.New(memory.Options{}), filepath.Join(dir, "note")}
	})
	wantNote := func(what string, b storage.Backend, there bool) {
		t.Helper()
		if _, err := os.Stat(b.(noted).file); (err == nil) != there {
			t.Errorf("%s: a note is there: %v, want %v", what, err == nil, there)
		}
	}
	b := d.Open(t)
	wantNote("a new log", b, false)
	b = d.CrashReopen(t, b)
	wantNote("after a crash", b, false)
	again := d.Reopen(t, b)
	if again.(noted).file != b.(noted).file {
		t.Error("another directory after a close")
	}
	wantNote("after a close", again, true)
	again = d.CrashReopen(t, again)
	wantNote("after a close and a crash", again, true)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	other := d.Open(t)
	wantNote("another case", other, false)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

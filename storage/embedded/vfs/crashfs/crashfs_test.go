package crashfs

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

func put(t *testing.T, f *FS, name, content string, sync bool) vfs.File {
	t.Helper()
	file, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func content(t *testing.T, f *FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(f, name, 1<<20)
	if err != nil {
		return "error: " + errors.Unwrap(err).Error()
	}
	return string(b)
}

func newFS(t *testing.T) *FS {
	t.Helper()
	f := New()
	if err := f.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPowerLossKeepsOnlyWhatIsSynced(t *testing.T) {
	f := newFS(t)
	a := put(t, f, "d/a", "synced", true)
	put(t, f, "d/b", "unsynced", false)
	if err := f.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	put(t, f, "d/c", "no name", true)
	if _, err := a.WriteAt([]byte("more"), 6); err != nil {
		t.Fatal(err)
	}
	g := f.PowerLoss()
	for name, want := range map[string]string{"d/a": "synced", "d/b": "", "d/c": "error: file does not exist"} {
		if got := content(t, g, name); got != want {
			t.Errorf("%s holds %q after power loss, want %q", name, got, want)
		}
	}
	g = f.Kill()
	for name, want := range map[string]string{"d/a": "syncedmore", "d/b": "unsynced", "d/c": "no name"} {
		if got := content(t, g, name); got != want {
			t.Errorf("%s holds %q after a kill, want %q", name, got, want)
		}
	}
}

func TestRenameIsDurableAfterSyncDir(t *testing.T) {
	f := newFS(t)
	put(t, f, "d/a", "old", true)
	if err := f.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	put(t, f, "d/tmp", "new", true)
	if err := f.Rename("d/tmp", "d/a"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, f.PowerLoss(), "d/a"); got != "old" {
		t.Errorf("before SyncDir: %q", got)
	}
	if err := f.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, f.PowerLoss(), "d/a"); got != "new" {
		t.Errorf("after SyncDir: %q", got)
	}
}

func TestTornKeepsSectors(t *testing.T) {
	f := newFS(t)
	a := put(t, f, "d/a", "", true)
	if err := f.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3*sector)
	for i := range b {
		b[i] = 1
	}
	if _, err := a.WriteAt(b, 100); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		got := content(t, f.Torn(rnd.IntN), "d/a")
		kept := 0
		for i := range got {
			kept += int(got[i])
		}
		seen[kept] = true
	}
	if !seen[0] || !seen[3*sector] || len(seen) < 6 {
		t.Errorf("torn writes kept these numbers of bytes: %v", seen)
	}
}

func TestCapacity(t *testing.T) {
	f := newFS(t)
	f.SetCapacity(10)
	a := put(t, f, "d/a", "12345678", true)
	if n, err := a.WriteAt([]byte("1234"), 8); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the capacity: %d, %v", n, err)
	}
	if err := f.Remove("d/a"); err != nil {
		t.Fatal(err)
	}
	put(t, f, "d/b", "1234567890", true)
}

func TestHookFailsCalls(t *testing.T) {
	f := newFS(t)
	a := put(t, f, "d/a", "", true)
	f.SetHook(func(op Op) error {
		if op.Kind == "write" || op.Kind == "sync" {
			return ErrInjected
		}
		return nil
	})
	if n, err := a.WriteAt([]byte("1234"), 0); n != 2 || !errors.Is(err, ErrInjected) {
		t.Errorf("write: %d, %v", n, err)
	}
	if err := a.Sync(); !errors.Is(err, ErrInjected) {
		t.Errorf("sync: %v", err)
	}
	f.SetHook(nil)
	if got := content(t, f, "d/a"); got != "12" {
		t.Errorf("a failed write left %q", got)
	}
}

package mapalloc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const size = 1 << 20

// mapFile maps a new file that is only truncated to its size.
func mapFile(t *testing.T, path string, prot, flags int) error {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, prot, flags)
	if err != nil {
		return err
	}
	return unix.Munmap(b)
}

func mapShared(t *testing.T, path string) error {
	t.Helper()
	return mapFile(t, path, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// allocated is how much space a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func watch(t *testing.T, dir string, onWait func(string, error)) *Watch {
	t.Helper()
	w, err := Dir(dir, onWait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.End)
	return w
}

func TestWatchedMapsAreAllocated(t *testing.T) {
	watched, other := t.TempDir(), t.TempDir()
	watch(t, watched, nil)
	for _, c := range []struct {
		name, dir   string
		prot, flags int
		want        bool
	}{
		{"writable and shared", watched, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, true},
		{"read only", watched, unix.PROT_READ, unix.MAP_SHARED, false},
		{"private", watched, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE, false},
		{"of another directory", other, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, false},
	} {
		path := filepath.Join(c.dir, "f")
		if err := mapFile(t, path, c.prot, c.flags); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := allocated(t, path); (got >= size) != c.want {
			t.Errorf("%s: %d bytes are allocated; has unix.Mmap changed?", c.name, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTablesHaveDurableNames: the directory is synced after a table's name is in
// it and before the table is mapped; a sync that fails is made again.
func TestTablesHaveDurableNames(t *testing.T) {
	dir := t.TempDir()
	waits := 0
	watch(t, dir, func(string, error) { waits++ })
	plain := syncDir
	t.Cleanup(func() { syncDir = plain })
	var synced []string
	failures := 2
	syncDir = func(d string) error {
		if failures > 0 {
			failures--
			return errors.New("no luck")
		}
		files, err := filepath.Glob(filepath.Join(d, "*"))
		for _, f := range files {
			synced = append(synced, filepath.Base(f))
		}
		return err
	}
	for _, name := range []string{"1.mem", "2.sst"} {
		if err := mapShared(t, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"1.mem", "2.sst"}; !slices.Equal(synced, want) || waits != 1 {
		t.Errorf("synced are the names %v, not %v, after %d waits", synced, want, waits)
	}
}

// smallDisk mounts a filesystem that has no room for a file, and one for it to
// get room by its removal.
func smallDisk(t *testing.T) (dir, filler string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1500k"); err != nil {
		t.Fatalf("cannot mount a tmpfs: %v; run this test as root, in a container with --cap-add SYS_ADMIN", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	filler = filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, filler
}

// TestFullDisk: a table waits for space, another file only when all is opened.
// Without the allocation each of them ends the process.
func TestFullDisk(t *testing.T) {
	dir, filler := smallDisk(t)
	waits := make(chan string, 1)
	w := watch(t, dir, func(path string, err error) {
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("waits for %v", err)
		}
		waits <- filepath.Base(path)
	})
	if err := mapShared(t, filepath.Join(dir, "1.mem")); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("map of a log while opening: %v, want ENOSPC", err)
	}
	for _, name := range []string{"1.sst", "2.mem"} {
		ended := make(chan error, 1)
		go func() { ended <- mapShared(t, filepath.Join(dir, name)) }()
		if got := <-waits; got != name {
			t.Fatalf("waits for %s, want %s", got, name)
		}
		select {
		case err := <-ended:
			t.Fatalf("map of %s did not wait: %v", name, err)
		default:
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("map of %s with space: %v", name, err)
		}
		w.Opened()
		if err := os.Rename(filepath.Join(dir, name), filler); err != nil {
			t.Fatal(err)
		}
	}
}

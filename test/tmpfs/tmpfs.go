//go:build linux

// Package tmpfs makes small disks for tests.
package tmpfs

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Mount makes a disk of so many bytes in memory and returns where it is. It
// goes with the test. A test that may not mount fails.
func Mount(t testing.TB, bytes int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatalf("this test mounts a tmpfs, which needs root (CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Space is how many bytes the disk of a directory has and how many are free.
func Space(t testing.TB, dir string) (total, free int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize
}

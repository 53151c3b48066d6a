package vfs

import (
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoRoom: a quota that is used up is a disk that is full.
func TestNoRoom(t *testing.T) {
	for err, want := range map[error]bool{nil: false, unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: false} {
		if err != nil {
			err = fmt.Errorf("lock: %w", &fs.PathError{Op: "write", Path: "LOCK", Err: err})
		}
		if noRoom(err) != want {
			t.Errorf("%v: no room is %v", err, !want)
		}
	}
}

package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	kv "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// manifestAhead is how much space the manifest has beyond its end. Badger
// appends some 50 bytes for each table; half of such a line, written where the
// disk ended, would leave a manifest that cannot be read.
const manifestAhead = 256 << 10

// reserveManifest gives the manifest space ahead.
func reserveManifest(dir string) error {
	path := filepath.Join(dir, kv.ManifestFilename)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size()+manifestAhead)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("offset store: space for %s: %w", path, err)
	}
	return nil
}

// makeSpare makes an empty file that has space. A filesystem that cannot do
// that gets none.
func makeSpare(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if err = errors.Join(err, f.Close()); err == nil {
		return nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = nil
	}
	return errors.Join(err, os.Remove(path))
}

// hasItsSpace tells whether a file has all the space of its size.
func hasItsSpace(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks*512 >= info.Size(), nil
}

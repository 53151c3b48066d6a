package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// lockFile is locked while the store is open; the kernel lets go of it with
// the process. It holds the id of the process, for the error of the next one.
const lockFile = "lock"

// lockDir locks the directory, or tells who has it.
func lockDir(dir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("offset store: cannot write to %s: %w", dir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		err = lockError(path, f, err)
		return nil, errors.Join(err, f.Close())
	}
	if err := writePID(f); err != nil {
		log.Warn("offset store: cannot note the process id", "file", path, "error", err)
	}
	return f, nil
}

func lockError(path string, f *os.File, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("offset store: lock of %s: %w", path, err)
	}
	who := "its id is unknown"
	buf := make([]byte, 20)
	if n, _ := f.ReadAt(buf, 0); n > 0 { // advisory: unknown if it cannot be read
		who = "process " + strings.TrimSpace(string(buf[:n]))
	}
	return fmt.Errorf("offset store %s: %w (%s)", filepath.Dir(path), offsetstore.ErrLocked, who)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

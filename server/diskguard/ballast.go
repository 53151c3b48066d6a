package diskguard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// BallastFile is the name of the ballast in the data directory.
const BallastFile = "ballast"

// ballastIsWhole tells whether the file is there with all its space.
func ballastIsWhole(path string, size int64) bool {
	info, err := os.Stat(path)
	if size <= 0 || err != nil {
		return size <= 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Size() >= size && ok && st.Blocks*512 >= size
}

// refill makes the ballast anew if it leaves more than what stops writes.
func (g *Guard) refill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ballast || g.last.Load().err != nil {
		return
	}
	if err := makeBallast(g.ballastPath(), g.opt.Ballast); err != nil {
		if !g.without {
			g.opt.Logger.Warn("cannot make the ballast, trying again", "error", err)
		}
		g.without = true
		return
	}
	g.ballast, g.without = true, false
	g.measure()
}

// release gives the ballast's space back. The caller holds the lock.
func (g *Guard) release() error {
	if err := os.Remove(g.ballastPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the ballast: %w", err)
	}
	g.ballast = g.opt.Ballast <= 0
	return nil
}

// makeBallast makes a file that has its space. What fails leaves none.
func makeBallast(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = allocate(f, size)
	if errors.Is(err, errors.ErrUnsupported) {
		err = writeZeros(f, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s of %d bytes: %w", path, size, err), os.Remove(path))
	}
	return nil
}

// writeZeros is for filesystems that cannot allocate otherwise.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

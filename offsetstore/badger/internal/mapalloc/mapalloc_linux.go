package mapalloc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// mmapper begins as the type of that name in golang.org/x/sys/unix does. The
// test of this package fails where that has changed.
type mmapper struct {
	sync.Mutex
	_    map[*byte][]byte
	mmap func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)
}

//go:linkname mapper golang.org/x/sys/unix.mapper
var mapper *mmapper

func init() {
	plain := mapper.mmap
	mapper.mmap = func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
		if fd >= 0 && prot&unix.PROT_WRITE != 0 && flags&unix.MAP_SHARED != 0 {
			if err := allocate(fd, offset, int64(length)); err != nil {
				return 0, err
			}
		}
		return plain(addr, length, prot, flags, fd, offset)
	}
}

// allocate gives a range of a watched file its space.
func allocate(fd int, offset, length int64) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil // no /proc: the file cannot be told, so it is not watched
	}
	w := of(path)
	if w == nil {
		return nil
	}
	for told := false; ; {
		err := fallocate(fd, offset, length)
		if err == nil && isTable(path) {
			if err = syncDir(w.dir); err == nil {
				return nil
			}
		} else if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) || !w.waits(path) {
			return err
		}
		if !told {
			told = true
			w.onWait(path, err)
		}
		<-time.After(retryEvery)
	}
}

// syncDir makes the names in a directory durable. A variable, for tests.
var syncDir = func(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// retryEvery is the time between two looks for space.
const retryEvery = 50 * time.Millisecond

// fallocate gives a range its space; what has it keeps it. A filesystem that
// cannot do that is no error.
func fallocate(fd int, offset, length int64) error {
	for {
		err := unix.Fallocate(fd, 0, offset, length)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return err
	}
}

//go:build linux

package powerloss

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traced are the calls that are stopped at: those that make something durable.
var traced = []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_MSYNC, unix.SYS_SYNC, unix.SYS_SYNCFS}

// execTraced becomes a program of whose calls only the traced ones stop it.
func execTraced(argv []string) error {
	runtime.LockOSThread()
	prog := filter()
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0); err != nil {
		return fmt.Errorf("a seccomp filter must be permitted: %w", err)
	}
	runtime.KeepAlive(prog)
	if err := os.Unsetenv(role); err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// filter stops at the traced calls, and at each openat that asks for every
// write to be synced. Its words are those of struct seccomp_data.
func filter() []unix.SockFilter {
	const number, openFlags = 0, 16 + 2*8 // the low half, on machines of today
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	n := uint8(len(traced))
	prog := []unix.SockFilter{load(number)}
	for i, nr := range traced {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: n - uint8(i) + 3})
	}
	return append(prog,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 2},
		load(openFlags),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_DSYNC, Jt: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
}

// callInfo is struct ptrace_syscall_info.
type callInfo struct {
	op   uint8
	_    [3]uint8
	_    uint32 // arch
	_, _ uint64 // instruction and stack pointer
	body [72]byte
}

const opExit = 2

func info(tid int) (c callInfo, err error) {
	const getSyscallInfo = 0x420e
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)), 0, 0)
	if errno != 0 {
		return c, errno
	}
	return c, nil
}

func (c *callInfo) word(i int) uint64 { return binary.NativeEndian.Uint64(c.body[8*i:]) }

// returned is what the call returns that a thread comes back from; below 0: it
// failed.
func returned(tid int) int64 {
	c, err := info(tid)
	if err != nil || c.op != opExit {
		return -1
	}
	return int64(c.word(0))
}

// begins notes what the call that a thread begins must make durable; nil:
// nothing of ours.
func (t *tracer) begins(tid int) (*change, error) {
	c, err := info(tid)
	if errors.Is(err, syscall.ESRCH) {
		return nil, nil // killed meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("which call is made (Linux 5.3 is needed): %w", err)
	}
	nr, a, b := c.word(0), c.word(1), c.word(2)
	switch uint32(nr) {
	case unix.SYS_MSYNC:
		return t.msync(a, b)
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return t.fsync(int(int32(a)))
	case unix.SYS_OPENAT:
		return &change{opened: true}, nil
	}
	return nil, fmt.Errorf("system call %d syncs in a way that is not simulated", nr)
}

// ours tells whether a path, as proc has it, is in the directory.
func (t *tracer) ours(path string) bool {
	return path == t.disk.root || strings.HasPrefix(path, t.disk.root+"/")
}

// synced notes a file that was opened such that every write is synced.
func (t *tracer) synced(fd int64) error {
	link := fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd)
	path, err := os.Readlink(link)
	if err != nil || !t.ours(path) {
		return nil // closed again, or none of ours
	}
	st, err := os.Stat(link)
	if err != nil {
		return fmt.Errorf("opening of %s: %w", path, err)
	}
	t.disk.through[inodeOf(st)] = true
	return nil
}

// fsync is a sync of an open file or directory.
func (t *tracer) fsync(fd int) (*change, error) {
	link := fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd)
	path, err := os.Readlink(link)
	if err != nil || !t.ours(path) {
		return nil, nil // not a file, or none of ours
	}
	st, err := os.Stat(link)
	if err != nil {
		return nil, fmt.Errorf("sync of %s: %w", path, err)
	}
	c := &change{ino: inodeOf(st)}
	if st.IsDir() {
		c.names, err = list(link + "/")
		return c, err
	}
	return c, c.read(link, 0, -1)
}

// errOther: the name stands for another file now.
var errOther = errors.New("another file has the name")

// read reads what is synced: n bytes from off on, n < 0: all.
func (c *change) read(path string, off, n int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read or synced
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if inodeOf(st) != c.ino {
		return errOther
	}
	c.size, c.off = st.Size(), off
	if n < 0 || off+n > c.size {
		n = max(0, c.size-off)
	}
	c.data = make([]byte, n)
	got, err := f.ReadAt(c.data, off)
	if errors.Is(err, io.EOF) { // it has become shorter
		c.data, err = c.data[:got], nil
	}
	return err
}

// msync is a sync of mapped memory.
func (t *tracer) msync(addr, length uint64) (*change, error) {
	m, err := t.mapping(addr)
	if err != nil {
		return nil, err
	}
	if m.path == "" || !t.ours(m.path) {
		return nil, nil
	}
	c := &change{ino: m.ino}
	n := min(length, m.end-addr)
	err = c.read(m.path, int64(m.off+addr-m.start), int64(n))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOther) {
		return nil, nil // it was removed: no later start sees it
	}
	return c, err
}

// mapped is a line of /proc/PID/maps.
type mapped struct {
	start, end, off uint64
	ino             inode
	path            string
}

func (t *tracer) mapping(addr uint64) (m mapped, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", t.pid))
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }() // it was only read or synced
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m, err = parseMapping(lines.Text())
		if err != nil || (m.start <= addr && addr < m.end) {
			return m, err
		}
	}
	return mapped{}, lines.Err()
}

func parseMapping(line string) (m mapped, err error) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return m, fmt.Errorf("memory map %q", line)
	}
	from, to, _ := strings.Cut(f[0], "-")
	var ino uint64
	for _, x := range []struct {
		text string
		base int
		to   *uint64
	}{{from, 16, &m.start}, {to, 16, &m.end}, {f[2], 16, &m.off}, {f[4], 10, &ino}} {
		v, perr := strconv.ParseUint(x.text, x.base, 64)
		*x.to, err = v, errors.Join(err, perr)
	}
	m.ino = inode(ino)
	if len(f) > 5 {
		m.path = f[5]
	}
	return m, err
}

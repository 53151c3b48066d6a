//go:build linux

package powerloss

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracer follows one program and knows what is durable of its directory.
type tracer struct {
	disk    *disk
	pid     int
	known   map[int]bool    // threads
	pending map[int]*change // of threads within a sync
	seq     uint64          // of the last sync that began
	off     atomic.Pointer[order]
}

// trace runs a program and, when its power is cut, puts its directory back.
func trace(argv []string, job string) error {
	_, root, _ := strings.Cut(job, " ")
	d, err := newDisk(root)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGINT) // of a terminal: the test ends us
	runtime.LockOSThread()        // all tracing is by one thread
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Env = append(os.Environ(), role+"=exec")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("tracing a child must be permitted: %w", err)
	}
	t := &tracer{disk: d, pid: cmd.Process.Pid, known: map[int]bool{}, pending: map[int]*change{}}
	go t.obey()
	status, err := t.run()
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	o := t.off.Load()
	if o == nil { // it ended by itself
		if status.Exited() && status.ExitStatus() == 0 {
			return nil
		}
		return fmt.Errorf("the program ended with %d, signal %v", status.ExitStatus(), status.Signal())
	}
	answer := "done"
	if err := d.reset(*o); err != nil {
		answer = err.Error()
	}
	_, err = fmt.Fprintln(os.NewFile(4, "answers"), answer)
	return err
}

// obey waits for the order to cut the power. SIGTERM and SIGQUIT are passed on.
func (t *tracer) obey() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = syscall.Kill(t.pid, s.(syscall.Signal)) // so on Linux; it may have ended
		}
	}()
	o, err := readOrder(os.NewFile(3, "orders"))
	if err == nil {
		t.off.Store(&o)
	}
	_ = syscall.Kill(t.pid, syscall.SIGKILL) // the order, or the test is gone
}

const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
	unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// run follows the program to its end.
func (t *tracer) run() (unix.WaitStatus, error) {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &ws, unix.WALL, nil); err != nil {
		return ws, fmt.Errorf("wait: %w", err)
	}
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		return ws, fmt.Errorf("trace: %w", err)
	}
	t.known[t.pid] = true
	resume(unix.PTRACE_CONT, t.pid, 0)
	for {
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return ws, fmt.Errorf("wait: %w", err)
		case ws.Exited() || ws.Signaled():
			delete(t.pending, tid)
			delete(t.known, tid)
			if tid == t.pid {
				return ws, nil
			}
		case ws.Stopped():
			if err := t.stopped(tid, ws); err != nil && t.off.Load() == nil { // killed, it cannot be looked into
				return ws, err
			}
		}
	}
}

// resume lets a stopped thread go on. It may have been killed meanwhile, which
// the next wait tells.
func resume(how, tid int, sig syscall.Signal) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PTRACE, uintptr(how), uintptr(tid), 0, uintptr(sig), 0, 0)
}

// ends applies what the call that a thread returns from has made durable.
func (t *tracer) ends(tid int) error {
	c := t.pending[tid]
	delete(t.pending, tid)
	result := returned(tid)
	switch {
	case c == nil || result < 0:
		return nil
	case c.opened:
		return t.synced(result)
	}
	t.disk.applyInOrder(c, t.oldest(c.seq))
	return nil
}

// oldest is the lowest seq of a sync that is under way, or the one given.
func (t *tracer) oldest(seq uint64) uint64 {
	for _, c := range t.pending {
		seq = min(seq, c.seq)
	}
	return seq
}

// stopped handles a stop of one thread.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	how, sig := unix.PTRACE_CONT, syscall.Signal(0)
	switch {
	case ws.StopSignal() == syscall.SIGTRAP|0x80: // the end of a call
		if err := t.ends(tid); err != nil {
			return err
		}
	case ws.StopSignal() == syscall.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		c, err := t.begins(tid)
		if err != nil {
			return err
		}
		if c != nil {
			t.seq++
			c.seq = t.seq
			t.pending[tid] = c
			how = unix.PTRACE_SYSCALL
		}
	case ws.StopSignal() == syscall.SIGTRAP && ws.TrapCause() > 0: // clone, fork, exec
	case !t.known[tid] && ws.StopSignal() == syscall.SIGSTOP: // a new thread
		t.known[tid] = true
	default:
		sig = ws.StopSignal()
		if t.pending[tid] != nil {
			how = unix.PTRACE_SYSCALL
		}
	}
	resume(how, tid, sig)
	return nil
}

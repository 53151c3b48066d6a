package main

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel end a process with this one, however this one
// ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// allocate reserves the room of a file, as a log does.
func allocate(f *os.File, size int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) }

// syncData makes what was written to a file durable.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

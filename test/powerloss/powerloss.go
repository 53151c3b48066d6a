//go:build linux

// Package powerloss runs a program on a machine that can lose its power: what
// was not synced is gone then.
//
// The program is traced. Each time it asks for a file or directory to be synced
// (fsync, fdatasync, msync), what the call must make durable is noted when it
// begins and counts as durable when it has succeeded. At the loss of power the
// program is killed and its data directory is put back to what was durable:
//
//   - a file has the content of its last sync; one that was never synced is
//     empty,
//   - a directory has the names of its last sync: files and directories made,
//     moved or removed since are as before.
//
// So nothing is kept by luck. With Torn some of what was not synced is kept, as
// on a real disk: any of the pages written, and all changes of names or none.
//
// It needs the right to trace its own children, which root has, and Linux 5.3.
package powerloss

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// role is the environment variable that makes a test binary one of the helpers.
const role = "ACKMESH_POWERLOSS"

// Main is to be called first in TestMain: in a process that Command started it
// does that process's work and does not return.
func Main() {
	switch job, _, _ := strings.Cut(os.Getenv(role), " "); job {
	case "trace":
		os.Exit(report(trace(os.Args[1:], os.Getenv(role))))
	case "exec":
		os.Exit(report(execTraced(os.Args[1:])))
	}
}

func report(err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(os.Stderr, "powerloss:", err) // nowhere else to say it
	return 1
}

// Machine runs one program at a time on one data directory.
type Machine struct {
	// Data is the directory that loses what was not synced. It must exist; what
	// is in it when the program starts is durable.
	Data string

	control io.WriteCloser
	answers *bufio.Reader
	passed  []*os.File // the tracer's ends of the pipes
}

// Command is a command that runs a program on the machine. Its output is the
// program's. To kill it is to kill the program.
func (m *Machine) Command(program string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), role+"=trace "+m.Data)
	orders, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, told, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), control.Close())
	}
	cmd.ExtraFiles = []*os.File{orders, told} // 3 and 4 in the child
	m.control, m.answers, m.passed = control, bufio.NewReader(answers), cmd.ExtraFiles
	return cmd, nil
}

// Off is the loss of power: it returns when the data directory is as a new
// start would find it. torn keeps some of what was not synced; seed says what.
// It fails when the program has ended by itself, which then has said why. The
// command must have been started.
func (m *Machine) Off(torn bool, seed uint64) error {
	for _, f := range m.passed { // else the end of a tracer that fails is never seen
		if err := f.Close(); err != nil {
			return err
		}
	}
	m.passed = nil
	if _, err := fmt.Fprintf(m.control, "off %t %d\n", torn, seed); err != nil {
		return fmt.Errorf("the machine is gone: %w", err)
	}
	line, err := m.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the machine is gone: %w", err)
	}
	if line = strings.TrimSpace(line); line != "done" {
		return errors.New(line)
	}
	return m.control.Close()
}

// order is what Off tells the tracer.
type order struct {
	torn bool
	seed uint64
}

func readOrder(from io.Reader) (o order, err error) {
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		return o, err
	}
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "off" {
		return o, fmt.Errorf("order %q is unknown", line)
	}
	if o.torn, err = strconv.ParseBool(f[1]); err != nil {
		return o, err
	}
	o.seed, err = strconv.ParseUint(f[2], 10, 64)
	return o, err
}

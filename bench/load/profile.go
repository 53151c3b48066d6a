package load

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
	"syscall"
)

// ProfileSignal makes a server that serves for a profile begin or end it.
const ProfileSignal = syscall.SIGUSR1

// StartProfile writes a CPU profile of this process to a file until stop is
// called; for an empty name it does nothing.
func StartProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// profile profiles this process and the server during a phase, if asked to.
func (r *run) profile(phase string) (stop func() error, err error) {
	if r.spec.Profile == "" {
		return func() error { return nil }, nil
	}
	own, err := StartProfile(r.spec.Profile + "-" + phase + "-client.pprof")
	if err != nil {
		return nil, err
	}
	toggle := func() error {
		if r.spec.ServerPID == 0 {
			return nil
		}
		return syscall.Kill(r.spec.ServerPID, ProfileSignal)
	}
	return func() error { return errors.Join(own(), toggle()) }, toggle()
}

package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTimes is the CPU time of several processes.
func cpuTimes(pids ...int) (sum time.Duration, err error) {
	for _, pid := range pids {
		d, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// clockTick is the unit of CPU time in /proc/PID/stat: USER_HZ, which is 100
// on every Linux that Go runs on.
const clockTick = time.Second / 100

// cpuTime is the CPU time, user and system, that a process has used (proc(5)).
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; behind it the third field comes.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields behind the name", pid, len(fields))
	}
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum += time.Duration(n) * clockTick
	}
	return sum, nil
}

// memory is the resident memory of a process now and at its peak, in bytes.
func memory(pid int) (now, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strings.CutSuffix(strings.TrimSpace(value), " kB")
		switch name {
		case "VmRSS":
			now, err = strconv.ParseInt(kb, 10, 64)
		case "VmHWM":
			peak, err = strconv.ParseInt(kb, 10, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %s: %w", pid, name, err)
		}
	}
	return now << 10, peak << 10, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// meter measures one phase.
type meter struct {
	r         *run
	name      string
	began     time.Time
	cpu       spent
	unprofile func() error
}

// spent is CPU time.
type spent struct{ server, client, broker time.Duration }

// spent is the CPU time that was used until now.
func (r *run) spent() (s spent, err error) {
	if s.client, err = ownCPU(); err != nil {
		return s, err
	}
	if s.server, err = cpuTimes(r.server()...); err != nil {
		return s, err
	}
	s.broker, err = cpuTimes(r.spec.BrokerPIDs...)
	return s, err
}

// server is the server's process, if there is one.
func (r *run) server() []int {
	if r.spec.ServerPID == 0 {
		return nil
	}
	return []int{r.spec.ServerPID}
}

// memory is that of the server, if there is one.
func (r *run) memory() (now, peak int64, err error) {
	if r.spec.ServerPID == 0 {
		return 0, 0, nil
	}
	return memory(r.spec.ServerPID)
}

func (r *run) startMeter(name string) (m meter, err error) {
	m.r, m.name = r, name
	if m.unprofile, err = r.profile(name); err != nil {
		return m, err
	}
	m.cpu, err = r.spent()
	m.began = time.Now()
	return m, err
}

// stop ends the phase: so many events were finished in it.
func (m meter) stop(events int64, h *Histogram) (Phase, error) {
	p := Phase{Name: m.name, Events: events, Seconds: time.Since(m.began).Seconds(), Latency: h.Latency()}
	p.Rate = float64(events) / p.Seconds
	cpu, err := m.r.spent()
	if err != nil {
		return p, err
	}
	if p.RSS, _, err = m.r.memory(); err != nil {
		return p, err
	}
	if events > 0 {
		p.ServerCPU = micros(cpu.server-m.cpu.server, events)
		p.ClientCPU = micros(cpu.client-m.cpu.client, events)
		p.BrokerCPU = micros(cpu.broker-m.cpu.broker, events)
	}
	return p, m.unprofile()
}

// micros is µs per event.
func micros(d time.Duration, events int64) float64 {
	return float64(d.Microseconds()) / float64(events)
}

package server

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// fallbackMemory is assumed where the system does not tell how much memory the
// process may use.
const fallbackMemory = 4 * GiB

// MemoryLimit returns Memory.Limit, or where that is 0 a quarter of the memory
// that the process may use: the machine's, or less where a control group bounds
// it, or of 4 GiB where neither can be read. It reads small files.
func (c Config) MemoryLimit() Bytes {
	if c.Memory.Limit > 0 {
		return c.Memory.Limit
	}
	total := fallbackMemory
	if n, ok := machineMemory(); ok {
		total = n
	}
	if n, ok := groupMemory(); ok && n < total {
		total = n
	}
	return max(total/4, 16*MiB)
}

// machineMemory reads MemTotal of Linux.
func machineMemory() (Bytes, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	return parseMemTotal(text)
}

func parseMemTotal(text []byte) (Bytes, bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return Bytes(n) * KiB, err == nil && n > 0
	}
	return 0, false
}

// groupMemory reads the bound of the control group (version 2) that a container
// sees as its own. A missing file or "max" is no bound.
func groupMemory() (Bytes, bool) {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return Bytes(n), err == nil && n > 0
}

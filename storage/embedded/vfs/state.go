package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// StateLimit is the largest state file that is read, in bytes.
const StateLimit = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrVersion is what ReadState returns for a file of a newer version.
var ErrVersion = errors.New("file has a newer version")

// sumText is the CRC-32C of b as headers have it.
func sumText(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// WriteState writes a small state file atomically (see WriteFile): one header
// line with kind, version, length and CRC-32C, and the CRC-32C of these, then the
// payload.
func WriteState(f FS, name, kind string, version int, payload []byte) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d %d %s", kind, version, len(payload), sumText(payload))
	fmt.Fprintf(&b, " %s\n", sumText(b.Bytes()))
	b.Write(payload)
	return WriteFile(f, name, b.Bytes())
}

// ReadState reads what WriteState wrote, also when headers had no CRC of their own.
// Errors wrap fs.ErrNotExist where there is no file, ErrDamaged where it is not
// whole, ErrVersion where its version is above maxVersion.
func ReadState(f FS, name, kind string, maxVersion int) (version int, payload []byte, err error) {
	b, err := ReadFile(f, name, StateLimit)
	if err != nil {
		return 0, nil, err
	}
	head, payload, ok := bytes.Cut(b, []byte("\n"))
	if !ok || len(head) > 200 {
		return 0, nil, fmt.Errorf("%s has no header line: %w", name, ErrDamaged)
	}
	h, ok := parseHeader(string(head))
	if !ok || h.kind != kind || h.version < 1 {
		return 0, nil, fmt.Errorf("%s is no %s file: %w", name, kind, ErrDamaged)
	}
	if h.version > maxVersion {
		return h.version, nil, fmt.Errorf("%s has version %d, this program reads up to %d: %w", name, h.version, maxVersion, ErrVersion)
	}
	if h.size != len(payload) || h.crc != crc32.Checksum(payload, castagnoli) {
		return 0, nil, fmt.Errorf("%s has %d bytes where its header says %d, or a wrong checksum: %w", name, len(payload), h.size, ErrDamaged)
	}
	return h.version, payload, nil
}

// header is the first line of a state file.
type header struct {
	kind          string
	version, size int
	crc           uint32
}

// parseHeader reads a header; ok is false where it is damaged, so that a digit of
// its version that has changed is not taken for a newer version.
func parseHeader(line string) (h header, ok bool) {
	const fields = 4
	f := strings.Split(line, " ")
	switch len(f) {
	default:
		return h, false
	case fields:
	case fields + 1:
		rest := strings.TrimSuffix(line, " "+f[fields])
		if f[fields] != sumText([]byte(rest)) {
			return h, false
		}
	}
	crc, err := strconv.ParseUint(f[3], 16, 32)
	h.kind, h.crc = f[0], uint32(crc)
	for i, to := range []*int{&h.version, &h.size} {
		var bad error
		*to, bad = strconv.Atoi(f[1+i])
		err = errors.Join(err, bad)
	}
	return h, err == nil
}

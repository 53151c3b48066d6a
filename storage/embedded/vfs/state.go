package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// StateLimit is the largest state file that is read, in bytes.
const StateLimit = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrVersion is what ReadState returns for a file of a newer version.
var ErrVersion = errors.New("file has a newer version")

// WriteState writes a small state file atomically (see WriteFile): one header
// line with kind, version, length and CRC-32C, then the payload.
func WriteState(f FS, name, kind string, version int, payload []byte) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d %d %08x\n", kind, version, len(payload), crc32.Checksum(payload, castagnoli))
	b.Write(payload)
	return WriteFile(f, name, b.Bytes())
}

// ReadState reads what WriteState wrote. Errors wrap fs.ErrNotExist where
// there is no file, ErrDamaged where it is not whole, ErrVersion where its
// version is above maxVersion.
func ReadState(f FS, name, kind string, maxVersion int) (version int, payload []byte, err error) {
	b, err := ReadFile(f, name, StateLimit)
	if err != nil {
		return 0, nil, err
	}
	head, payload, ok := bytes.Cut(b, []byte("\n"))
	if !ok || len(head) > 200 {
		return 0, nil, fmt.Errorf("%s has no header line: %w", name, ErrDamaged)
	}
	var gotKind string
	var n int
	var crc uint32
	if _, err := fmt.Sscanf(string(head), "%s %d %d %x", &gotKind, &version, &n, &crc); err != nil || gotKind != kind || version < 1 {
		return 0, nil, fmt.Errorf("%s is no %s file: %w", name, kind, ErrDamaged)
	}
	if version > maxVersion {
		return version, nil, fmt.Errorf("%s has version %d, this program reads up to %d: %w", name, version, maxVersion, ErrVersion)
	}
	if n != len(payload) || crc != crc32.Checksum(payload, castagnoli) {
		return 0, nil, fmt.Errorf("%s has %d bytes where its header says %d, or a wrong checksum: %w", name, len(payload), n, ErrDamaged)
	}
	return version, payload, nil
}

package badger

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// The file FORMAT says what the directory holds. It is written before the
// database is made (state "new") and again when that is done ("ready"): so a
// database that is gone is told from one that never was.
const (
	formatFile    = "FORMAT"
	formatVersion = 1
	formatMagic   = "ackmesh offset store\nversion "
	stateNew      = "new"
	stateReady    = "ready"
)

// format is what the file says.
type format struct {
	state string
	sizes Sizes
	id    uint64 // of this store, drawn when it was made
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f format) encode() []byte {
	b := fmt.Appendf(nil, "%s%d\nstate %s\nmemtable %d\nvaluelog %d\nid %016x\n",
		formatMagic, formatVersion, f.state, f.sizes.MemTable, f.sizes.ValueLog, f.id)
	return fmt.Appendf(b, "crc %08x\n", crc32.Checksum(b, castagnoli))
}

// decodeFormat reads what encode wrote. A newer version is told before the
// rest is looked at, which may differ then.
func decodeFormat(b []byte) (format, error) {
	rest, ok := bytes.CutPrefix(b, []byte(formatMagic))
	var version int
	if _, err := fmt.Sscanf(string(rest), "%d\n", &version); !ok || err != nil {
		return format{}, fmt.Errorf("%w: it does not say that it is one", offsetstore.ErrCorrupt)
	}
	if version > formatVersion {
		return format{}, fmt.Errorf("%w: format %d, this one reads up to %d",
			offsetstore.ErrNewerFormat, version, formatVersion)
	}
	var f format
	_, err := fmt.Sscanf(string(rest), "1\nstate %s\nmemtable %d\nvaluelog %d\nid %x\n",
		&f.state, &f.sizes.MemTable, &f.sizes.ValueLog, &f.id)
	if err != nil || !bytes.Equal(f.encode(), b) || f.sizes.check() != nil ||
		(f.state != stateNew && f.state != stateReady) {
		return format{}, fmt.Errorf("%w: checksum or content is wrong", offsetstore.ErrCorrupt)
	}
	return f, nil
}

// readFormat reads the file; ok is false when there is none.
func readFormat(dir string) (f format, ok bool, err error) {
	path := filepath.Join(dir, formatFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return format{}, false, nil
	}
	if err != nil {
		return format{}, false, fmt.Errorf("offset store: %w", err)
	}
	if f, err = decodeFormat(b); err != nil {
		return format{}, false, fmt.Errorf("offset store %s: %w", path, err)
	}
	return f, true, nil
}

// writeFormat replaces the file, durably.
func writeFormat(dir string, f format) error {
	path := filepath.Join(dir, formatFile)
	if err := writeSynced(path+".tmp", f.encode()); err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	return syncDir(dir)
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	if err = errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("offset store: sync of directory: %w", err)
	}
	return nil
}

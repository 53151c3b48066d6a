package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	kv "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Badger goes on without a table whose checksum is wrong, and ends the process
// on one that is damaged otherwise. So the files are looked at before it is let
// near them.

// verifyFiles checks Badger's manifest and every table it names.
func verifyFiles(dir string, opt kv.Options) error {
	path := filepath.Join(dir, kv.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, errors.New("the file is missing"))
	}
	if err != nil {
		return fmt.Errorf("offset store: %w", err)
	}
	m, _, err := kv.ReplayManifestFile(f, 0, opt)
	if err = errors.Join(err, f.Close()); err != nil {
		return damaged(path, err)
	}
	for id := range m.Tables {
		path := table.NewFilename(id, dir)
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("offset store: %w", err)
		}
		if err == nil {
			err = verifyTable(b)
		}
		if err != nil {
			return damaged(path, err)
		}
	}
	return nil
}

// damaged is the error of a file that must not be read as if it were whole.
func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w; restore it from a backup, or remove the whole directory to begin anew",
		offsetstore.ErrCorrupt, path, err)
}

// verifyTable checks all checksums of a table:
//
//	blocks | index | index size u32 | checksum | checksum size u32
func verifyTable(b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // flatbuffers panics on a malformed index
			err = fmt.Errorf("malformed index: %v", p)
		}
	}()
	rest, sum, err := cutChecksum(b)
	if err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	rest, size, err := cutUint32(rest)
	if err != nil || size > len(rest) || size == 0 {
		return errors.New("footer: index size out of range")
	}
	index := rest[len(rest)-size:]
	if err := verifyChecksum(index, sum); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return verifyBlocks(b, fb.GetRootAsTableIndex(index, 0))
}

func verifyBlocks(b []byte, index *fb.TableIndex) error {
	for i := range index.OffsetsLength() {
		var o fb.BlockOffset
		index.Offsets(&o, i)
		from, n := int(o.Offset()), int(o.Len())
		if from+n > len(b) {
			return fmt.Errorf("block %d: out of range", i)
		}
		data, sum, err := cutChecksum(b[from : from+n])
		if err == nil {
			err = verifyChecksum(data, sum)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

// cutChecksum takes a checksum and its size off the end of b.
func cutChecksum(b []byte) ([]byte, *pb.Checksum, error) {
	rest, size, err := cutUint32(b)
	if err != nil || size > len(rest) {
		return nil, nil, errors.New("checksum size out of range")
	}
	var sum pb.Checksum
	if err := proto.Unmarshal(rest[len(rest)-size:], &sum); err != nil {
		return nil, nil, fmt.Errorf("checksum: %w", err)
	}
	return rest[:len(rest)-size], &sum, nil
}

func cutUint32(b []byte) ([]byte, int, error) {
	n := len(b) - 4
	if n < 0 {
		return nil, 0, errors.New("too short")
	}
	return b[:n], int(binary.BigEndian.Uint32(b[n:])), nil
}

func verifyChecksum(b []byte, sum *pb.Checksum) error {
	if sum.Algo != pb.Checksum_CRC32C && sum.Algo != pb.Checksum_XXHash64 {
		return fmt.Errorf("unknown checksum algorithm %d", sum.Algo)
	}
	return y.VerifyChecksum(b, sum)
}

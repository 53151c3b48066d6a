package remoting

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxBody is the largest body of a message after it was decompressed.
const MaxBody = 64 << 20

// decompress decompresses a body to so many bytes at most; how are the bits of
// SysCompression. Errors: ErrMalformed.
func decompress(body []byte, how, limit int) (out []byte, err error) {
	name := "zlib"
	switch how {
	case 0, SysZlib:
		var r io.ReadCloser
		if r, err = zlib.NewReader(bytes.NewReader(body)); err == nil {
			out, err = readBounded(r, limit)
			err = errors.Join(err, r.Close())
		}
	case SysLZ4:
		name = "lz4"
		out, err = readBounded(lz4.NewReader(bytes.NewReader(body)), limit)
	case SysZSTD:
		name = "zstd"
		if out, err = unzstd(body); len(out) > limit {
			out, err = nil, tooLong(limit)
		}
	default:
		name, err = fmt.Sprintf("compression %d", how>>8), errors.New("it is not known")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMalformed, err)
	}
	return out, nil
}

func readBounded(r io.Reader, limit int) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, int64(limit)+1))
	if n > int64(limit) {
		return nil, tooLong(limit)
	}
	return buf.Bytes(), err
}

func tooLong(limit int) error { return fmt.Errorf("more than %d bytes", limit) }

// zstdDecoder serves all; one that only decodes whole blocks of memory has no
// goroutine.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxBody))
})

func unzstd(body []byte) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(body, nil)
}

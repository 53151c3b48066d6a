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

// decompress decompresses a body; how are the bits of SysCompression. Errors:
// ErrMalformed.
func decompress(body []byte, how int) (out []byte, err error) {
	name := "zlib"
	switch how {
	case 0, SysZlib:
		var r io.ReadCloser
		if r, err = zlib.NewReader(bytes.NewReader(body)); err == nil {
			out, err = readBounded(r)
			err = errors.Join(err, r.Close())
		}
	case SysLZ4:
		name = "lz4"
		out, err = readBounded(lz4.NewReader(bytes.NewReader(body)))
	case SysZSTD:
		name = "zstd"
		out, err = unzstd(body)
	default:
		name, err = fmt.Sprintf("compression %d", how>>8), errors.New("it is not known")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMalformed, err)
	}
	return out, nil
}

func readBounded(r io.Reader) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, MaxBody+1))
	if n > MaxBody {
		return nil, fmt.Errorf("more than %d bytes", MaxBody)
	}
	return buf.Bytes(), err
}

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

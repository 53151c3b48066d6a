package kafka

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxInflated bounds what one compressed batch may become.
const maxInflated = 256 << 20

// The numbers of the compressions.
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZSTD   = 4
)

// inflatedAll is what compressed batches of one answer may become before the
// rest of it is left for the next fetch.
const inflatedAll = 64 << 20

var errInflated = errors.New("it is larger than is allowed")

// inflate reads the n bytes of a batch that hold its compressed records.
func (d *decoder) inflate(h *header, n int) {
	d.copied()
	packed := d.s.peek(n)
	if packed == nil || !d.sound(h) {
		return
	}
	buf := scratch.Get().(*bytes.Buffer)
	defer giveScratch(buf)
	err := inflate(buf, h.codec(), packed, maxInflated)
	d.s.r += n
	b := buf.Bytes()
	if err != nil || h.count < 0 || h.count > len(b)/minRecord {
		d.s.fail("the batch at offset %d, compression %d, cannot be read: %d records in %d bytes, %v", h.base, h.codec(), h.count, len(b), err)
		return
	}
	d.grown += len(b)
	p := d.room(len(b))
	at := d.used
	d.used += copy(p.buf[at:], b)
	d.inflated(h, p, at, d.used)
}

// inflated takes in the records of a batch, which are a part of a piece.
func (d *decoder) inflated(h *header, p *piece, at, end int) {
	for range h.count {
		size, k := varint(p.buf[at:end])
		if k <= 0 || size < 0 || size > int64(end-at-k) || !d.record(h, p, at+k, int(size)) {
			d.s.fail("a record of the batch at offset %d cannot be read", h.base)
			return
		}
		at += k + int(size)
	}
	if at != end {
		d.s.fail("a batch goes on behind its records")
	}
}

// scratchKept bounds the memory that is kept for what is decompressed next.
const scratchKept = 4 << 20

var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func giveScratch(b *bytes.Buffer) {
	if b.Cap() <= scratchKept {
		b.Reset()
		scratch.Put(b)
	}
}

// inflate appends what was compressed to dst, up to limit bytes, which is
// maxInflated at most.
func inflate(dst *bytes.Buffer, codec int, packed []byte, limit int) error {
	switch codec {
	case codecGzip:
		return inflateGzip(dst, packed, limit)
	case codecSnappy:
		return inflateSnappy(dst, packed, limit)
	case codecLZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(packed))
		return readLimited(dst, r, limit)
	case codecZSTD:
		r := zstdReaders.Get().(*zstd.Decoder)
		defer zstdReaders.Put(r)
		b, err := r.DecodeAll(packed, dst.AvailableBuffer())
		if err == nil && len(b) > limit {
			err = errInflated
		}
		_, _ = dst.Write(b) // a buffer takes everything
		return err
	}
	return errors.New("unknown compression")
}

var (
	gzipReaders sync.Pool
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdReaders = sync.Pool{New: func() any {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxInflated))
		if err != nil {
			panic(err) // the options are within their limits
		}
		return r
	}}
)

func inflateGzip(dst *bytes.Buffer, packed []byte, limit int) (err error) {
	r, ok := gzipReaders.Get().(*gzip.Reader)
	if ok {
		err = r.Reset(bytes.NewReader(packed))
	} else {
		r, err = gzip.NewReader(bytes.NewReader(packed))
	}
	if err != nil {
		return err
	}
	defer gzipReaders.Put(r)
	return readLimited(dst, r, limit)
}

func readLimited(dst *bytes.Buffer, r io.Reader, limit int) error {
	n, err := dst.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if err == nil && n > int64(limit) {
		err = errInflated
	}
	return err
}

// inflateSnappy tries ever more room: the framed form does not tell how much it
// needs.
func inflateSnappy(dst *bytes.Buffer, packed []byte, limit int) error {
	for room := max(4*len(packed), 1024); ; room *= 4 {
		room = min(room, limit)
		dst.Grow(room)
		b, err := xerial.DecodeCapped(dst.AvailableBuffer()[:0:room], packed)
		switch {
		case err == nil:
			_, _ = dst.Write(b) // a buffer takes everything
			return nil
		case !errors.Is(err, xerial.ErrDstTooSmall):
			return err
		case room == limit:
			return errInflated
		}
	}
}

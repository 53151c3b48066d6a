package offsetstore

import (
	"encoding/binary"
	"fmt"
)

// decoder reads the parts of an encoded key or value. The first fault sticks;
// after it every read gives zero.
type decoder struct {
	b     []byte
	fault string
}

// fail notes a fault, if none was noted before.
func (d *decoder) fail(format string, args ...any) {
	if d.fault == "" {
		d.fault = fmt.Sprintf(format, args...)
	}
	d.b = nil
}

// end is the outcome: an error when there was a fault or bytes are left.
func (d *decoder) end(what string) error {
	if d.fault == "" && len(d.b) > 0 {
		d.fail("%d trailing bytes", len(d.b))
	}
	if d.fault != "" {
		return fmt.Errorf("%w: %s: %s", ErrCorrupt, what, d.fault)
	}
	return nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("ends too early")
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// uvarint reads an unsigned number in its shortest form; a longer form is a
// fault: no encoder here writes it.
func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 || (n > 1 && d.b[n-1] == 0) {
		d.fail("malformed number")
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// uint32 reads a number of at most 32 bits.
func (d *decoder) uint32() uint32 {
	x := d.uvarint()
	if x > 1<<32-1 {
		d.fail("number %d exceeds 32 bits", x)
		return 0
	}
	return uint32(x)
}

// count reads how many items follow, each of at least size bytes: a claim of
// more than there is room for fails before anything is allocated.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail("%d items claimed in %d bytes", n, len(d.b))
		return 0
	}
	return int(n)
}

// bytes reads a length and that many bytes; they are the input's.
func (d *decoder) bytes() []byte {
	n := d.count(1)
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) uint64() uint64 {
	if len(d.b) < 8 {
		d.fail("ends too early")
		return 0
	}
	x := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return x
}

package frame

import (
	"encoding/binary"
	"iter"
	"unicode/utf8"
)

// View is a frame in its stored form, read in place. Get one from Parse; the
// methods of a View of unchecked bytes do not panic, but what they return then
// means nothing. A View and all it returns share the bytes it was made of, so
// it is good only as long as those stay unchanged.
type View []byte

// Parse checks that b is exactly one valid frame and returns it as a View of
// the same bytes. It allocates nothing, except the error.
func Parse(b []byte) (View, error) {
	v, _, err := ParseOwn(b)
	return v, err
}

// ParseOwn is Parse, and HasOwn of the frame at no further cost.
func ParseOwn(b []byte) (v View, own bool, err error) {
	if err := checkHeader(b); err != nil {
		return nil, false, err
	}
	v = View(b)
	off, own, err := checkAttrs(v)
	if err != nil {
		return nil, false, err
	}
	switch rest, want := len(v)-off, v.dataLen(); {
	case rest < want:
		return nil, false, errTruncated(fieldData)
	case rest > want:
		return nil, false, &Error{Kind: ErrTrailing, Field: fieldFrame, Got: int64(rest - want)}
	}
	return v, own, nil
}

// checkHeader checks what the first 14 bytes say, and that they are there.
func checkHeader(b []byte) error {
	switch {
	case len(b) > MaxFrameSize:
		return errLimit(fieldFrame, int64(len(b)), MaxFrameSize)
	case len(b) > offMagic && b[offMagic] != magic:
		return &Error{Kind: ErrMagic, Field: fieldFrame}
	case len(b) > offVersion && b[offVersion] != version:
		return &Error{Kind: ErrVersion, Field: fieldVersion, Got: int64(b[offVersion]), Hint: "known is 1"}
	case len(b) < headerLen:
		return errTruncated(fieldFrame)
	case !Type(b[offType]).known():
		return errType(int64(b[offType]))
	}
	if n := binary.BigEndian.Uint16(b[offKeyCount:]); n > MaxAttributes {
		return errLimit(fieldAttributes, int64(n), MaxAttributes)
	}
	if n := binary.BigEndian.Uint32(b[offDataLen:]); n > MaxDataSize {
		return errLimit(fieldData, int64(n), MaxDataSize)
	}
	return nil
}

// checkAttrs checks the attributes and returns where the data begins, and whether
// any of them is one of the mesh's own.
func checkAttrs(v View) (off int, own bool, err error) {
	seen := uint64(0)
	ascii := isASCII(v[headerLen:max(len(v)-v.dataLen(), headerLen)])
	off = headerLen
	for range v.Count() {
		name, end := plainAttrAt(v, off)
		if end == 0 || !ascii {
			if err := checkStored(v, off); err != nil {
				return 0, false, err
			}
			name, _, end, _ = attrAt(v, off)
		}
		bit := nameBit(name)
		if seen&bit != 0 && hasBefore(v, headerLen, off, name) {
			return 0, false, errAttr(ErrDuplicate, fieldName, name, "")
		}
		own = own || isOwn(name)
		seen |= bit
		off = end
	}
	return off, own, nil
}

// plainAttrAt returns the name of the attribute at off, and where it ends: 0 for one
// that is beyond a limit, or beyond the bytes. It is short enough to be inlined.
func plainAttrAt(v View, off int) (name []byte, end int) {
	b := v[off:]
	room := len(b) - attrOverhead
	if room < 0 {
		return nil, 0
	}
	n := int(binary.BigEndian.Uint16(b))
	if n > min(room, MaxNameLen) {
		return nil, 0
	}
	size := binary.BigEndian.Uint32(b[2+n:])
	if size > uint32(min(room-n, MaxValueLen)) {
		return nil, 0
	}
	return b[2 : 2+n], off + attrOverhead + n + int(size)
}

// checkStored checks the attribute at off, all but whether its name is there twice.
func checkStored(v View, off int) error {
	name, value, _, ok := attrAt(v, off)
	if !ok {
		return explainAttr(v, off)
	}
	if err := checkAttrLen(name, value); err != nil {
		return err
	}
	return utf8Error(name, utf8.Valid(name), utf8.Valid(value))
}

// isOwn reports whether a name begins with "em".
func isOwn(name []byte) bool { return len(name) >= 2 && name[0] == 'e' && name[1] == 'm' }

// isASCII reports whether no byte is above 0x7F. All attributes are looked at
// together, lengths included: most often that spares a look at each.
func isASCII(b []byte) bool {
	all := uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		all |= binary.LittleEndian.Uint64(b)
	}
	for _, c := range b {
		all |= uint64(c)
	}
	return all&0x8080808080808080 == 0
}

// explainAttr says what is wrong with an attribute that does not fit the bytes.
// A length over its limit is reported as such even where the bytes end first.
func explainAttr(v View, off int) error {
	if len(v)-off < 2 {
		return errTruncated(fieldName)
	}
	n := int(binary.BigEndian.Uint16(v[off:]))
	if n > MaxNameLen {
		return errLimit(fieldName, int64(n), MaxNameLen)
	}
	if len(v)-off < 2+n {
		return errTruncated(fieldName)
	}
	name, rest := []byte(v[off+2:off+2+n]), v[off+2+n:]
	if len(rest) < 4 {
		return errAttr(ErrTruncated, fieldValue, name, "")
	}
	if n := binary.BigEndian.Uint32(rest); n > MaxValueLen {
		return errAttrLimit(fieldValue, name, int64(n), MaxValueLen)
	}
	return errAttr(ErrTruncated, fieldValue, name, "")
}

// attrAt reads the attribute at off and returns it with the offset of what
// follows. ok is false if it does not lie wholly within b.
func attrAt(b []byte, off int) (name, value []byte, end int, ok bool) {
	if off < 0 || len(b)-off < attrOverhead {
		return nil, nil, 0, false
	}
	n := int(binary.BigEndian.Uint16(b[off:]))
	off += 2
	if len(b)-off < n+4 {
		return nil, nil, 0, false
	}
	name = b[off : off+n : off+n]
	off += n
	size := binary.BigEndian.Uint32(b[off:])
	off += 4
	if uint64(size) > uint64(len(b)-off) {
		return nil, nil, 0, false
	}
	end = off + int(size)
	return name, b[off:end:end], end, true
}

// nameBit maps a name to one of 64 bits. Names with different bits differ, so a
// frame's names need comparing only where a bit is met twice.
func nameBit[T string | []byte](name T) uint64 {
	n := uint(len(name))
	if n == 0 {
		return 1
	}
	return 1 << ((uint(name[0])*5 + uint(name[n/2])*11 + uint(name[n-1])*23 + n) & 63)
}

// hasBefore reports whether an attribute between from and to has the name.
func hasBefore(b []byte, from, to int, name []byte) bool {
	for from < to {
		other, _, end, ok := attrAt(b, from)
		if !ok {
			return false
		}
		if string(other) == string(name) {
			return true
		}
		from = end
	}
	return false
}

// Type returns the type of the frame.
func (v View) Type() Type { return Type(v.at(offType)) }

// Flags returns the flags of the frame.
func (v View) Flags() Flags { return Flags(v.at(offFlags)) }

func (v View) at(off int) byte {
	if len(v) < headerLen {
		return 0
	}
	return v[off]
}

// Seq returns the sequence number of the frame.
func (v View) Seq() uint32 {
	if len(v) < headerLen {
		return 0
	}
	return binary.BigEndian.Uint32(v[offSeq:])
}

// Count returns how many attributes the frame has.
func (v View) Count() int {
	if len(v) < headerLen {
		return 0
	}
	return int(binary.BigEndian.Uint16(v[offKeyCount:]))
}

func (v View) dataLen() int {
	if len(v) < headerLen {
		return 0
	}
	n := binary.BigEndian.Uint32(v[offDataLen:])
	if n > MaxDataSize {
		return 0
	}
	return int(n)
}

// Data returns the data of the frame, nil if it has none.
func (v View) Data() []byte {
	n := v.dataLen()
	if n == 0 || n > len(v)-headerLen {
		return nil
	}
	return v[len(v)-n : len(v) : len(v)]
}

// Attr returns the value of the named attribute, and whether there is one. It
// looks at the attributes in order and allocates nothing.
func (v View) Attr(name string) ([]byte, bool) {
	off := headerLen
	for range v.Count() {
		n, value, end, ok := attrAt(v, off)
		if !ok {
			return nil, false
		}
		if string(n) == name {
			return value, true
		}
		off = end
	}
	return nil, false
}

// HasOwn reports whether the name of any attribute begins with "em", as those do
// that mean something to the mesh. It is quick, and allocates nothing.
func (v View) HasOwn() bool {
	off := headerLen
	for range v.Count() {
		if off < 0 || len(v)-off < attrOverhead {
			return false
		}
		n := int(binary.BigEndian.Uint16(v[off:]))
		if n >= 2 && v[off+2] == 'e' && v[off+3] == 'm' {
			return true
		}
		if off += 2 + n; len(v)-off < 4 {
			return false
		}
		off += 4 + int(binary.BigEndian.Uint32(v[off:]))
	}
	return false
}

// Attributes yields name and value of each attribute, in the order in which
// they are stored.
func (v View) Attributes() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		off := headerLen
		for range v.Count() {
			name, value, end, ok := attrAt(v, off)
			if !ok || !yield(name, value) {
				return
			}
			off = end
		}
	}
}

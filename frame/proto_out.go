package frame

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags of the fields of ackmesh.v1.EventMeshFrame and of its map entries. All
// take one byte.
const (
	tagType       = 1<<3 | byte(protowire.VarintType)
	tagFlags      = 2<<3 | byte(protowire.VarintType)
	tagSeq        = 3<<3 | byte(protowire.VarintType)
	tagAttributes = 4<<3 | byte(protowire.BytesType)
	tagData       = 5<<3 | byte(protowire.BytesType)
	tagKey        = 1<<3 | byte(protowire.BytesType)
	tagValue      = 2<<3 | byte(protowire.BytesType)
)

// ProtoOptions says what a subscriber sees of a stored frame. The zero value is
// right for ordinary topics: reserved attributes found in the log are not
// trusted and left out.
type ProtoOptions struct {
	// KeepReserved keeps the reserved attributes of the stored frame, as on
	// topics of dead letters.
	KeepReserved bool
	// Stamps are added after the stored attributes and replace those of the same
	// name. Their names must differ, and names and values must be UTF-8 within the
	// limits; that is the caller's part and not checked. They may bring the
	// message over MaxAttributes: the limit is one of frames, not of messages.
	Stamps []Attribute
}

// drops reports whether a stored attribute is left out.
func (o *ProtoOptions) drops(name []byte) bool {
	return !o.KeepReserved && Reserved(name) || stamped(o.Stamps, name)
}

func stamped(stamps []Attribute, name []byte) bool {
	for i := range stamps {
		if stamps[i].Name == string(name) {
			return true
		}
	}
	return false
}

// AppendProto appends the protobuf wire form of ackmesh.v1.EventMeshFrame for a
// stored frame to dst: the message alone, without the tag and length that embed
// it in another one. Attributes keep their order; data follows them.
//
// stored must have passed Parse, when it was read or before it was written; a
// plain []byte will do. It is not checked for UTF-8, limits and duplicates again.
// On bytes that are no frame AppendProto does not panic; where it notices, it
// returns dst as it was and an error. Nothing is allocated if dst has ProtoSize
// bytes of room.
func AppendProto(dst []byte, stored View, opt ProtoOptions) ([]byte, error) {
	if cap(dst)-len(dst) < len(stored) {
		dst = slices.Grow(dst, ProtoSize(stored, opt))
	}
	out, ok := appendProto(dst, stored, &opt)
	if !ok {
		return dst, notStored(stored)
	}
	return out, nil
}

func appendProto(dst []byte, v View, opt *ProtoOptions) ([]byte, bool) {
	if len(v) < headerLen {
		return nil, false
	}
	dst, off, left := appendPlainAttrs(appendProtoHead(dst, v), v, opt)
	for range left {
		name, value, end, ok := attrAt(v, off)
		if !ok {
			return nil, false
		}
		if !opt.drops(name) {
			dst = appendProtoAttr(dst, name, value)
		}
		off = end
	}
	for i := range opt.Stamps {
		dst = appendProtoAttr(dst, opt.Stamps[i].Name, opt.Stamps[i].Value)
	}
	return appendProtoData(dst, v, off)
}

// appendPlainAttrs appends the first attributes, as far as all their lengths take
// one byte and none is dropped, and returns where in v the others begin, and how
// many they are. Such an attribute takes as many bytes in both forms, and its value
// has the same place there: so all are copied at once, and then headed anew.
func appendPlainAttrs(dst []byte, v View, opt *ProtoOptions) (out []byte, off, left int) {
	off, left = headerLen, v.Count()
	end := len(v) - v.dataLen()
	if end < off {
		return dst, off, left
	}
	at := len(dst)
	dst = append(dst, v[off:end]...)
	for d := dst[at:]; left > 0 && len(d) >= attrOverhead; left-- {
		n := int(binary.BigEndian.Uint16(v[off:]))
		if n > len(d)-attrOverhead {
			break
		}
		name, size := v[off+2:off+2+n], binary.BigEndian.Uint32(v[off+2+n:])
		if n >= 1<<7 || size >= 1<<7 {
			break
		}
		all := attrOverhead + n + int(size)
		if all-2 >= 1<<7 || all > len(d) || (len(opt.Stamps) > 0 || n > 0 && name[0] == 'e') && opt.drops(name) {
			break
		}
		d[0], d[1], d[2], d[3] = tagAttributes, byte(all-2), tagKey, byte(n)
		copy(d[4:], name)
		d[4+n], d[5+n] = tagValue, byte(size)
		d, off = d[all:], off+all
	}
	return dst[:at+off-headerLen], off, left
}

func appendProtoHead(dst []byte, v View) []byte {
	dst = append(dst, tagType)
	dst = protowire.AppendVarint(dst, uint64(v[offType]))
	if fl := v[offFlags]; fl != 0 {
		dst = append(dst, tagFlags)
		dst = protowire.AppendVarint(dst, uint64(fl))
	}
	if seq := binary.BigEndian.Uint32(v[offSeq:]); seq != 0 {
		dst = append(dst, tagSeq)
		dst = protowire.AppendVarint(dst, uint64(seq))
	}
	return dst
}

func appendProtoAttr[T string | []byte](dst []byte, name, value T) []byte {
	dst = append(dst, tagAttributes)
	dst = appendLen(dst, entrySize(len(name), len(value)))
	dst = append(dst, tagKey)
	dst = appendLen(dst, len(name))
	dst = append(dst, name...)
	dst = append(dst, tagValue)
	dst = appendLen(dst, len(value))
	return append(dst, value...)
}

func appendProtoData(dst []byte, v View, off int) ([]byte, bool) {
	n := v.dataLen()
	if len(v)-off != n {
		return nil, false
	}
	if n == 0 {
		return dst, true
	}
	dst = append(dst, tagData)
	dst = appendLen(dst, n)
	return append(dst, v[off:]...), true
}

// ProtoSize returns how many bytes AppendProto appends with the same arguments,
// or 0 where it fails; no frame takes 0 bytes. It allocates nothing.
func ProtoSize(stored View, opt ProtoOptions) int {
	if len(stored) < headerLen {
		return 0
	}
	size := protoHeadSize(stored)
	off := headerLen
	for range stored.Count() {
		name, value, end, ok := attrAt(stored, off)
		if !ok {
			return 0
		}
		if !opt.drops(name) {
			size += attrSize(len(name), len(value))
		}
		off = end
	}
	for i := range opt.Stamps {
		size += attrSize(len(opt.Stamps[i].Name), len(opt.Stamps[i].Value))
	}
	n := stored.dataLen()
	if len(stored)-off != n {
		return 0
	}
	if n > 0 {
		size += 1 + lenSize(n) + n
	}
	return size
}

func protoHeadSize(v View) int {
	size := 1 + lenSize(int(v[offType]))
	if fl := v[offFlags]; fl != 0 {
		size += 1 + lenSize(int(fl))
	}
	if seq := binary.BigEndian.Uint32(v[offSeq:]); seq != 0 {
		size += 1 + protowire.SizeVarint(uint64(seq))
	}
	return size
}

// entrySize is the size of a map entry, attrSize that of the field holding it.
func entrySize(name, value int) int { return 2 + lenSize(name) + name + lenSize(value) + value }

func attrSize(name, value int) int {
	n := entrySize(name, value)
	return 1 + lenSize(n) + n
}

// lenSize and appendLen are the varint of a length, short for the usual ones.
func lenSize(n int) int {
	if n < 1<<7 {
		return 1
	}
	return protowire.SizeVarint(uint64(n))
}

func appendLen(dst []byte, n int) []byte {
	if n < 1<<7 {
		return append(dst, byte(n))
	}
	return protowire.AppendVarint(dst, uint64(n))
}

// notStored says why stored bytes could not be transcoded.
func notStored(v View) error {
	if _, err := Parse(v); err != nil {
		return err
	}
	return &Error{Kind: ErrTruncated, Field: fieldFrame}
}

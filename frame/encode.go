package frame

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// Append appends the encoded frame to dst and returns the result. It checks the
// frame first, by the same rules as Decode; on error dst is returned as it was.
// Empty names are legal in a frame, though no CloudEvent has them. f is not
// changed and nothing of it is kept.
func Append(dst []byte, f *Frame) ([]byte, error) {
	size, err := check(f)
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, size)
	dst = appendHeader(dst, f.Type, f.Flags, f.Seq, len(f.Attributes), len(f.Data))
	for i := range f.Attributes {
		dst = appendAttr(dst, f.Attributes[i].Name, f.Attributes[i].Value)
	}
	return append(dst, f.Data...), nil
}

// check returns the size of the frame once encoded, or what is wrong with it.
func check(f *Frame) (int, error) {
	if !f.Type.known() {
		return 0, errType(int64(f.Type))
	}
	if len(f.Data) > MaxDataSize {
		return 0, errLimit(fieldData, int64(len(f.Data)), MaxDataSize)
	}
	if len(f.Attributes) > MaxAttributes {
		return 0, errLimit(fieldAttributes, int64(len(f.Attributes)), MaxAttributes)
	}
	size, seen := headerLen+len(f.Data), uint64(0)
	for i := range f.Attributes {
		a := &f.Attributes[i]
		if err := checkAttr(a.Name, a.Value); err != nil {
			return 0, err
		}
		bit := nameBit(a.Name)
		if seen&bit != 0 && f.index(a.Name) != i {
			return 0, errAttr(ErrDuplicate, fieldName, a.Name, "")
		}
		seen |= bit
		size += attrOverhead + len(a.Name) + len(a.Value)
	}
	return size, nil
}

// checkAttr applies the rules that hold for every attribute of every frame.
func checkAttr(name, value string) error {
	if err := checkAttrLen(name, value); err != nil {
		return err
	}
	return utf8Error(name, utf8.ValidString(name), utf8.ValidString(value))
}

// checkAttrLen holds an attribute to the limits.
func checkAttrLen[T string | []byte](name, value T) error {
	if len(name) > MaxNameLen {
		return errAttrLimit(fieldName, name, int64(len(name)), MaxNameLen)
	}
	if len(value) > MaxValueLen {
		return errAttrLimit(fieldValue, name, int64(len(value)), MaxValueLen)
	}
	return nil
}

func utf8Error[T string | []byte](name T, nameOK, valueOK bool) error {
	switch {
	case !nameOK:
		return errAttr(ErrUTF8, fieldName, name, "")
	case !valueOK:
		return errAttr(ErrUTF8, fieldValue, name, "")
	}
	return nil
}

func appendHeader(dst []byte, t Type, fl Flags, seq uint32, keys, data int) []byte {
	dst = append(dst, magic, version, byte(t), byte(fl))
	dst = binary.BigEndian.AppendUint32(dst, seq)
	dst = binary.BigEndian.AppendUint16(dst, uint16(keys))
	return binary.BigEndian.AppendUint32(dst, uint32(data))
}

func appendAttr[N, V string | []byte](dst []byte, name N, value V) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

func errType(got int64) error {
	return &Error{
		Kind: ErrType, Field: fieldType, Got: got,
		Hint: "known are 1 STREAM_REQ, 2 STREAM_CHUNK and 3 EVENT",
	}
}

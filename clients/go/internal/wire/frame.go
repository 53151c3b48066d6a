package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// CheckFrame walks an EventMeshFrame once and returns its data. After it has
// returned no error, the other functions of this file find every attribute. It
// does not check text for UTF-8.
func CheckFrame(b []byte) (data []byte, err error) {
	for len(b) > 0 {
		if b[0] == tagBytes4 && len(b) > 1 && b[1] < 0x80 && int(b[1]) <= len(b)-2 {
			end := 2 + int(b[1])
			if !plainEntry(b[2:end]) && !oddEntry(b[2:end]) {
				return nil, malformedText("attribute")
			}
			b = b[end:]
			continue
		}
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, malformed("frame", n)
		}
		if typ == protowire.BytesType && num == 4 && !oddEntry(fieldBytes(b)) {
			return nil, malformedText("attribute")
		}
		if typ == protowire.BytesType && num == 5 {
			data = fieldBytes(b)
		}
		b = b[n:]
	}
	return data, nil
}

// fieldBytes returns the content of the length-delimited field that b begins
// with; protowire.ConsumeField has accepted it.
func fieldBytes(b []byte) []byte {
	_, _, n := protowire.ConsumeTag(b)
	v, m := protowire.ConsumeBytes(b[max(n, 0):])
	if n < 0 || m < 0 {
		return nil
	}
	return v
}

// plainEntry reports whether a map entry has the form that encoders write: key,
// then value, the lengths in one byte each.
func plainEntry(e []byte) bool {
	_, _, ok := splitPlain(e)
	return ok
}

func splitPlain(e []byte) (name, value []byte, ok bool) {
	if len(e) < 4 || e[0] != tagBytes1 || e[1] >= 0x80 || int(e[1]) > len(e)-4 {
		return nil, nil, false
	}
	at := 2 + int(e[1])
	if e[at] != tagBytes2 || e[at+1] >= 0x80 || int(e[at+1]) != len(e)-at-2 {
		return nil, nil, false
	}
	return e[2:at], e[at+2:], true
}

// oddEntry reports whether a map entry of any form can be read.
func oddEntry(e []byte) bool {
	_, _, ok := splitEntry(e)
	return ok
}

// splitEntry reads a map entry in any form that protobuf allows.
func splitEntry(e []byte) (name, value []byte, ok bool) {
	if name, value, ok = splitPlain(e); ok {
		return name, value, true
	}
	for len(e) > 0 {
		num, typ, n := protowire.ConsumeField(e)
		if n < 0 {
			return nil, nil, false
		}
		if typ == protowire.BytesType && num == 1 {
			name = fieldBytes(e)
		}
		if typ == protowire.BytesType && num == 2 {
			value = fieldBytes(e)
		}
		e = e[n:]
	}
	return name, value, true
}

// nextEntry returns the next attribute of the frame and what follows it.
func nextEntry(b []byte) (name, value, rest []byte, ok bool) {
	for len(b) > 0 {
		if b[0] == tagBytes4 && len(b) > 1 && b[1] < 0x80 && int(b[1]) <= len(b)-2 {
			end := 2 + int(b[1])
			name, value, ok = splitEntry(b[2:end])
			return name, value, b[end:], ok
		}
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, nil, nil, false
		}
		if num == 4 && typ == protowire.BytesType {
			name, value, ok = splitEntry(fieldBytes(b))
			return name, value, b[n:], ok
		}
		b = b[n:]
	}
	return nil, nil, nil, false
}

// Attr returns the value of an attribute of a checked frame. As in a protobuf
// map, the last of several entries of one name counts.
func Attr(b []byte, attr string) (value []byte, found bool) {
	for {
		name, v, rest, ok := nextEntry(b)
		if !ok {
			return value, found
		}
		if string(name) == attr {
			value, found = v, true
		}
		b = rest
	}
}

// EachAttr calls yield for every attribute of a checked frame, in the order of
// the wire, until yield returns false. A name that occurs twice is told twice.
func EachAttr(b []byte, yield func(name, value []byte) bool) {
	for {
		name, value, rest, ok := nextEntry(b)
		if !ok || !yield(name, value) {
			return
		}
		b = rest
	}
}

// Head returns the fields type, flags and seq of a checked frame.
func Head(b []byte) (typ, flags, seq uint32) {
	for len(b) > 0 {
		num, wt, n := protowire.ConsumeField(b)
		if n < 0 {
			return typ, flags, seq
		}
		if wt == protowire.VarintType && num <= 3 {
			v := fieldVarint(b)
			switch num {
			case 1:
				typ = uint32(v)
			case 2:
				flags = uint32(v)
			case 3:
				seq = uint32(v)
			}
		}
		b = b[n:]
	}
	return typ, flags, seq
}

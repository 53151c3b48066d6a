package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// stretch is where in a frame all of its attributes stand, one behind the other and
// each in the form that plainAttr takes. from is below 0 where they stand otherwise.
type stretch struct{ from, to int32 }

var noStretch = stretch{from: -1}

// add adds the next attribute, of that length.
func (s *stretch) add(at, length int) {
	switch {
	case s.from < 0:
	case at+length > math.MaxInt32, s.to > 0 && int(s.to) != at:
		*s = noStretch
	case s.to == 0:
		*s = stretch{int32(at), int32(at + length)}
	default:
		s.to = int32(at + length)
	}
}

// checkFrame walks an EventMeshFrame once and returns its data, and where its
// attributes stand. After it has returned no error, the other functions of this file
// find every attribute. It does not check text for UTF-8.
func checkFrame(b []byte) (data []byte, attrs stretch, err error) {
	whole := len(b)
	for len(b) > 0 {
		if _, end := plainAttr(b); end > 0 {
			attrs.add(whole-len(b), end)
			b = b[end:]
			continue
		}
		if from, end := span(b); end > 0 && b[0] == tagBytes5 {
			data, b = b[from:end], b[end:]
			continue
		}
		n := skip(b)
		if n < 0 {
			return nil, attrs, malformed("frame", n)
		}
		if data, err = checkOdd(b[:n], data); err != nil {
			return nil, attrs, err
		}
		if b[0] == tagBytes4 || b[0] >= 0x80 { // it is an attribute, or may be one
			attrs = noStretch
		}
		b = b[n:]
	}
	return data, attrs, nil
}

// checkOdd checks a field of a frame in any form that protobuf allows, and returns
// the data that is in force behind it.
func checkOdd(b, data []byte) ([]byte, error) {
	num, typ, _ := protowire.ConsumeTag(b)
	switch {
	case typ != protowire.BytesType:
	case num == 4 && !oddEntry(fieldBytes(b)):
		return nil, malformedText("attribute")
	case num == 5:
		return fieldBytes(b), nil
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

// oddEntry reports whether a map entry of any form can be read.
func oddEntry(e []byte) bool {
	_, _, ok := splitEntry(e)
	return ok
}

// splitEntry reads a map entry in any form that protobuf allows.
func splitEntry(e []byte) (name, value []byte, ok bool) {
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

// plainAttr is where the value and the end of the attribute lie that b begins with,
// in the form that encoders write: key, then value, all lengths in one byte each. Its
// name begins at 4. For any other form end is 0.
func plainAttr(b []byte) (value, end int) {
	if len(b) < 6 || b[0] != tagBytes4 || b[2] != tagBytes1 || (b[1]|b[3]) >= 0x80 {
		return 0, 0
	}
	value, end = 6+int(b[3]), 2+int(b[1])
	if end > len(b) || value > end || b[value-2] != tagBytes2 || b[value-1] >= 0x80 || int(b[value-1]) != end-value {
		return 0, 0
	}
	return value, end
}

// nextEntry returns the next attribute of the frame and what follows it.
func nextEntry(b []byte) (name, value, rest []byte, ok bool) {
	for len(b) > 0 {
		if at, end := plainAttr(b); end > 0 {
			return b[4 : at-2], b[at:end], b[end:], true
		}
		n := skip(b)
		if n < 0 {
			return nil, nil, nil, false
		}
		if num, typ, _ := protowire.ConsumeTag(b); num == 4 && typ == protowire.BytesType {
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
		at, end := plainAttr(b)
		for ; end > 0; at, end = plainAttr(b) {
			if string(b[4:at-2]) == attr {
				value, found = b[at:end], true
			}
			b = b[end:]
		}
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

// Attr is Attr of the frame, which has been read by Run.Next or Check.
func (it *Item) Attr(name string) (value []byte, found bool) {
	if it.attrs.from < 0 {
		return Attr(it.Frame, name)
	}
	for b := it.Frame[it.attrs.from:it.attrs.to]; len(b) > 0; {
		end := 2 + int(b[1])
		if at := 4 + int(b[3]); int(b[3]) == len(name) && string(b[4:at]) == name {
			value, found = b[at+2:end], true
		}
		b = b[end:]
	}
	return value, found
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

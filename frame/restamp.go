package frame

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// RestampOptions says what Restamp takes off and puts on. Reserved attributes
// are always taken off.
type RestampOptions struct {
	// Drop names further attributes to take off.
	Drop []string
	// Stamps are put on after the attributes that stay, and replace those of the
	// same name. They must be legal in a frame; see Clip for values of unknown
	// length.
	Stamps []Attribute
}

// Restamp appends to dst a copy of a stored frame with other attributes of the
// mesh: how a record becomes a dead letter, and a dead letter a record again.
// stored must have passed Parse.
//
// A frame that already has (nearly) MaxAttributes would get too many. Then the
// last of its attributes that are not among the well-known CloudEvents ones are
// left out; leftOut says how many, so that it can be counted. The stamps are
// never left out. On error, which only bad stamps or bytes that are no frame
// cause, dst is returned as it was.
func Restamp(dst []byte, stored View, opt RestampOptions) (out []byte, leftOut int, err error) {
	if _, err := check(&Frame{Type: Event, Attributes: opt.Stamps}); err != nil {
		return dst, 0, err
	}
	kept, spare, ok := countKept(stored, &opt)
	if !ok {
		return dst, 0, notStored(stored)
	}
	leftOut = max(0, kept+len(opt.Stamps)-MaxAttributes)
	if leftOut > spare {
		return dst, 0, errLimit(fieldAttributes, int64(kept+len(opt.Stamps)), MaxAttributes)
	}
	return appendRestamped(dst, stored, &opt, kept-leftOut, spare-leftOut), leftOut, nil
}

// countKept counts the attributes that stay, and those of them that may be left
// out. ok is false if v is no frame.
func countKept(v View, opt *RestampOptions) (kept, spare int, ok bool) {
	off := headerLen
	for range v.Count() {
		name, _, end, ok := attrAt(v, off)
		if !ok {
			return 0, 0, false
		}
		if !opt.drops(name) {
			kept++
			if !wellKnown(name) {
				spare++
			}
		}
		off = end
	}
	return kept, spare, len(v) >= headerLen && len(v)-off == v.dataLen()
}

func appendRestamped(dst []byte, v View, opt *RestampOptions, keys, spare int) []byte {
	data := v.Data()
	dst = slices.Grow(dst, len(v))
	dst = appendHeader(dst, v.Type(), v.Flags(), v.Seq(), keys+len(opt.Stamps), len(data))
	for name, value := range v.Attributes() {
		if opt.drops(name) {
			continue
		}
		if !wellKnown(name) {
			if spare == 0 {
				continue
			}
			spare--
		}
		dst = appendAttr(dst, name, value)
	}
	for i := range opt.Stamps {
		dst = appendAttr(dst, opt.Stamps[i].Name, opt.Stamps[i].Value)
	}
	return append(dst, data...)
}

func (o *RestampOptions) drops(name []byte) bool {
	for i := range o.Drop {
		if o.Drop[i] == string(name) {
			return true
		}
	}
	return Reserved(name) || stamped(o.Stamps, name)
}

// wellKnown reports whether an attribute is worth more than others.
func wellKnown(name []byte) bool {
	switch string(name) {
	case AttrID, AttrSource, AttrType, AttrSubject, AttrTime, AttrDataContentType,
		AttrDataSchema, AttrSpecVersion, AttrPartitionKey, AttrTraceParent, AttrTraceState, AttrTTL:
		return true
	}
	return false
}

// Clip makes a legal value of any text: bytes that are not UTF-8 become U+FFFD,
// and what is over MaxValueLen is cut off, between characters.
func Clip(text string) string {
	// The first cut bounds the work, the second what U+FFFD has made longer.
	return cut(strings.ToValidUTF8(cut(text), "\uFFFD"))
}

func cut(text string) string {
	if len(text) <= MaxValueLen {
		return text
	}
	n := MaxValueLen
	for n > MaxValueLen-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

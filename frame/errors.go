package frame

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure. Every error of this package wraps one of them, so that
// errors.Is tells them apart.
var (
	// ErrMagic: the bytes do not begin like a frame.
	ErrMagic = errors.New("not an EventMesh frame")
	// ErrVersion: the frame has a version this code does not know.
	ErrVersion = errors.New("unknown frame version")
	// ErrType: the message type is none of the known ones.
	ErrType = errors.New("unknown message type")
	// ErrTruncated: the bytes end before the frame does.
	ErrTruncated = errors.New("truncated")
	// ErrTrailing: there are bytes after the end of the frame.
	ErrTrailing = errors.New("trailing bytes")
	// ErrLimit: a size or a count is over its limit.
	ErrLimit = errors.New("over the limit")
	// ErrUTF8: a name or a value is not valid UTF-8.
	ErrUTF8 = errors.New("not valid UTF-8")
	// ErrDuplicate: an attribute name occurs twice.
	ErrDuplicate = errors.New("given twice")
	// ErrName: an attribute name is not a legal CloudEvents name.
	ErrName = errors.New("not a legal CloudEvents name")
	// ErrReserved: a publisher set an attribute that only the mesh may set.
	ErrReserved = errors.New("set only by the mesh")
	// ErrValue: an attribute has a value it cannot have.
	ErrValue = errors.New("not a legal value")
	// ErrProto: the bytes are not the protobuf wire form of a message.
	ErrProto = errors.New("malformed protobuf")
	// ErrJSON: the text is a CloudEvent that breaks the CloudEvents JSON format.
	ErrJSON = errors.New("malformed CloudEvents JSON")
	// ErrNotCloudEvent: the text is not a JSON object with a specversion.
	ErrNotCloudEvent = errors.New("not a CloudEvent in JSON")
)

// The values of Error.Field.
const (
	fieldFrame      = "frame"
	fieldType       = "type"
	fieldFlags      = "flags"
	fieldVersion    = "version"
	fieldAttributes = "attributes"
	fieldName       = "attribute name"
	fieldValue      = "attribute value"
	fieldData       = "data"
)

// Error says what is wrong with a frame or with an event that should become
// one. It holds no reference to the bytes it speaks of.
type Error struct {
	// Kind is one of the Err values of this package.
	Kind error
	// Field is the part concerned: "frame", "version", "type", "flags",
	// "attributes", "attribute name", "attribute value" or "data".
	Field string
	// Attr is the name of the attribute concerned, cut to 64 bytes, and not
	// always UTF-8; empty if none is (or if the name itself is empty). For "data"
	// it is the JSON member concerned, if any: data or data_base64.
	Attr string
	// Got and Limit are bytes, for "attributes" a count, for "version", "type"
	// and "flags" a value. Limit is 0 where there is none.
	Got, Limit int64
	// Hint says what to do, or more exactly what is wrong; may be empty.
	Hint string
}

// Error names the field, the attribute, what is wrong, the limit, and what to do.
// The text is UTF-8 whatever the input was.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("frame: ")
	switch e.Field {
	case fieldFrame: // said already
	case fieldName, fieldValue:
		fmt.Fprintf(&b, "%s %q: ", e.Field, e.Attr)
	case fieldData:
		b.WriteString(cmp.Or(e.Attr, e.Field) + ": ")
	default:
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Kind.Error())
	e.writeFigures(&b)
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

func (e *Error) writeFigures(b *strings.Builder) {
	unit := " bytes"
	switch e.Field {
	case fieldAttributes, fieldVersion, fieldType, fieldFlags:
		unit = ""
	}
	switch {
	case e.Limit != 0:
		fmt.Fprintf(b, ": %d%s, at most %d", e.Got, unit, e.Limit)
	case e.Got != 0 || errors.Is(e.Kind, ErrType) || errors.Is(e.Kind, ErrVersion):
		fmt.Fprintf(b, ": %d%s", e.Got, unit)
	}
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

const maxErrorName = 64

// clip copies as much of a name as an error carries.
func clip[T string | []byte](name T) string {
	return string(name[:min(len(name), maxErrorName)])
}

func errAttr[T string | []byte](kind error, field string, name T, hint string) error {
	return &Error{Kind: kind, Field: field, Attr: clip(name), Hint: hint}
}

func errLimit(field string, got, limit int64) error {
	return &Error{Kind: ErrLimit, Field: field, Got: got, Limit: limit}
}

func errAttrLimit[T string | []byte](field string, name T, got, limit int64) error {
	return &Error{Kind: ErrLimit, Field: field, Attr: clip(name), Got: got, Limit: limit}
}

func errTruncated(field string) error {
	return &Error{Kind: ErrTruncated, Field: field}
}

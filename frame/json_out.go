package frame

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends the frame to dst as a CloudEvent in the JSON format:
// specversion first, then the attributes in their order, all as strings, then
// the data. It adds no required attribute that the frame lacks. stored must have
// passed Parse. Only frames of type Event are CloudEvents; their flags and seq
// have no place in one and are left out.
//
// Data stands in the member data, byte for byte, where datacontenttype is JSON or
// absent and the data is a JSON value; as a string where datacontenttype is text
// or XML and the data is UTF-8; otherwise, so that no byte is lost, in
// data_base64. Without data there is no such member.
//
// A frame from FromCloudEventJSON comes back equal. One with a name that
// CloudEvents does not allow is ErrName: the name would have to be changed. On
// error dst is returned as it was.
func AppendJSON(dst []byte, stored View) ([]byte, error) {
	if len(stored) < headerLen {
		return dst, notStored(stored)
	}
	if stored.Type() != Event {
		return dst, &Error{Kind: ErrType, Field: fieldType, Got: int64(stored.Type()), Hint: "only EVENT frames are CloudEvents"}
	}
	spec, ok := stored.Attr(AttrSpecVersion)
	if !ok {
		spec = []byte(specVersion1)
	}
	out := appendJSONString(append(dst, `{"specversion":`...), spec)
	for name, value := range stored.Attributes() {
		if err := checkName(name); err != nil {
			return dst, err
		}
		if string(name) == AttrSpecVersion {
			continue
		}
		out = append(out, `,"`...)
		out = append(out, name...) // a-z and 0-9 need no escapes
		out = appendJSONString(append(out, `":`...), value)
	}
	contentType, typed := stored.Attr(AttrDataContentType)
	return append(appendJSONData(out, stored.Data(), string(contentType), typed), '}'), nil
}

func appendJSONData(dst, data []byte, contentType string, typed bool) []byte {
	switch {
	case len(data) == 0:
		return dst
	case (!typed || isJSONType(contentType)) && isJSONValue(data):
		return append(append(dst, `,"data":`...), data...)
	case typed && isTextType(contentType) && utf8.Valid(data):
		return appendJSONString(append(dst, `,"data":`...), data)
	}
	dst = append(dst, `,"data_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// isJSONValue reports whether data is a JSON value without space around it, which
// a reader of the event would not hand on.
func isJSONValue(data []byte) bool {
	return utf8.Valid(data) && json.Valid(data) && len(bytes.Trim(data, " \t\r\n")) == len(data)
}

// isTextType reports whether a content type declares text that is not JSON.
func isTextType(contentType string) bool {
	subtype := strings.ToLower(mediaSubtype(contentType))
	text := len(contentType) >= 5 && strings.EqualFold(contentType[:5], "text/")
	return !isJSONType(contentType) && (text || subtype == "xml" || strings.HasSuffix(subtype, "+xml"))
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends valid UTF-8 as a JSON string.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, c)
		from = i + 1
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

package frame

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	memberData       = "data"
	memberDataBase64 = "data_base64"
	specVersion1     = "1.0"
	jsonContentType  = "application/json"
)

// FromCloudEventJSON reads one CloudEvent in the JSON format (CloudEvents 1.0.2,
// JSON event format) as a frame of type Event.
//
// Attributes become strings: those of string type byte for byte (so a time keeps
// all its digits), whole numbers in decimal as written, other numbers in their
// shortest form, booleans as true and false; null means absent. The specversion
// 1.0 is understood and not stored; another one becomes an attribute. The data
// member becomes its JSON text as written where datacontenttype is JSON or
// absent; otherwise a string becomes its text, null nothing, and any other value
// its JSON text. data_base64 is decoded. With data and
// without datacontenttype the frame gets the implied application/json, so that
// subscribers know (unless it is full).
//
// Text that is no JSON object with a specversion is ErrNotCloudEvent: a caller
// may take it as something else. Anything else that is wrong breaks an event
// that was meant as one: illegal or doubled names, values of other types,
// limits, data given in both ways. The frame shares no memory with doc.
func FromCloudEventJSON(doc []byte) (Frame, error) {
	members, err := splitMembers(doc)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Type: Event}
	var data, base64Data json.RawMessage
	for _, m := range members {
		switch m.name {
		case memberData:
			data, err = takeOnce(data, m)
		case memberDataBase64:
			if !isNull(m.value) {
				base64Data, err = takeOnce(base64Data, m)
			}
		default:
			err = f.addMember(m)
		}
		if err != nil {
			return Frame{}, err
		}
	}
	if err := f.setJSONData(data, base64Data); err != nil {
		return Frame{}, err
	}
	if _, err := check(&f); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// member is one name and value of a JSON object; the value is its text.
type member struct {
	name  string
	value json.RawMessage
}

// splitMembers takes a CloudEvent apart, without looking into the values.
func splitMembers(doc []byte) ([]member, error) {
	if !looksLikeObject(doc) || !utf8.Valid(doc) || !json.Valid(doc) {
		return nil, notCloudEvent("not a JSON object in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	if _, err := dec.Token(); err != nil {
		return nil, notCloudEvent(err.Error())
	}
	var members []member
	versioned := false
	for dec.More() {
		m, err := nextMember(dec)
		if err != nil {
			return nil, notCloudEvent(err.Error())
		}
		versioned = versioned || m.name == AttrSpecVersion && !isNull(m.value)
		members = append(members, m)
	}
	if !versioned {
		return nil, notCloudEvent("it has no specversion")
	}
	return members, nil
}

func looksLikeObject(doc []byte) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == '{'
}

func nextMember(dec *json.Decoder) (member, error) {
	name, err := dec.Token()
	if err != nil {
		return member{}, err
	}
	var m member
	m.name, _ = name.(string) // in an object every other token is a string
	return m, dec.Decode(&m.value)
}

func takeOnce(old json.RawMessage, m member) (json.RawMessage, error) {
	if old != nil {
		return nil, errAttr(ErrDuplicate, fieldData, m.name, "")
	}
	return m.value, nil
}

// addMember adds an attribute by the strict rules.
func (f *Frame) addMember(m member) error {
	if err := checkName(m.name); err != nil {
		return err
	}
	value, present, err := attributeText(m.name, m.value)
	switch {
	case err != nil:
		return err
	case !present || m.name == AttrSpecVersion && value == specVersion1:
		return nil
	case f.index(m.name) >= 0:
		return errAttr(ErrDuplicate, fieldName, m.name, "")
	case len(f.Attributes) == MaxAttributes:
		return errLimit(fieldAttributes, MaxAttributes+1, MaxAttributes)
	case m.value[0] != '"' && stringTyped(m.name):
		return errAttr(ErrJSON, fieldValue, m.name, "it must be a JSON string")
	}
	f.Attributes = append(f.Attributes, Attribute{Name: m.name, Value: value})
	return nil
}

// stringTyped reports whether CloudEvents itself makes the attribute a string.
func stringTyped(name string) bool {
	switch name {
	case AttrID, AttrSource, AttrType, AttrSubject, AttrTime, AttrDataContentType, AttrDataSchema, AttrSpecVersion:
		return true
	}
	return false
}

// attributeText returns the value of an attribute as canonical text. present is
// false for null.
func attributeText(name string, value json.RawMessage) (text string, present bool, err error) {
	switch value[0] {
	case 'n':
		return "", false, nil
	case '"':
		s, ok := stringValue(value)
		if !ok {
			return "", false, errAttr(ErrUTF8, fieldValue, name, "it has half of a surrogate pair")
		}
		return s, true, nil
	case 't', 'f':
		return string(value), true, nil
	case '{', '[':
		return "", false, errAttr(ErrJSON, fieldValue, name, "an attribute is a string, a number or a boolean")
	default:
		return numberText(name, string(value))
	}
}

// numberText keeps whole numbers as they are and gives others one form each.
func numberText(name, n string) (string, bool, error) {
	if n == "-0" {
		return "0", true, nil
	}
	if !strings.ContainsAny(n, ".eE") {
		return n, true, nil
	}
	v, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return "", false, errAttr(ErrValue, fieldValue, name, "the number is too large; send it as a string")
	}
	text, err := json.Marshal(v)
	return string(text), err == nil, err
}

// stringValue decodes a JSON string. ok is false where it escapes something that
// is no character, which encoding/json would replace by U+FFFD.
func stringValue(value json.RawMessage) (s string, ok bool) {
	if err := json.Unmarshal(value, &s); err != nil {
		return "", false
	}
	if !strings.ContainsRune(s, utf8.RuneError) {
		return s, true
	}
	written := bytes.Count(value, []byte("\uFFFD")) + bytes.Count(bytes.ToLower(value), []byte(`\ufffd`))
	return s, written >= strings.Count(s, "\uFFFD")
}

// setJSONData sets the data from the member that carries it; absent ones are nil.
func (f *Frame) setJSONData(data, base64Data json.RawMessage) error {
	var err error
	switch contentType, typed := f.Get(AttrDataContentType); {
	case data != nil && base64Data != nil:
		return errAttr(ErrJSON, fieldData, memberDataBase64, "give data or data_base64, not both")
	case base64Data != nil:
		f.Data, err = fromBase64(base64Data)
	case data == nil:
	case !typed:
		if len(f.Attributes) < MaxAttributes {
			f.Set(AttrDataContentType, jsonContentType)
		}
		f.Data = data
	case isJSONType(contentType):
		f.Data = data
	case isNull(data):
	case data[0] != '"':
		f.Data = data
	default:
		s, ok := stringValue(data)
		if !ok {
			return errAttr(ErrUTF8, fieldData, memberData, "it has half of a surrogate pair")
		}
		f.Data = []byte(s)
	}
	return err
}

func fromBase64(value json.RawMessage) ([]byte, error) {
	s, ok := stringValue(value)
	if !ok || value[0] != '"' {
		return nil, errAttr(ErrJSON, fieldData, memberDataBase64, "it must be a JSON string")
	}
	if n := base64.StdEncoding.DecodedLen(len(s)); n > MaxDataSize+2 {
		return nil, errLimit(fieldData, int64(n), MaxDataSize)
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, errAttr(ErrJSON, fieldData, memberDataBase64, "it is not base64 with padding")
	}
	return data, nil
}

// isJSONType reports whether a content type declares JSON: its media type, without
// parameters, is */json or */*+json.
func isJSONType(contentType string) bool {
	subtype := strings.ToLower(mediaSubtype(contentType))
	return subtype == "json" || strings.HasSuffix(subtype, "+json")
}

func mediaSubtype(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	_, subtype, _ := strings.Cut(strings.TrimSpace(media), "/")
	return subtype
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func notCloudEvent(why string) error {
	return &Error{Kind: ErrNotCloudEvent, Field: fieldFrame, Hint: why}
}

package frame

import (
	"errors"
	"strings"
)

// Form says what the body of a record in a log was.
type Form uint8

// The forms, in the order in which FromRaw looks for them.
const (
	// FormFrame is an EventMesh frame.
	FormFrame Form = iota + 1
	// FormJSON is a CloudEvent in structured JSON mode.
	FormJSON
	// FormBinary is a CloudEvent in the binary mode of the Kafka protocol binding:
	// attributes in headers, data in the body.
	FormBinary
	// FormBytes is anything else.
	FormBytes
)

// String names the form.
func (f Form) String() string {
	switch f {
	case FormFrame:
		return "frame"
	case FormJSON:
		return "cloudevents-json"
	case FormBinary:
		return "cloudevents-binary"
	case FormBytes:
		return "bytes"
	default:
		return "unknown"
	}
}

// Header is one header or property of a record. Names may repeat.
type Header struct {
	Name  string
	Value []byte
}

// Raw is a record of a log as a frame.
type Raw struct {
	// Frame is always a frame that Append takes.
	Frame Frame
	// Form is what the body was.
	Form Form
	// LeftOut counts the attributes that found no place in the frame.
	LeftOut int
	// DataLeftOut is the size of the data in bytes if that is over MaxDataSize, in
	// which case Frame has none; else 0.
	DataLeftOut int
}

const (
	headerContentType  = "content-type"
	headerPrefix       = "ce_"
	headerSpecVersion  = headerPrefix + AttrSpecVersion
	cloudEventsTypePre = "application/cloudevents"
)

// FromRaw makes a frame of any record of a log, whoever wrote it. A record is
// never refused for its form: the body is taken as a frame, else as a CloudEvent
// (in JSON, or in the binary mode of the Kafka protocol binding 1.0.2), else as
// the data itself. Which of the CloudEvents modes it is follows the binding: a
// content-type of application/cloudevents means JSON, a header ce_specversion
// binary mode; without either, a JSON object with a specversion is an event.
//
// If the body is a frame, headers and key are not looked at. Otherwise headers
// become attributes (in a CloudEvent without their ce_), content-type becomes
// datacontenttype, and the key becomes partitionkey, each where the event has no
// such attribute yet. What is not UTF-8, over a limit, or has no place because
// the name is taken by another value is left out and counted. Names that are not
// legal for publishers stay, and so do reserved ones: whether to trust those is
// for the caller to say.
//
// Frame.Data may be part of body; everything else is copied.
func FromRaw(body []byte, headers []Header, key []byte) Raw {
	if f, err := Decode(body); err == nil {
		return Raw{Frame: f, Form: FormFrame}
	}
	c := collector{Raw{Frame: Frame{Type: Event}}}
	switch structured, binary := modes(headers); {
	case (structured || !binary) && c.json(body):
		c.Form = FormJSON
	case binary:
		c.Form = FormBinary
		c.Frame.Data = body
	default:
		c.Form = FormBytes
		c.Frame.Data = body
	}
	c.headers(headers)
	if len(key) > 0 {
		c.put(AttrPartitionKey, string(key))
	}
	c.limitData()
	return c.Raw
}

// modes tells what the headers say of the body: that it is a CloudEvent in some
// event format, that it is the data of one.
func modes(headers []Header) (structured, binary bool) {
	for _, h := range headers {
		switch {
		case strings.EqualFold(h.Name, headerContentType):
			n := len(cloudEventsTypePre)
			structured = structured || len(h.Value) >= n && strings.EqualFold(string(h.Value[:n]), cloudEventsTypePre)
		case h.Name == headerSpecVersion:
			binary = true
		}
	}
	return structured, binary
}

// collector puts a frame together, leaving out what does not fit.
type collector struct{ Raw }

// put adds an attribute unless the name is taken.
func (c *collector) put(name, value string) {
	old, taken := c.Frame.Get(name)
	switch {
	case taken && old == value:
	case taken, name == "", len(c.Frame.Attributes) == MaxAttributes, checkAttr(name, value) != nil:
		c.LeftOut++
	default:
		c.Frame.Attributes = append(c.Frame.Attributes, Attribute{Name: name, Value: value})
	}
}

// headers adds the headers: first those of CloudEvents, which count more.
func (c *collector) headers(headers []Header) {
	event := c.Form != FormBytes
	if event {
		for _, h := range headers {
			name, ok := strings.CutPrefix(h.Name, headerPrefix)
			if ok && (h.Name != headerSpecVersion || string(h.Value) != specVersion1) {
				c.put(name, string(h.Value))
			}
		}
	}
	for _, h := range headers {
		switch {
		case strings.EqualFold(h.Name, headerContentType):
			if c.Form != FormJSON { // there it is the type of the envelope
				c.put(AttrDataContentType, string(h.Value))
			}
		case !event || !strings.HasPrefix(h.Name, headerPrefix):
			c.put(h.Name, string(h.Value))
		}
	}
}

// json takes the body as a CloudEvent in JSON by rules that lose as little as
// possible. It returns false, and has done nothing, if the body is none.
func (c *collector) json(body []byte) bool {
	members, err := splitMembers(body)
	if err != nil {
		return false
	}
	try := collector{c.Raw}
	var data, base64Data []byte
	for _, m := range members {
		switch m.name {
		case memberData:
			data = try.keepFirst(data, m.value)
		case memberDataBase64:
			if !isNull(m.value) {
				base64Data = try.keepFirst(base64Data, m.value)
			}
		default:
			try.putMember(m)
		}
	}
	if !try.jsonData(data, base64Data) {
		return false
	}
	*c = try
	return true
}

func (c *collector) keepFirst(old, value []byte) []byte {
	if old == nil {
		return value
	}
	c.LeftOut++
	return old
}

// putMember adds an attribute; one that is an array or an object keeps its text.
func (c *collector) putMember(m member) {
	text, present, err := string(m.value), true, error(nil)
	if m.value[0] != '{' && m.value[0] != '[' {
		text, present, err = attributeText(m.name, m.value)
	}
	switch {
	case err != nil:
		c.LeftOut++
	case present && (m.name != AttrSpecVersion || text != specVersion1):
		c.put(m.name, text)
	}
}

// jsonData sets the data. It returns false if the data cannot be read, so that
// the whole body has to be kept.
func (c *collector) jsonData(data, base64Data []byte) bool {
	if base64Data != nil && data != nil {
		data = nil
		c.LeftOut++
	}
	err := c.Frame.setJSONData(data, base64Data)
	var e *Error
	if errors.As(err, &e) && errors.Is(e.Kind, ErrLimit) {
		c.DataLeftOut = int(e.Got)
		return true
	}
	return err == nil
}

func (c *collector) limitData() {
	if n := len(c.Frame.Data); n > MaxDataSize {
		c.Frame.Data, c.DataLeftOut = nil, n
	}
}

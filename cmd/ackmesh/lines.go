package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ackmesh/ackmesh/frame"
)

// maxLine is the most bytes of a line: data in base64 and all attributes of the
// largest event fit.
const maxLine = 16 << 20

// wrappedType is the type of events made of JSON that is no CloudEvent.
const wrappedType = "io.ackmesh.json"

// errLongLine is told of lines over maxLine.
var errLongLine = fmt.Errorf("longer than %d MiB", maxLine>>20)

// lineReader reads lines and counts them.
type lineReader struct {
	r *bufio.Reader
	// number is that of the line read last, from 1; size counts the bytes read.
	number, size int64
	buf          []byte
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next line without its end; it is valid until the next call.
// After errLongLine reading goes on behind that line. At the end: io.EOF.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.size += int64(len(part))
		if len(l.buf)+len(part) > maxLine {
			long = true
		} else {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.buf) == 0 && !long:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		l.number++
		if long {
			return nil, errLongLine
		}
		return bytes.TrimRight(l.buf, "\r\n"), nil
	}
}

// eventMaker makes events of lines.
type eventMaker struct {
	// attributes are set on every event; they replace its own.
	attributes []frame.Attribute
	// keyAttr, where not empty, names what becomes the partition key: an
	// attribute of the event, else a member of its JSON data.
	keyAttr string
}

// event makes an event of one line: a CloudEvent in JSON, or any other JSON,
// which becomes the data of an event. It keeps nothing of text.
func (m *eventMaker) event(text []byte) (frame.Frame, error) {
	f, err := frame.FromCloudEventJSON(text)
	if errors.Is(err, frame.ErrNotCloudEvent) {
		f, err = wrap(text)
	}
	if err != nil {
		return frame.Frame{}, err
	}
	for _, attr := range m.attributes {
		f.Set(attr.Name, attr.Value)
	}
	return f, m.setKey(&f)
}

// wrap makes JSON the data of an event.
func wrap(text []byte) (frame.Frame, error) {
	var any json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		return frame.Frame{}, fmt.Errorf("no JSON: %w", err)
	}
	f := frame.Frame{Type: frame.Event, Data: bytes.Clone(bytes.TrimSpace(text))}
	f.Set(frame.AttrType, wrappedType)
	f.Set(frame.AttrDataContentType, "application/json")
	return f, nil
}

// setKey sets the partition key. An event without the wanted one is refused:
// published without a key it would silently lose its order.
func (m *eventMaker) setKey(f *frame.Frame) error {
	if m.keyAttr == "" {
		return nil
	}
	key, ok := f.Get(m.keyAttr)
	if !ok {
		key = dataMember(f.Data, m.keyAttr)
	}
	if key == "" {
		return fmt.Errorf("it has no %q to take the key from, neither as an attribute nor in its data", m.keyAttr)
	}
	f.Set(frame.AttrPartitionKey, key)
	return nil
}

// dataMember returns a string, number or boolean of a JSON object as text, or "".
func dataMember(data []byte, name string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return "" // no JSON object, so it has no members
	}
	value := members[name]
	if len(value) == 0 || strings.ContainsRune("{[n", rune(value[0])) {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// parseAttributes reads the NAME=VALUE of --attr.
func parseAttributes(list []string) ([]frame.Attribute, error) {
	var attributes []frame.Attribute
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--attr %q is no NAME=VALUE", text)}
		}
		attributes = append(attributes, frame.Attribute{Name: name, Value: value})
	}
	return attributes, nil
}

package frame_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ackmesh/ackmesh/frame"
)

// Errors say what, where, the limit, and what to do.
func TestErrorTexts(t *testing.T) {
	texts := map[string]error{
		`frame: not an EventMesh frame`:                        second(frame.Decode([]byte("hello"))),
		`frame: truncated`:                                     second(frame.Decode(nil)),
		`frame: version: unknown frame version: 2; known is 1`: second(frame.Decode([]byte{0xEF, 2})),
		`frame: type: unknown message type: 0; known are 1 STREAM_REQ, 2 STREAM_CHUNK and 3 EVENT`:           second(frame.Decode(header(0, 0, 0))),
		`frame: data: over the limit: 4294967295 bytes, at most 8388608`:                                     second(frame.Decode(header(3, 0, 0xFFFFFFFF))),
		`frame: attributes: over the limit: 65535, at most 64`:                                               second(frame.Decode(header(3, 65535, 0))),
		`frame: trailing bytes: 1 bytes`:                                                                     second(frame.Decode(append(header(3, 0, 0), 0))),
		`frame: attribute value "id": over the limit: 4097 bytes, at most 4096`:                              second(frame.Decode(cat(header(3, 1, 0), rawAttr("id", 4097, "")))),
		`frame: attribute name "my-ext": not a legal CloudEvents name; use only a-z and 0-9`:                 publishError(wire(nil).attr("my-ext", "v")),
		`frame: attribute name "": not a legal CloudEvents name; the name is empty`:                          publishError(wire(nil).attr("", "v")),
		`frame: attribute name "empopck": set only by the mesh; leave it out`:                                publishError(wire(nil).attr("empopck", "v")),
		`frame: attribute value "emttl": not a legal value; give whole milliseconds from 0 to 9223372036854`: publishError(wire(nil).attr("emttl", "1s")),
		`frame: data_base64: malformed CloudEvents JSON; it is not base64 with padding`:                      second(frame.FromCloudEventJSON([]byte(`{"specversion":"1.0","data_base64":"?"}`))),
	}
	for want, err := range texts {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func publishError(w wire) error {
	_, _, err := frame.AppendFromProto(nil, w, frame.PublishOptions{})
	return err
}

func TestErrorsAreShortAndUTF8(t *testing.T) {
	for _, name := range []string{strings.Repeat("\xff", 100), strings.Repeat("\xff", 5000), strings.Repeat("é", 5000), strings.Repeat("\x00", 5000)} {
		if text := publishError(wire(nil).attr(name, "v")).Error(); len(text) > 400 || !utf8.ValidString(text) {
			t.Errorf("the error has %d bytes: %q", len(text), text)
		}
	}
	err := publishError(wire(nil).attr(strings.Repeat("é", 5000), "v"))
	var e *frame.Error
	if wrapped := fmt.Errorf("event 3: %w", err); !errors.As(wrapped, &e) || !errors.Is(wrapped, frame.ErrLimit) {
		t.Errorf("%v is no *frame.Error with its kind", wrapped)
	}
}

func TestTypeNames(t *testing.T) {
	want := []string{"unknown", "STREAM_REQ", "STREAM_CHUNK", "EVENT", "unknown"}
	for i, w := range want {
		if got := frame.Type(i).String(); got != w {
			t.Errorf("type %d is called %q, want %q", i, got, w)
		}
	}
}

package frame_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

const minimal = `"specversion":"1.0","id":"1","source":"/s","type":"t"`

func fromJSON(t *testing.T, doc string) frame.Frame {
	t.Helper()
	f, err := frame.FromCloudEventJSON([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return f
}

func toJSON(t *testing.T, f frame.Frame) string {
	t.Helper()
	out, err := frame.AppendJSON([]byte("> "), encode(t, f))
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	doc, ok := strings.CutPrefix(string(out), "> ")
	if !ok || !json.Valid([]byte(doc)) {
		t.Fatalf("%q is no JSON after what was in dst", out)
	}
	return doc
}

func TestJSONBothWays(t *testing.T) {
	for _, c := range []struct{ name, doc, data string }{
		{"no data", `{` + minimal + `}`, ""},
		{"object", `{` + minimal + `,"datacontenttype":"application/json","data":{"b": 1.50,  "a":[1,2]}}`, `{"b": 1.50,  "a":[1,2]}`},
		{"string as JSON", `{` + minimal + `,"datacontenttype":"application/json","data":"x\n"}`, `"x\n"`},
		{"explicit null", `{` + minimal + `,"datacontenttype":"application/json; charset=utf-8","data":null}`, `null`},
		{"suffix", `{` + minimal + `,"datacontenttype":"application/vnd.x+JSON","data":12345678901234567890}`, `12345678901234567890`},
		{"text", `{` + minimal + `,"datacontenttype":"text/plain","data":"a \"b\" \\ \n\r\t\u0001 é 😀"}`, "a \"b\" \\ \n\r\t\x01 é 😀"},
		{"xml", `{` + minimal + `,"datacontenttype":"application/xml","data":"<much wow=\"xml\"/>"}`, `<much wow="xml"/>`},
		{"binary", `{` + minimal + `,"datacontenttype":"application/octet-stream","data_base64":"AP/vAQ=="}`, "\x00\xff\xef\x01"},
		{"binary, no type", `{` + minimal + `,"data_base64":"AP/vAQ=="}`, "\x00\xff\xef\x01"},
		{"binary that is JSON but for spaces", `{` + minimal + `,"datacontenttype":"application/json","data_base64":"e30K"}`, "{}\n"},
		{"JSON but for the encoding", `{` + minimal + `,"datacontenttype":"application/json","data_base64":"Iv8i"}`, "\"\xff\""},
		{"text but for the encoding", `{` + minimal + `,"datacontenttype":"text/plain","data_base64":"/w=="}`, "\xff"},
		{"time with 9 digits", `{` + minimal + `,"time":"2026-01-02T03:04:05.123456789+01:00"}`, ""},
		{"old version", `{"specversion":"0.3","id":"1","source":"/s","type":"t"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fromJSON(t, c.doc)
			if string(f.Data) != c.data {
				t.Errorf("data is %q, want %q", f.Data, c.data)
			}
			if got := toJSON(t, f); got != c.doc {
				t.Errorf("back in JSON:\n%s, want\n%s", got, c.doc)
			}
		})
	}
}

func TestJSONAttributes(t *testing.T) {
	f := fromJSON(t, ` { `+minimal+`, "n":1, "big":12345678901234567890, "neg":-7, "zero":-0, "half":0.50, "exp":1E3,
		"huge":1e300, "yes":true, "no":false, "unset":null, "esc":"\u00e9\ud83d\ude00", "s":"1.0" } `)
	want := map[string]string{
		"id": "1", "source": "/s", "type": "t", "n": "1", "big": "12345678901234567890", "neg": "-7", "zero": "0",
		"half": "0.5", "exp": "1000", "huge": "1e+300", "yes": "true", "no": "false", "esc": "é😀", "s": "1.0",
	}
	if got := plain(f, true).attrs; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJSONDataWithoutTypeIsJSON(t *testing.T) {
	f := fromJSON(t, `{`+minimal+`,"data":{"a":1}}`)
	if got, _ := f.Get("datacontenttype"); got != "application/json" || string(f.Data) != `{"a":1}` {
		t.Errorf("datacontenttype %q, data %s", got, f.Data)
	}
	if f := fromJSON(t, `{`+minimal+`,"datacontenttype":"text/plain","data":null}`); f.Data != nil {
		t.Errorf("null text became %q", f.Data)
	}
	if f := fromJSON(t, `{`+minimal+`,"datacontenttype":"text/plain","data":5,"data_base64":null}`); string(f.Data) != "5" {
		t.Errorf("a number as text became %q", f.Data)
	}
}

func TestJSONFullEventKeepsItsData(t *testing.T) {
	var members strings.Builder
	for i := range frame.MaxAttributes - 3 {
		fmt.Fprintf(&members, `,"a%d":"v"`, i)
	}
	doc := `{` + minimal + members.String() + `,"data":1}`
	f := fromJSON(t, doc)
	if _, typed := f.Get("datacontenttype"); typed || len(f.Attributes) != frame.MaxAttributes || string(f.Data) != "1" {
		t.Errorf("%d attributes, data %q", len(f.Attributes), f.Data)
	}
	if r := frame.FromRaw([]byte(doc), nil, nil); r.LeftOut != 0 || len(encode(t, r.Frame)) == 0 {
		t.Errorf("read from a log: %d left out", r.LeftOut)
	}
}

func TestJSONRefused(t *testing.T) {
	member := func(m string) string { return `{` + minimal + `,` + m + `}` }
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`"a%d":"v"`, i)
	}
	big := base64.StdEncoding.EncodeToString(make([]byte, frame.MaxDataSize+1))
	for _, c := range []struct {
		doc  string
		kind error
	}{
		{``, frame.ErrNotCloudEvent},
		{`5`, frame.ErrNotCloudEvent},
		{`[{` + minimal + `}]`, frame.ErrNotCloudEvent},
		{`{"id":"1"}`, frame.ErrNotCloudEvent},
		{`{"specversion":null}`, frame.ErrNotCloudEvent},
		{`{` + minimal + `} {}`, frame.ErrNotCloudEvent},
		{`{` + minimal, frame.ErrNotCloudEvent},
		{member(`"a":"` + "\xff" + `"`), frame.ErrNotCloudEvent},
		{member(`"my-ext":"v"`), frame.ErrName},
		{member(`"MyExt":"v"`), frame.ErrName},
		{member(`"event_source":"v"`), frame.ErrName},
		{member(`"":"v"`), frame.ErrName},
		{member(`"` + strings.Repeat("n", 257) + `":"v"`), frame.ErrLimit},
		{member(`"a":"` + strings.Repeat("v", 4097) + `"`), frame.ErrLimit},
		{member(strings.Join(many, ",")), frame.ErrLimit},
		{member(`"data":1,"data":2`), frame.ErrDuplicate},
		{member(`"a":1,"a":1`), frame.ErrDuplicate},
		{member(`"data":1,"data_base64":"AA=="`), frame.ErrJSON},
		{member(`"data_base64":"?"`), frame.ErrJSON},
		{member(`"data_base64":5`), frame.ErrJSON},
		{member(`"data_base64":"` + big + `"`), frame.ErrLimit},
		{member(`"a":{}`), frame.ErrJSON},
		{member(`"a":[]`), frame.ErrJSON},
		{member(`"a":1e999`), frame.ErrValue},
		{member(`"a":"\ud800"`), frame.ErrUTF8},
		{member(`"datacontenttype":"text/plain","data":"\udc00"`), frame.ErrUTF8},
		{`{"specversion":"1.0","id":5}`, frame.ErrJSON},
		{`{"specversion":1.0}`, frame.ErrJSON},
		{member(`"time":5`), frame.ErrJSON},
	} {
		f, err := frame.FromCloudEventJSON([]byte(c.doc))
		if !errors.Is(err, c.kind) || f.Type != 0 {
			t.Errorf("%.80s: got %+v, %v; want %v", c.doc, f.Attributes, err, c.kind)
		}
	}
}

func TestJSONRefusesWhatIsNoCloudEvent(t *testing.T) {
	for _, c := range []struct {
		kind  error
		frame frame.Frame
	}{
		{frame.ErrType, frame.Frame{Type: frame.StreamChunk}},
		{frame.ErrName, frame.Frame{Type: frame.Event, Attributes: []frame.Attribute{{Name: "data", Value: "x"}}}},
		{frame.ErrName, frame.Frame{Type: frame.Event, Attributes: []frame.Attribute{{Name: "My-Ext", Value: "x"}}}},
	} {
		out, err := frame.AppendJSON([]byte("kept"), encode(t, c.frame))
		if !errors.Is(err, c.kind) || string(out) != "kept" {
			t.Errorf("%+v: got %q, %v; want %v", c.frame, out, err, c.kind)
		}
	}
	if _, err := frame.AppendJSON(nil, []byte{0xEF}); !errors.Is(err, frame.ErrTruncated) {
		t.Errorf("of a cut frame: %v", err)
	}
}

// What encoding/json reads from AppendJSON is what the frame has.
func TestAppendJSONEqualsPlainWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyEvent().Draw(rt, "event")
		doc := toJSON(t, f)
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(doc), &got); err != nil {
			rt.Fatal(err)
		}
		for _, a := range f.Attributes {
			var value string
			if err := json.Unmarshal(got[a.Name], &value); err != nil || value != a.Value {
				rt.Fatalf("%s is %s, %v; want %q", a.Name, got[a.Name], err, a.Value)
			}
		}
	})
}

// Through JSON and back nothing changes, but that JSON data gets its type.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyEvent().Draw(rt, "event")
		doc := toJSON(t, f)
		back, err := frame.FromCloudEventJSON([]byte(doc))
		if err != nil {
			rt.Fatalf("%s: %v", doc, err)
		}
		if _, typed := f.Get("datacontenttype"); !typed && strings.Contains(doc, `,"data":`) {
			f.Set("datacontenttype", "application/json")
		}
		if got, want := plain(back, true), plain(f, true); !got.equal(want) {
			rt.Fatalf("%s:\ngot %+v, want %+v", doc, got, want)
		}
	})
}

// anyEvent draws frames that are legal CloudEvents.
func anyEvent() *rapid.Generator[frame.Frame] {
	return rapid.Custom(func(t *rapid.T) frame.Frame {
		f := frame.Frame{Type: frame.Event}
		for range rapid.IntRange(0, 6).Draw(t, "attributes") {
			f.Set(rapid.StringMatching(`[e-z0-9]{1,20}`).Draw(t, "name"), anyValue().Draw(t, "value"))
		}
		types := []string{"", "application/json", "text/json", "x/y+json;a=b", "text/plain", "TEXT/csv", "application/xml", "image/svg+xml", "image/png", "json"}
		if ct := rapid.SampledFrom(types).Draw(t, "type"); ct != "" {
			f.Set("datacontenttype", ct)
		}
		f.Data = rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 60),
			rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.String().Draw(t, "text")) }),
			rapid.SampledFrom([][]byte{[]byte(`{"a":1}`), []byte("{\n}"), []byte(" 1"), []byte(`"\ud800"`), []byte("null"), []byte("[1]\n")}),
		).Draw(t, "data")
		return f
	})
}

package frame_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

func headers(pairs ...string) []frame.Header {
	var hs []frame.Header
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, frame.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func TestFromRaw(t *testing.T) {
	aFrame := string(encode(t, eightAttributes()))
	for _, c := range []struct {
		name    string
		body    string
		headers []frame.Header
		key     string
		form    frame.Form
		data    string
		attrs   map[string]string
		leftOut int
	}{
		{"plain value", "hello", nil, "", frame.FormBytes, "hello", nil, 0},
		{"tombstone", "", nil, "k", frame.FormBytes, "", map[string]string{"partitionkey": "k"}, 0},
		{"broken frame", aFrame[:20], nil, "", frame.FormBytes, aFrame[:20], nil, 0},
		{
			"JSON, no event", `{"a":1}`, headers("content-type", "application/json"), "", frame.FormBytes, `{"a":1}`,
			map[string]string{"datacontenttype": "application/json"},
			0,
		},
		{
			"headers and key", "x", headers("h", "1", "My-Header", "2", "ce_id", "3"), "k", frame.FormBytes, "x",
			map[string]string{"h": "1", "My-Header": "2", "ce_id": "3", "partitionkey": "k"},
			0,
		},
		{
			"structured", `{` + minimal + `,"n":1,"data":[1]}`, nil, "k", frame.FormJSON, "[1]",
			map[string]string{"id": "1", "source": "/s", "type": "t", "n": "1", "datacontenttype": "application/json", "partitionkey": "k"},
			0,
		},
		{
			"structured, as the binding says",
			`{` + minimal + `,"data":[1]}`, headers("Content-Type", "Application/CloudEvents+json; charset=UTF-8", "ce_id", "1", "ce_specversion", "1.0"), "",
			frame.FormJSON, "[1]",
			map[string]string{"id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"},
			0,
		},
		{
			"structured, key and attribute differ", `{` + minimal + `,"partitionkey":"p"}`, nil, "k", frame.FormJSON, "",
			map[string]string{"id": "1", "source": "/s", "type": "t", "partitionkey": "p"},
			1,
		},
		{
			"structured, odd attributes", `{` + minimal + `,"My-Ext":{"a": 1},"x":"\ud800","id":"2"}`, nil, "", frame.FormJSON, "",
			map[string]string{"id": "1", "source": "/s", "type": "t", "My-Ext": `{"a": 1}`},
			2,
		},
		{
			"structured, both datas", `{` + minimal + `,"data":1,"data_base64":"aGk="}`, nil, "", frame.FormJSON, "hi",
			map[string]string{"id": "1", "source": "/s", "type": "t"},
			1,
		},
		{"structured, unreadable data", `{` + minimal + `,"data_base64":"?"}`, nil, "", frame.FormBytes, `{` + minimal + `,"data_base64":"?"}`, nil, 0},
		{
			"binary", "\x00\xff", headers("ce_specversion", "1.0", "ce_id", "1", "ce_type", "t", "content-type", "application/avro", "trace", "x"), "mykey", frame.FormBinary, "\x00\xff",
			map[string]string{"id": "1", "type": "t", "datacontenttype": "application/avro", "trace": "x", "partitionkey": "mykey"},
			0,
		},
		{
			"binary, an event inside", `{` + minimal + `}`, headers("ce_specversion", "1.0", "ce_id", "9"), "", frame.FormBinary, `{` + minimal + `}`,
			map[string]string{"id": "9"},
			0,
		},
		{
			"binary, header of the same name", "", headers("id", "plain", "ce_specversion", "1.0", "ce_id", "event"), "", frame.FormBinary, "",
			map[string]string{"id": "event"},
			1,
		},
		{"binary, old version", "", headers("ce_specversion", "0.3"), "", frame.FormBinary, "", map[string]string{"specversion": "0.3"}, 0},
		{
			"unreadable event format", "avro", headers("content-type", "application/cloudevents+avro"), "", frame.FormBytes, "avro",
			map[string]string{"datacontenttype": "application/cloudevents+avro"},
			0,
		},
		{
			"what does not fit", "x", headers("\xff", "1", "a", "\xff", "b", strings.Repeat("v", 4097), strings.Repeat("n", 257), "1", "", "1", "ok", "1", "ok", "2", "ok", "1"),
			"\xff", frame.FormBytes, "x",
			map[string]string{"ok": "1"},
			7,
		},
		{"foreign reserved names stay", "x", headers("emdlqid", "1"), "", frame.FormBytes, "x", map[string]string{"emdlqid": "1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := frame.FromRaw([]byte(c.body), c.headers, []byte(c.key))
			encode(t, r.Frame)
			got := plain(r.Frame, true)
			if c.attrs == nil {
				c.attrs = map[string]string{}
			}
			if r.Form != c.form || string(got.data) != c.data || r.LeftOut != c.leftOut || r.DataLeftOut != 0 || !reflect.DeepEqual(got.attrs, c.attrs) {
				t.Errorf("got %v %+v, %d left out; want %v %q %v, %d left out", r.Form, got, r.LeftOut, c.form, c.data, c.attrs, c.leftOut)
			}
		})
	}
}

func TestFromRawOfAFrame(t *testing.T) {
	want := eightAttributes()
	r := frame.FromRaw(encode(t, want), headers("h", "1"), []byte("k"))
	if r.Form != frame.FormFrame || !reflect.DeepEqual(r.Frame, want) {
		t.Errorf("got %+v", r)
	}
}

func TestFromRawTooMuch(t *testing.T) {
	var hs []frame.Header
	for i := range 100 {
		hs = append(hs, frame.Header{Name: fmt.Sprintf("h%d", i), Value: []byte("v")})
	}
	r := frame.FromRaw(make([]byte, frame.MaxDataSize+1), hs, []byte("k"))
	encode(t, r.Frame)
	if len(r.Frame.Attributes) != 64 || r.LeftOut != 37 || r.Frame.Data != nil || r.DataLeftOut != frame.MaxDataSize+1 {
		t.Errorf("%d attributes, %d left out, %d bytes of data, %d left out", len(r.Frame.Attributes), r.LeftOut, len(r.Frame.Data), r.DataLeftOut)
	}
	r = frame.FromRaw([]byte(`{`+minimal+`,"data":"`+strings.Repeat("d", frame.MaxDataSize)+`"}`), nil, nil)
	encode(t, r.Frame)
	if r.Form != frame.FormJSON || r.DataLeftOut != frame.MaxDataSize+2 || len(r.Frame.Attributes) != 4 {
		t.Errorf("structured: %v, %d bytes left out, %v", r.Form, r.DataLeftOut, r.Frame.Attributes)
	}
	r = frame.FromRaw([]byte(`{`+minimal+`,"data_base64":"`+strings.Repeat("AAAA", frame.MaxDataSize/3+2)+`"}`), nil, nil)
	encode(t, r.Frame)
	if r.Form != frame.FormJSON || r.DataLeftOut <= frame.MaxDataSize {
		t.Errorf("structured, base64: %v, %d bytes left out", r.Form, r.DataLeftOut)
	}
}

// Whatever stands in a log becomes a frame that can be encoded, and what is
// missing from it is counted.
func TestFromRawAlwaysGivesAFrame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "body")
		var hs []frame.Header
		for range rapid.IntRange(0, 80).Draw(rt, "headers") {
			name := string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "name"))
			hs = append(hs, frame.Header{Name: name, Value: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "value")})
		}
		r := frame.FromRaw(body, hs, rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "key"))
		if _, err := frame.Append(nil, &r.Frame); err != nil {
			rt.Fatalf("%+v: %v", r, err)
		}
		if r.Form == frame.FormBytes && string(r.Frame.Data) != string(body) {
			rt.Fatalf("data is %x, want the body %x", r.Frame.Data, body)
		}
		for _, h := range hs {
			if v, ok := r.Frame.Get(h.Name); r.LeftOut == 0 && h.Name != "content-type" && (!ok || v != string(h.Value)) {
				rt.Fatalf("header %q=%q is %q, %v, and nothing counted", h.Name, h.Value, v, ok)
			}
		}
	})
}

func TestFormNames(t *testing.T) {
	want := []string{"unknown", "frame", "cloudevents-json", "cloudevents-binary", "bytes", "unknown"}
	for i, w := range want {
		if got := frame.Form(i).String(); got != w {
			t.Errorf("form %d is called %q, want %q", i, got, w)
		}
	}
}

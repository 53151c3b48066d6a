package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"one without an end", "a", []string{"1 a"}},
		{"ends of both kinds", "a\r\nb\n", []string{"1 a", "2 b"}},
		{"empty lines count", "\n\nc", []string{"1 ", "2 ", "3 c"}},
		{"too long", "a\n" + long + "\nc\n", []string{"1 a", "2 longer than 16 MiB", "3 c"}},
		{"too long at the end", long, []string{"1 longer than 16 MiB"}},
		{"as long as allowed", long[:maxLine-1] + "\nb", []string{"1 " + long[:maxLine-1], "2 b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readAll(t, newLineReader(strings.NewReader(tt.in)))
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %.200v\nwant %.200v", got, tt.want)
			}
		})
	}
}

func readAll(t *testing.T, l *lineReader) []string {
	t.Helper()
	var got []string
	for {
		text, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			return got
		case errors.Is(err, errLongLine):
			got = append(got, fmt.Sprint(l.number, " ", err))
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, fmt.Sprint(l.number, " ", string(text)))
		}
	}
}

func TestLineReaderFails(t *testing.T) {
	broken := errors.New("broken pipe")
	l := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if text, err := l.next(); err != nil || string(text) != "a" {
		t.Fatalf("first line: %q, %v", text, err)
	}
	if text, err := l.next(); !errors.Is(err, broken) {
		t.Fatalf("half a line was given out as whole: %q, %v", text, err)
	}
}

// TestLineReaderSplits compares with strings.Split, in reads of any size.
func TestLineReaderSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab\n]{0,40}`).Draw(t, "text")
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		l := newLineReader(iotest.OneByteReader(strings.NewReader(text)))
		for i, line := range want {
			got, err := l.next()
			if err != nil || string(got) != line || l.number != int64(i+1) {
				t.Fatalf("line %d is %q, %v; want %q", l.number, got, err, line)
			}
		}
		if _, err := l.next(); !errors.Is(err, io.EOF) || l.size != int64(len(text)) {
			t.Fatalf("at the end: %v after %d of %d bytes", err, l.size, len(text))
		}
	})
}

func TestEventMaker(t *testing.T) {
	attrs := func(list ...string) []frame.Attribute {
		parsed, err := parseAttributes(list)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	const ce = `{"specversion":"1.0","id":"7","source":"/s","type":"t","region":"eu","data":{"n":1}}`
	tests := []struct {
		name, line string
		maker      eventMaker
		want       string // attributes with ; behind each, then the data; or the error after "!"
	}{
		{"a CloudEvent", ce, eventMaker{}, `id=7;source=/s;type=t;region=eu;datacontenttype=application/json;{"n":1}`},
		{"an object", ` {"n": 1} `, eventMaker{}, `type=io.ackmesh.json;datacontenttype=application/json;{"n": 1}`},
		{"a number", `5`, eventMaker{}, `type=io.ackmesh.json;datacontenttype=application/json;5`},
		{"attributes", `5`, eventMaker{attributes: attrs("type=mine", "a=b=c")}, `type=mine;datacontenttype=application/json;a=b=c;5`},
		{"attributes replace", ce, eventMaker{attributes: attrs("id=8")}, `id=8;source=/s;type=t;region=eu;datacontenttype=application/json;{"n":1}`},
		{"key of an attribute", ce, eventMaker{keyAttr: "region"}, `id=7;source=/s;type=t;region=eu;datacontenttype=application/json;partitionkey=eu;{"n":1}`},
		{"key of the data", `{"o":"LAX"}`, eventMaker{keyAttr: "o"}, `type=io.ackmesh.json;datacontenttype=application/json;partitionkey=LAX;{"o":"LAX"}`},
		{"key of a number", `{"o":12}`, eventMaker{keyAttr: "o"}, `type=io.ackmesh.json;datacontenttype=application/json;partitionkey=12;{"o":12}`},
		{"key missing", `{"p":1}`, eventMaker{keyAttr: "o"}, `!it has no "o" to take the key from`},
		{"key null", `{"o":null}`, eventMaker{keyAttr: "o"}, `!it has no "o"`},
		{"key empty", `{"o":""}`, eventMaker{keyAttr: "o"}, `!it has no "o"`},
		{"key an object", `{"o":{}}`, eventMaker{keyAttr: "o"}, `!it has no "o"`},
		{"data an array", `[1]`, eventMaker{keyAttr: "o"}, `!it has no "o"`},
		{"no JSON", `{"a":`, eventMaker{}, `!no JSON: `},
		{"no JSON at all", `hello`, eventMaker{}, `!no JSON: `},
		{"two values", `1 2`, eventMaker{}, `!no JSON: `},
		{"a broken CloudEvent", `{"specversion":"1.0","Bad Name":"x"}`, eventMaker{}, `!`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := tt.maker.event([]byte(tt.line))
			if message, failing := strings.CutPrefix(tt.want, "!"); failing {
				if err == nil || !strings.Contains(err.Error(), message) {
					t.Fatalf("error %v, want %q", err, message)
				}
				return
			}
			var got strings.Builder
			for _, a := range f.Attributes {
				got.WriteString(a.Name + "=" + a.Value + ";")
			}
			got.Write(f.Data)
			if err != nil || got.String() != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got.String(), err, tt.want)
			}
		})
	}
}

func TestParseAttributesErrors(t *testing.T) {
	for _, text := range []string{"", "a", "=b"} {
		if got, err := parseAttributes([]string{text}); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzEventMaker makes events of any line: what is no event is an error, never
// a panic, and what is one can be encoded.
func FuzzEventMaker(f *testing.F) {
	for _, seed := range []string{"", "5", `{"o":"LAX"}`, `{"specversion":"1.0","id":"1","data_base64":"aGk="}`, "\xff", `"`, `{"o":1e999}`} {
		f.Add([]byte(seed), "o")
	}
	f.Fuzz(func(t *testing.T, line []byte, key string) {
		m := eventMaker{keyAttr: key}
		event, err := m.event(line)
		if err == nil && key != "" {
			if got, _ := event.Get(frame.AttrPartitionKey); got == "" {
				t.Error("published without its key")
			}
		}
	})
}

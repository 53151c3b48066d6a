package frame_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

func TestViewEqualsDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFrame().Draw(t, "frame")
		b, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		v, err := frame.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if v.Type() != f.Type || v.Flags() != f.Flags || v.Seq() != f.Seq || v.Count() != len(f.Attributes) || !bytes.Equal(v.Data(), f.Data) {
			t.Fatalf("view differs from %+v", f)
		}
		i := 0
		for name, value := range v.Attributes() {
			if a := f.Attributes[i]; string(name) != a.Name || string(value) != a.Value {
				t.Fatalf("attribute %d is %q=%q, want %+v", i, name, value, a)
			}
			i++
		}
		for _, a := range f.Attributes {
			if got, ok := v.Attr(a.Name); !ok || string(got) != a.Value {
				t.Fatalf("Attr(%q) is %q, %v", a.Name, got, ok)
			}
		}
		if _, ok := v.Attr("no such name"); ok {
			t.Fatal("found an attribute that is not there")
		}
	})
}

func TestViewAttributesStopsWhenAsked(t *testing.T) {
	v := frame.View(encode(t, eightAttributes()))
	n := 0
	for range v.Attributes() {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Fatalf("went over %d attributes, want 3", n)
	}
}

// almostFrame draws bytes that are likely to get deep into the code.
func almostFrame() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		f := anyFrame().Draw(t, "frame")
		b, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		return b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
	})
}

func TestViewOfGarbageDoesNotPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		useAll(almostFrame().Draw(t, "bytes"))
	})
}

// useAll calls everything that takes stored bytes, whatever they are.
func useAll(b []byte) {
	v := frame.View(b)
	v.Type()
	v.Flags()
	v.Seq()
	v.Count()
	v.HasOwn()
	v.Data()
	v.Attr("id")
	v.Frame()
	for range v.Attributes() {
	}
	frame.ProtoSize(b, frame.ProtoOptions{})
	if _, err := frame.AppendProto(nil, b, frame.ProtoOptions{}); err != nil {
		_ = err.Error()
	}
	if _, err := frame.AppendJSON(nil, b); err != nil {
		_ = err.Error()
	}
	if _, _, err := frame.Restamp(nil, b, frame.RestampOptions{}); err != nil {
		_ = err.Error()
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	stored := encode(t, eightAttributes())
	n := testing.AllocsPerRun(100, func() {
		v, err := frame.Parse(stored)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.Attr("traceparent"); !ok || len(v.Data()) != 1024 {
			t.Fatal("wrong view")
		}
		for name := range v.Attributes() {
			if frame.Reserved(name) {
				t.Fatal("reserved")
			}
		}
	})
	if n != 0 {
		t.Errorf("Parse and reading allocate %v times, want 0", n)
	}
}

func TestDecodedDataCannotGrowIntoItsNeighbours(t *testing.T) {
	b := append(encode(t, frame.Frame{Type: frame.Event, Data: []byte("hi")}), "next"...)
	n := len(b) - len("next")
	f, err := frame.Decode(b[:n])
	if err != nil {
		t.Fatal(err)
	}
	_ = append(f.Data, "XXXX"...)
	if string(b[n:]) != "next" {
		t.Fatalf("appending to the data wrote over what follows: %q", b[n:])
	}
}

func TestFrameGetSetDelete(t *testing.T) {
	var f frame.Frame
	f.Set("a", "1")
	f.Set("b", "2")
	f.Set("a", "3")
	if got, ok := f.Get("a"); !ok || got != "3" || len(f.Attributes) != 2 {
		t.Errorf("a is %q, %v of %d attributes", got, ok, len(f.Attributes))
	}
	if !f.Delete("a") || f.Delete("a") || len(f.Attributes) != 1 {
		t.Errorf("after deleting a: %+v", f.Attributes)
	}
	if _, ok := f.Get("a"); ok {
		t.Error("a is still there")
	}
}

func TestHasOwn(t *testing.T) {
	for name, want := range map[string]bool{"emttl": true, "em": true, "emdlqid": true, "e": false, "": false, "time": false, "xem": false, "Em": false} {
		for _, names := range [][]string{{name}, {"id", name}, {name, "type"}} {
			f := frame.Frame{Type: frame.Event, Data: []byte("em")}
			for _, n := range names {
				f.Attributes = append(f.Attributes, frame.Attribute{Name: n, Value: "em"})
			}
			b, err := frame.Append(nil, &f)
			if err != nil {
				t.Fatal(err)
			}
			if got := frame.View(b).HasOwn(); got != want {
				t.Errorf("%q: %v, want %v", names, got, want)
			}
			if _, got, err := frame.ParseOwn(b); got != want || err != nil {
				t.Errorf("%q: ParseOwn gives %v, %v, want %v", names, got, err, want)
			}
		}
	}
}

// Text that is no UTF-8 is found wherever it is in the attributes, and bytes
// above 0x7F elsewhere mean nothing.
func TestParseFindsWhatIsNoText(t *testing.T) {
	f := frame.Frame{Type: frame.Event, Data: []byte("\xff\xfe")}
	for range 5 {
		f.Attributes = append(f.Attributes, frame.Attribute{Name: string(rune('a' + len(f.Attributes))), Value: "0123456"})
	}
	b, err := frame.Append(nil, &f)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range b[:len(b)-2] {
		if c < '0' || c > 'e' { // a length, or the head
			continue
		}
		bad := bytes.Clone(b)
		bad[i] = 0xff
		if _, err := frame.Parse(bad); err == nil {
			t.Errorf("byte %d is no text, and the frame is taken", i)
		}
	}
	if _, err := frame.Parse(b); err != nil {
		t.Error(err)
	}
}

package frame_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

// hexBytes reads hex digits with blanks between them.
func hexBytes(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vectors are frames written out by hand.
var vectors = []struct {
	name, hex string
	frame     frame.Frame
}{
	{
		"event with an id", "EF 01 03 00 00000000 0001 00000002 0002 6964 00000001 61 6869",
		frame.Frame{Type: frame.Event, Attributes: []frame.Attribute{{Name: "id", Value: "a"}}, Data: []byte("hi")},
	},
	{
		"empty", "EF 01 01 00 00000000 0000 00000000",
		frame.Frame{Type: frame.StreamReq},
	},
	{
		"last chunk", "EF 01 02 07 0000012C 0000 00000003 000102",
		frame.Frame{Type: frame.StreamChunk, Flags: frame.Done | frame.HasError | frame.HasMeta, Seq: 300, Data: []byte{0, 1, 2}},
	},
	{
		"unnamed flags, empty value, empty name", "EF 01 03 F8 FFFFFFFF 0002 00000000 0001 61 00000000 0000 00000002 C3A9",
		frame.Frame{
			Type: frame.Event, Flags: 0xF8, Seq: 0xFFFFFFFF,
			Attributes: []frame.Attribute{{Name: "a"}, {Value: "é"}},
		},
	},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			want := hexBytes(t, v.hex)
			if got := encode(t, v.frame); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, want\n%x", got, want)
			}
			got, err := frame.Decode(want)
			if err != nil || !reflect.DeepEqual(got, v.frame) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, v.frame)
			}
		})
	}
}

// header is the first 14 bytes of a frame, legal or not.
func header(typ byte, keys uint16, data uint32) []byte {
	b := []byte{0xEF, 1, typ, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, keys)
	return binary.BigEndian.AppendUint32(b, data)
}

func rawAttr(name string, valueLen uint32, value string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, valueLen)
	return append(b, value...)
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// rejects are bytes that are no frame, and what the error says.
func rejects(t testing.TB) []reject {
	good := hexBytes(t, vectors[0].hex)
	return []reject{
		{"nothing", nil, frame.ErrTruncated, "frame"},
		{"13 bytes", good[:13], frame.ErrTruncated, "frame"},
		{"no magic", append([]byte{0xEE}, good[1:]...), frame.ErrMagic, "frame"},
		{"text", []byte("{}"), frame.ErrMagic, "frame"},
		{"version 0", cat([]byte{0xEF, 0}, good[2:]), frame.ErrVersion, "version"},
		{"version 2", cat([]byte{0xEF, 2}, good[2:]), frame.ErrVersion, "version"},
		{"version 2 in 2 bytes", []byte{0xEF, 2}, frame.ErrVersion, "version"},
		{"type 0", header(0, 0, 0), frame.ErrType, "type"},
		{"type 4", header(4, 0, 0), frame.ErrType, "type"},
		{"type 255", header(255, 0, 0), frame.ErrType, "type"},
		{"dataLen 0x7FFFFFFF", header(3, 0, 0x7FFFFFFF), frame.ErrLimit, "data"},
		{"dataLen 0xFFFFFFFF", header(3, 0, 0xFFFFFFFF), frame.ErrLimit, "data"},
		{"dataLen over the rest", header(3, 0, 1), frame.ErrTruncated, "data"},
		{"keyCount 65535", header(3, 65535, 0), frame.ErrLimit, "attributes"},
		{"keyCount 1 without attribute", header(3, 1, 0), frame.ErrTruncated, "attribute name"},
		{"nameLen 65535", cat(header(3, 1, 0), []byte{0xFF, 0xFF, 'a'}), frame.ErrLimit, "attribute name"},
		{"nameLen over the rest", cat(header(3, 1, 0), []byte{0, 9, 'a', 'b', 'c', 'd', 'e'}), frame.ErrTruncated, "attribute name"},
		{"no valLen", cat(header(3, 1, 0), []byte{0, 2, 'a', 'b', 0, 0}), frame.ErrTruncated, "attribute value"},
		{"valLen over the rest", cat(header(3, 1, 0), rawAttr("id", 2, "a")), frame.ErrTruncated, "attribute value"},
		{"valLen 0xFFFFFFFF", cat(header(3, 1, 0), rawAttr("id", 0xFFFFFFFF, "a")), frame.ErrLimit, "attribute value"},
		{"valLen 0x80000000", cat(header(3, 1, 0), rawAttr("id", 0x80000000, "a")), frame.ErrLimit, "attribute value"},
		{"value takes the data", cat(header(3, 1, 2), rawAttr("id", 3, "ahi")), frame.ErrTruncated, "data"},
		{"trailing byte", append(bytes.Clone(good), 0), frame.ErrTrailing, "frame"},
		{"two frames", cat(good, good), frame.ErrTrailing, "frame"},
		{"name not UTF-8", cat(header(3, 1, 0), rawAttr("\xff", 1, "a")), frame.ErrUTF8, "attribute name"},
		{"name a surrogate", cat(header(3, 1, 0), rawAttr("\xed\xa0\x80", 1, "a")), frame.ErrUTF8, "attribute name"},
		{"value not UTF-8", cat(header(3, 1, 0), rawAttr("id", 2, "a\xc3")), frame.ErrUTF8, "attribute value"},
		{"name twice", cat(header(3, 2, 0), rawAttr("id", 1, "a"), rawAttr("id", 1, "b")), frame.ErrDuplicate, "attribute name"},
		{"name twice, apart", cat(header(3, 3, 0), rawAttr("id", 1, "a"), rawAttr("b", 1, "a"), rawAttr("id", 1, "a")), frame.ErrDuplicate, "attribute name"},
		{"empty name twice", cat(header(3, 2, 0), rawAttr("", 0, ""), rawAttr("", 0, "")), frame.ErrDuplicate, "attribute name"},
		{"frame over 16 MiB", cat(good, make([]byte, frame.MaxFrameSize+1-len(good))), frame.ErrLimit, "frame"},
		{"frame of 16 MiB", cat(good, make([]byte, frame.MaxFrameSize-len(good))), frame.ErrTrailing, "frame"},
		{"real value over its limit", cat(header(3, 1, 0), rawAttr("id", 100_000, strings.Repeat("v", 100_000))), frame.ErrLimit, "attribute value"},
	}
}

type reject struct {
	name  string
	bytes []byte
	kind  error
	field string
}

func TestC76_RejectsNameTheirReason(t *testing.T) {
	for _, r := range rejects(t) {
		t.Run(r.name, func(t *testing.T) {
			_, err := frame.Decode(r.bytes)
			var e *frame.Error
			if !errors.Is(err, r.kind) || !errors.As(err, &e) || e.Field != r.field {
				t.Fatalf("got %v, want kind %q in field %q", err, r.kind, r.field)
			}
		})
	}
}

func TestC76_EveryPrefixIsTruncated(t *testing.T) {
	whole := encode(t, eightAttributes())
	for n := range whole {
		if _, err := frame.Decode(whole[:n]); !errors.Is(err, frame.ErrTruncated) {
			t.Fatalf("the first %d of %d bytes: got %v, want %v", n, len(whole), err, frame.ErrTruncated)
		}
	}
}

func TestC76_RejectsAllocateLittle(t *testing.T) {
	const most = 64 << 10
	for _, r := range rejects(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := frame.Decode(r.bytes)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > most {
			t.Errorf("%s: allocated %d bytes, at most %d (error %v)", r.name, got, most, err)
		}
	}
}

// limitCases are frames with one thing exactly at its limit, and one more.
func limitCases() []limitCase {
	attrs := func(n int) frame.Frame {
		f := frame.Frame{Type: frame.Event}
		for i := range n {
			f.Set(fmt.Sprintf("a%d", i), "v")
		}
		return f
	}
	one := func(name, value int) frame.Frame {
		f := frame.Frame{Type: frame.Event}
		f.Set(strings.Repeat("n", name), strings.Repeat("v", value))
		return f
	}
	data := func(n int) frame.Frame { return frame.Frame{Type: frame.Event, Data: make([]byte, n)} }
	return []limitCase{
		{"attributes", attrs(64), attrs(65), "attributes", 65},
		{"name", one(256, 1), one(257, 1), "attribute name", 257},
		{"value", one(1, 4096), one(1, 4097), "attribute value", 4097},
		{"data", data(8 << 20), data(8<<20 + 1), "data", 8<<20 + 1},
	}
}

type limitCase struct {
	name      string
	at, above frame.Frame
	field     string
	got       int64
}

func TestC76_EachLimitExactlyAndOneMore(t *testing.T) {
	for _, c := range limitCases() {
		t.Run(c.name, func(t *testing.T) {
			b := encode(t, c.at)
			got, err := frame.Decode(b)
			if err != nil || !reflect.DeepEqual(got, c.at) {
				t.Errorf("at the limit: decoded differently, or %v", err)
			}
			wantLimit(t, c, second(frame.Append(nil, &c.above)))
			wantLimit(t, c, second(frame.Decode(unchecked(c.above))))
		})
	}
}

func second[T any](_ T, err error) error { return err }

func wantLimit(t *testing.T, c limitCase, err error) {
	t.Helper()
	var e *frame.Error
	if !errors.As(err, &e) || !errors.Is(e.Kind, frame.ErrLimit) || e.Field != c.field || e.Got != c.got || e.Limit != c.got-1 {
		t.Errorf("one over the limit: got %v, want %s over the limit: %d, at most %d", err, c.field, c.got, c.got-1)
	}
}

// unchecked encodes without any check.
func unchecked(f frame.Frame) []byte {
	b := header(byte(f.Type), uint16(len(f.Attributes)), uint32(len(f.Data)))
	for _, a := range f.Attributes {
		b = append(b, rawAttr(a.Name, uint32(len(a.Value)), a.Value)...)
	}
	return append(b, f.Data...)
}

func TestAppendRefusesWhatDecodeRefuses(t *testing.T) {
	for _, f := range []struct {
		kind  error
		frame frame.Frame
	}{
		{frame.ErrType, frame.Frame{}},
		{frame.ErrType, frame.Frame{Type: 4}},
		{frame.ErrUTF8, frame.Frame{Type: 3, Attributes: []frame.Attribute{{Name: "\xff"}}}},
		{frame.ErrUTF8, frame.Frame{Type: 3, Attributes: []frame.Attribute{{Name: "a", Value: "\xff"}}}},
		{frame.ErrDuplicate, frame.Frame{Type: 3, Attributes: []frame.Attribute{{Name: "a"}, {Name: "b"}, {Name: "a"}}}},
	} {
		dst := []byte("kept")
		got, err := frame.Append(dst, &f.frame)
		if !errors.Is(err, f.kind) || string(got) != "kept" {
			t.Errorf("%+v: got %q, %v; want %v and dst unchanged", f.frame, got, err, f.kind)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFrame().Draw(t, "frame")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "prefix")
		b, err := frame.Append(bytes.Clone(prefix), &f)
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		if !bytes.HasPrefix(b, prefix) {
			t.Fatalf("what was in dst has changed")
		}
		got, err := frame.Decode(b[len(prefix):])
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("decoded %+v, %v; want %+v", got, err, f)
		}
	})
}

// anyFrame draws valid frames: any type, names legal for publishers, reserved,
// and foreign.
func anyFrame() *rapid.Generator[frame.Frame] {
	return rapid.Custom(func(t *rapid.T) frame.Frame {
		f := frame.Frame{
			Type:  frame.Type(rapid.IntRange(1, 3).Draw(t, "type")),
			Flags: frame.Flags(rapid.Byte().Draw(t, "flags")),
			Seq:   rapid.Uint32().Draw(t, "seq"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "attributes") {
			f.Set(anyName().Draw(t, "name"), anyValue().Draw(t, "value"))
		}
		if data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"); len(data) > 0 {
			f.Data = data
		}
		return f
	})
}

func anyName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"id", "source", "type", "time", "subject", "emttl", "partitionkey", "datacontenttype", "specversion"}),
		rapid.SampledFrom([]string{"empopck", "emmqoffset", "emmqpartition", "emdlqid", "emdlq", "emtosubscriber", "emdlqwhatever"}),
		rapid.StringMatching(`[a-z0-9]{1,20}`),
		rapid.StringN(0, 40, frame.MaxNameLen),
		rapid.StringOfN(rapid.RuneFrom([]rune("xyz")), 100, 256, 256),
	)
}

func anyValue() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringN(0, 60, frame.MaxValueLen),
		rapid.StringOfN(rapid.RuneFrom([]rune("vw")), 120, 4096, 4096),
	)
}

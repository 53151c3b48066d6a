package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

// The transcoder must say what the plain way says: decode the frame, build the
// message from it, compare with what protobuf reads from the transcoded bytes.
func TestAppendProtoEqualsPlainWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFrame().Draw(t, "frame")
		opt := frame.ProtoOptions{KeepReserved: rapid.Bool().Draw(t, "keep"), Stamps: anyStamps().Draw(t, "stamps")}
		stored, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		prefix := []byte("before")
		out, err := frame.AppendProto(slices.Clone(prefix), stored, opt)
		if err != nil || !bytes.HasPrefix(out, prefix) {
			t.Fatalf("transcoding: %v", err)
		}
		if got, want := frame.ProtoSize(stored, opt), len(out)-len(prefix); got != want {
			t.Fatalf("ProtoSize says %d, AppendProto wrote %d", got, want)
		}
		got, err := unmarshal(out[len(prefix):])
		want := plain(f, opt.KeepReserved)
		for _, s := range opt.Stamps {
			want.attrs[s.Name] = s.Value
		}
		if err != nil || !got.equal(want) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if n := bytes.Count(out, []byte("\x0a\x02id\x12")); n > 1 {
			t.Fatalf("the id is there %d times", n)
		}
	})
}

func anyStamps() *rapid.Generator[[]frame.Attribute] {
	return rapid.Custom(func(t *rapid.T) []frame.Attribute {
		var f frame.Frame
		for range rapid.IntRange(0, 3).Draw(t, "stamps") {
			f.Set(anyName().Draw(t, "stamp"), anyValue().Draw(t, "value"))
		}
		return f.Attributes
	})
}

func TestAppendProtoOfGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := almostFrame().Draw(t, "bytes")
		checkProtoOut(t, b)
	})
}

// checkProtoOut is what holds for AppendProto on any bytes.
func checkProtoOut(t rapid.TB, b []byte) {
	out, err := frame.AppendProto([]byte("kept"), b, frame.ProtoOptions{})
	size := frame.ProtoSize(b, frame.ProtoOptions{})
	f, decodeErr := frame.Decode(b)
	switch {
	case err != nil && (string(out) != "kept" || size != 0 || decodeErr == nil):
		t.Fatalf("error %v, yet %q, size %d; decoding says %v", err, out, size, decodeErr)
	case err == nil && len(out)-len("kept") != size:
		t.Fatalf("ProtoSize says %d, AppendProto wrote %d", size, len(out)-len("kept"))
	case decodeErr == nil:
		got, err := unmarshal(out[len("kept"):])
		if err != nil || !got.equal(plain(f, false)) {
			t.Fatalf("got %+v, %v; want %+v", got, err, plain(f, false))
		}
	}
}

func TestC79_ForeignReservedAttributesAreNotShown(t *testing.T) {
	f := eightAttributes()
	f.Set(frame.AttrPopCK, "foreign")
	f.Set(frame.AttrDLQReason, "foreign")
	f.Set(frame.AttrToSubscriber, "foreign")
	stored := encode(t, f)
	stamps := []frame.Attribute{{Name: frame.AttrPopCK, Value: "ours"}}
	got := transcode(t, stored, frame.ProtoOptions{Stamps: stamps})
	if len(got.attrs) != 9 || got.attrs[frame.AttrPopCK] != "ours" {
		t.Errorf("on an ordinary topic: %v", got.attrs)
	}
	got = transcode(t, stored, frame.ProtoOptions{KeepReserved: true, Stamps: stamps})
	if len(got.attrs) != 11 || got.attrs[frame.AttrPopCK] != "ours" || got.attrs[frame.AttrDLQReason] != "foreign" {
		t.Errorf("on a topic of dead letters: %v", got.attrs)
	}
}

func transcode(t *testing.T, stored []byte, opt frame.ProtoOptions) message {
	t.Helper()
	out, err := frame.AppendProto(nil, stored, opt)
	if err != nil {
		t.Fatal(err)
	}
	m, err := unmarshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFullFrameTakesStamps(t *testing.T) {
	f := limitCases()[0].at
	got := transcode(t, encode(t, f), frame.ProtoOptions{Stamps: []frame.Attribute{{Name: frame.AttrPopCK, Value: "ck"}}})
	if len(got.attrs) != frame.MaxAttributes+1 || got.attrs[frame.AttrPopCK] != "ck" {
		t.Errorf("%d attributes, empopck %q", len(got.attrs), got.attrs[frame.AttrPopCK])
	}
}

func TestTranscodersDoNotAllocate(t *testing.T) {
	f := eightAttributes()
	stored, msg := encode(t, f), []byte(wireOf(f))
	bare := []byte(wire(nil).bytes(5, f.Data))
	exact := make([]byte, 0, frame.ProtoSize(stored, frame.ProtoOptions{}))
	buf := make([]byte, 0, 4096)
	opt := frame.PublishOptions{ID: []byte("i"), Source: []byte("s"), Time: []byte("t"), PartitionKey: []byte("k")}
	once := testing.AllocsPerRun(100, func() {
		if _, err := frame.AppendProto(nil, stored, frame.ProtoOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if once > 2 { // 1, and with the race detector 2: it makes room once
		t.Errorf("AppendProto to nil allocates %v times, at most 2", once)
	}
	for name, run := range map[string]func() error{
		"AppendProto, exact room": func() error { return second(frame.AppendProto(exact, stored, frame.ProtoOptions{})) },
		"AppendFromProto":         func() error { _, _, err := frame.AppendFromProto(buf, msg, opt); return err },
		"AppendFromProto, fill":   func() error { _, _, err := frame.AppendFromProto(buf, bare, opt); return err },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

// published draws messages as publishers may send them.
func published() *rapid.Generator[message] {
	return rapid.Custom(func(t *rapid.T) message {
		m := message{
			typ: int32(rapid.IntRange(0, 3).Draw(t, "type")), flags: uint32(rapid.Byte().Draw(t, "flags")),
			seq: rapid.Uint32().Draw(t, "seq"), attrs: map[string]string{},
			data: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "attributes") {
			name := rapid.OneOf(
				rapid.SampledFrom([]string{"id", "source", "type", "time", "partitionkey", "traceparent"}),
				rapid.StringMatching(`[f-z0-9]{1,20}`),
				rapid.StringMatching(`[f-z0-9]{200,256}`),
			).Draw(t, "name")
			m.attrs[name] = anyValue().Draw(t, "value")
		}
		return m
	})
}

var fills = frame.PublishOptions{ID: []byte("made-id"), Source: []byte("made-source"), Time: []byte("made-time"), PartitionKey: []byte("made-key")}

// filled is what a message becomes: type 0 an event, what is absent or empty of
// four attributes filled in.
func filled(m message) message {
	if m.typ == 0 {
		m.typ = int32(frame.Event)
	}
	for name, value := range map[string][]byte{"id": fills.ID, "source": fills.Source, "time": fills.Time, "partitionkey": fills.PartitionKey} {
		if m.attrs[name] == "" {
			m.attrs[name] = string(value)
		}
	}
	return m
}

func TestAppendFromProtoEqualsPlainWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := published().Draw(rt, "message")
		msg := m.marshal(t)
		prefix := []byte("before")
		out, meta, err := frame.AppendFromProto(slices.Clone(prefix), msg, fills)
		if err != nil || !bytes.HasPrefix(out, prefix) {
			rt.Fatalf("transcoding: %v", err)
		}
		f, err := frame.Decode(out[len(prefix):])
		if err != nil {
			rt.Fatalf("what was made is no frame: %v", err)
		}
		want := filled(m)
		if got := plain(f, true); !got.equal(want) {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
		checkMeta(rt, meta, f)
	})
}

func checkMeta(t rapid.TB, m frame.Meta, f frame.Frame) {
	for name, got := range map[string][]byte{"id": m.ID, "source": m.Source, "partitionkey": m.PartitionKey, "traceparent": m.TraceParent} {
		want, ok := f.Get(name)
		if string(got) != want || ok != (got != nil) {
			t.Fatalf("meta says %s is %q (nil: %v), the frame %q, %v", name, got, got == nil, want, ok)
		}
	}
}

// There and back is the same.
func TestPublishedComesOutAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := filled(published().Draw(rt, "message"))
		stored, _, err := frame.AppendFromProto(nil, m.marshal(t), fills)
		if err != nil {
			rt.Fatal(err)
		}
		out, err := frame.AppendProto(nil, stored, frame.ProtoOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		got, err := unmarshal(out)
		if err != nil || !got.equal(m) {
			rt.Fatalf("got %+v, %v; want %+v", got, err, m)
		}
	})
}

// wantPublishError publishes w and checks kind, field and that nothing was written.
func wantPublishError(t *testing.T, w wire, kind error, text string) {
	t.Helper()
	out, meta, err := frame.AppendFromProto([]byte("kept"), w, fills)
	if !errors.Is(err, kind) || string(out) != "kept" || meta.ID != nil {
		t.Fatalf("got %q, %+v, %v; want %v and dst unchanged", out, meta, err, kind)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("the error says %q, want %q in it", err, text)
	}
}

func TestC78_IllegalNamesAreRefused(t *testing.T) {
	for _, name := range []string{"my-ext", "MyExt", "event_source", "äh", "a b", "a.b", "\x00", "data", "Id"} {
		wantPublishError(t, wire(nil).attr(name, "v"), frame.ErrName, fmt.Sprintf("attribute name %q", name))
	}
	wantPublishError(t, wire(nil).attr("", "v"), frame.ErrName, "the name is empty")
	wantPublishError(t, wire(nil).attr(strings.Repeat("n", 257), "v"), frame.ErrLimit, "257 bytes, at most 256")
	wantPublishError(t, wire(nil).attr("a", strings.Repeat("v", 4097)), frame.ErrLimit, "4097 bytes, at most 4096")
	wantPublishError(t, wire(nil).attr("a", "\xff"), frame.ErrUTF8, `attribute value "a"`)
	wantPublishError(t, wire(nil).attr("\xff", "v"), frame.ErrName, `"\xff"`)
}

func TestC78_LegalComesThroughByteForByte(t *testing.T) {
	f := frame.Frame{Type: frame.Event, Data: []byte{0, 0xFF, 0xEF, 1, '\n'}, Attributes: []frame.Attribute{
		{Name: "id", Value: "a"},
		{Name: "source", Value: "/s"},
		{Name: "type", Value: "t"},
		{Name: "time", Value: "2026-01-02T03:04:05.123456789+01:00"},
		{Name: strings.Repeat("n", 256), Value: "v"},
		{Name: "big", Value: strings.Repeat("é", 2048)},
		{Name: "0", Value: ""},
		{Name: "datax", Value: "\u0000\U0010FFFF"},
	}}
	stored, _, err := frame.AppendFromProto(nil, wireOf(f), frame.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := encode(t, f); !bytes.Equal(stored, want) {
		t.Errorf("stored\n%x, want\n%x", stored, want)
	}
	if got := transcode(t, stored, frame.ProtoOptions{}); !got.equal(plain(f, true)) {
		t.Errorf("a subscriber sees %+v, want %+v", got, f)
	}
}

func TestC79_ReservedAttributesRefused(t *testing.T) {
	for _, name := range reservedNames {
		wantPublishError(t, wire(nil).attr("id", "a").attr(name, "v"), frame.ErrReserved, fmt.Sprintf("%q: set only by the mesh", name))
	}
	for _, name := range []string{"emttl", "emdeliverytime"} {
		w := wire(nil).attr(name, "60000")
		if _, _, err := frame.AppendFromProto(nil, w, fills); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var reservedNames = []string{
	"empopck", "emmqoffset", "emmqpartition", "emtosubscriber", "emdlq", "emdlqid", "emdlqreason", "emdlqtopic",
	"emdlqpartition", "emdlqoffset", "emdlqsubscriber", "emdlqattempts", "emdlqnew",
}

func TestReserved(t *testing.T) {
	for _, name := range reservedNames {
		if !frame.Reserved(name) || !frame.Reserved([]byte(name)) {
			t.Errorf("%s is not reserved", name)
		}
	}
	for _, name := range []string{"", "em", "emttl", "emdeliverytime", "emdl", "empopcx", "empopck1", "emmqoffsex", "xmdlqid", "EMDLQ", "id"} {
		if frame.Reserved(name) || frame.Reserved([]byte(name)) {
			t.Errorf("%s is reserved", name)
		}
	}
}

func TestPublishAttributeCount(t *testing.T) {
	var w wire
	for i := range frame.MaxPublishAttributes {
		w = w.attr(fmt.Sprintf("a%d", i), "v")
	}
	stored, _, err := frame.AppendFromProto(nil, w, fills)
	if err != nil {
		t.Fatal(err)
	}
	if n := frame.View(stored).Count(); n != frame.MaxPublishAttributes+4 {
		t.Errorf("%d attributes after filling in, want %d", n, frame.MaxPublishAttributes+4)
	}
	wantPublishError(t, w.attr("one", "more"), frame.ErrLimit, "attributes: over the limit: 57, at most 56")
}

func TestC77_PublishDataSize(t *testing.T) {
	at := wire(nil).bytes(5, make([]byte, frame.MaxDataSize))
	stored, _, err := frame.AppendFromProto(nil, at, fills)
	if err != nil || len(frame.View(stored).Data()) != frame.MaxDataSize {
		t.Fatalf("at the limit: %v", err)
	}
	above := wire(nil).bytes(5, make([]byte, frame.MaxDataSize+1))
	wantPublishError(t, above, frame.ErrLimit, "data: over the limit: 8388609 bytes, at most 8388608")
}

func TestPublishTypes(t *testing.T) {
	for sent, want := range map[uint64]frame.Type{0: frame.Event, 1: frame.StreamReq, 2: frame.StreamChunk, 3: frame.Event} {
		stored, _, err := frame.AppendFromProto(nil, wire(nil).varint(1, sent), fills)
		if err != nil || frame.View(stored).Type() != want {
			t.Errorf("type %d: %v, %v; want %v", sent, frame.View(stored).Type(), err, want)
		}
	}
	wantPublishError(t, wire(nil).varint(1, 4), frame.ErrType, "4")
	wantPublishError(t, wire(nil).varint(1, 1<<64-1), frame.ErrType, "-1")
	wantPublishError(t, wire(nil).varint(2, 256), frame.ErrLimit, "flags: over the limit: 256, at most 255")
}

func TestPublishOddForms(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  wire
		want map[string]string
	}{
		{"value before name", wire(nil).bytes(4, wire(nil).bytes(2, []byte("v")).bytes(1, []byte("k"))), map[string]string{"k": "v"}},
		{"no value", wire(nil).bytes(4, wire(nil).bytes(1, []byte("k"))), map[string]string{"k": ""}},
		{"value twice", wire(nil).bytes(4, wire(nil).bytes(1, []byte("k")).bytes(2, []byte("v")).bytes(2, []byte("w"))), map[string]string{"k": "w"}},
		{"unknown field in entry", wire(nil).bytes(4, wire(nil).bytes(1, []byte("k")).bytes(2, []byte("v")).varint(3, 1)), map[string]string{"k": "v"}},
		{"another field for the value", wire(nil).bytes(4, wire(nil).bytes(1, []byte("k")).bytes(3, []byte("v"))), map[string]string{"k": ""}},
		{"64 bits of flags", wire(nil).varint(2, 1<<32|5).varint(3, 1<<32|6).varint(1, 1<<32|2).attr("k", "v"), map[string]string{"k": "v"}},
		{"unknown fields", wire(nil).bytes(9, []byte("x")).varint(6, 1).attr("k", "v"), map[string]string{"k": "v"}},
		{"wrong wire type", wire(nil).varint(4, 1).bytes(1, []byte("x")).attr("k", "v"), map[string]string{"k": "v"}},
		{"data first", wire(nil).bytes(5, []byte("d")).attr("k", "v"), map[string]string{"k": "v"}},
		{"data twice", wire(nil).bytes(5, []byte("xx")).bytes(5, []byte("d")).attr("k", "v"), map[string]string{"k": "v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored, _, err := frame.AppendFromProto(nil, c.msg, frame.PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := plain(frame.View(stored).Frame(), true)
			want, err := unmarshal(c.msg)
			if want.typ == 0 {
				want.typ = 3
			}
			if err != nil || !got.equal(want) || got.attrs["k"] != c.want["k"] {
				t.Errorf("got %+v, want %+v, %v", got, want, err)
			}
		})
	}
}

func TestPublishMalformed(t *testing.T) {
	for _, msg := range [][]byte{
		{0x22},
		{0x22, 5, 1},
		{0x2a, 0xff},
		{0x08},
		{0xff},
		{0x00, 0x01},
		{0x0c},
		{0x0b},
		{0x22, 1, 0xff},
		{0x22, 2, 0x0a, 5},
		{0x22, 3, 0x0a, 1, 0x61, 0x12},
		{0x80, 0x80, 0x80, 0x80, 0x10, 0x00},
		wire(nil).bytes(4, append(wire(nil).bytes(1, []byte("k")), 0x12, 9)),
	} {
		wantPublishError(t, msg, frame.ErrProto, "malformed protobuf")
		if _, err := unmarshal(msg); err == nil {
			t.Errorf("%x: protobuf takes it", msg)
		}
	}
	wantPublishError(t, wire(nil).attr("k", "v").attr("k", "v"), frame.ErrDuplicate, `"k": given twice`)
	bad := wire(nil).bytes(1, []byte("k")).bytes(2, []byte("\xff")).bytes(2, []byte("v"))
	wantPublishError(t, wire(nil).bytes(4, bad), frame.ErrUTF8, "not valid UTF-8")
}

func TestPublishFillsIn(t *testing.T) {
	empty := wire(nil).attr("id", "").attr("source", "").attr("time", "").attr("partitionkey", "").attr("subject", "")
	for name, w := range map[string]wire{"absent": nil, "empty": empty} {
		stored, meta, err := frame.AppendFromProto(nil, w, fills)
		if err != nil {
			t.Fatal(err)
		}
		got := plain(frame.View(stored).Frame(), true)
		if got.attrs["id"] != "made-id" || got.attrs["source"] != "made-source" || got.attrs["time"] != "made-time" || got.attrs["partitionkey"] != "made-key" {
			t.Errorf("%s: %v", name, got.attrs)
		}
		if string(meta.ID) != "made-id" || string(meta.PartitionKey) != "made-key" || meta.TraceParent != nil || meta.HasTTL {
			t.Errorf("%s: %+v", name, meta)
		}
	}
	long := frame.PublishOptions{PartitionKey: make([]byte, 4097)}
	if _, _, err := frame.AppendFromProto(nil, nil, long); !errors.Is(err, frame.ErrLimit) {
		t.Errorf("a partition key of 4097 bytes: %v", err)
	}
	if _, _, err := frame.AppendFromProto(nil, nil, frame.PublishOptions{PartitionKey: []byte("\xff")}); !errors.Is(err, frame.ErrUTF8) {
		t.Errorf("a partition key that is not UTF-8: %v", err)
	}
	stored, meta, err := frame.AppendFromProto(nil, nil, frame.PublishOptions{})
	if err != nil || frame.View(stored).Count() != 0 || meta.ID != nil {
		t.Errorf("nothing to fill in: %x, %+v, %v", stored, meta, err)
	}
}

func TestPublishTTL(t *testing.T) {
	for value, want := range map[string]int64{"0": 0, "1500": 1500, "007": 7, "9223372036854": frame.MaxTTL} {
		_, meta, err := frame.AppendFromProto(nil, wire(nil).attr("emttl", value), fills)
		if err != nil || !meta.HasTTL || meta.TTL != want {
			t.Errorf("emttl %q: %+v, %v; want %d", value, meta, err, want)
		}
	}
	for _, value := range []string{"", "-1", "+1", "1.5", "1s", " 1", "9223372036855", "99999999999999999999", "1e3", "٣"} {
		wantPublishError(t, wire(nil).attr("emttl", value), frame.ErrValue, `attribute value "emttl"`)
		if _, ok := frame.ParseTTL(value); ok {
			t.Errorf("ParseTTL takes %q", value)
		}
	}
}

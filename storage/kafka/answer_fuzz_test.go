package kafka

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackmesh/ackmesh/storage"
)

// Any bytes are an answer or an error, and an answer hangs together.
func FuzzReadResult(f *testing.F) {
	for codec := 0; codec <= codecZSTD; codec++ {
		raw, _, _ := twoBatches(f, codec)
		for _, version := range []int16{minFetch, 7, 11, versionTagged, versionByID} {
			f.Add(answerOf(version, raw, []abortion{{1, 2}}, codec == 0), version, int64(11), codec%2 == 0)
		}
	}
	old := append(oldMessage(0, 0, 1, 0, nil, []byte("x")), oldMessage(1, codecGzip, 2, 5, nil, deflate(f, codecGzip, oldMessage(1, 0, 0, 5, nil, nil)))...)
	f.Add(answerOf(4, old, nil, false), int16(4), int64(0), false)
	f.Fuzz(func(t *testing.T, body []byte, version int16, start int64, committed bool) {
		version = max(minFetch, min(version, versionByID))
		res, err := readResult(bytes.NewReader(body), len(body), version, &query{at: asked, start: max(start, 0), committed: committed})
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		c := res.chunk
		size := c.size
		for _, r := range c.list() {
			if r.offset < max(start, 0) {
				t.Fatalf("record %d is below %d", r.offset, start)
			}
			for _, s := range []string{r.key, r.value} {
				if s != "-" {
					size -= int64(len(s))
				}
			}
		}
		if c.size != 0 || c.next < max(start, 0) {
			t.Fatalf("%d bytes are left, it goes on at %d, %d bytes do not belong to it", c.size, c.next, size)
		}
	})
}

// Any bytes are a record or none; what is one, the library reads the same way.
func FuzzRecord(f *testing.F) {
	for _, r := range []kmsg.Record{
		{Length: 1, Key: []byte("k"), Value: []byte("v"), Headers: []kmsg.Header{{Key: "a", Value: []byte("b")}, {Key: "c"}}},
		{TimestampDelta64: -5, OffsetDelta: 1000},
	} {
		f.Add(r.AppendTo(nil)[1:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rec
		times, offsets, ok := r.parse(append([]byte("before"), b...), 6, len(b))
		if !ok {
			return
		}
		var want kmsg.Record
		if err := want.ReadFrom(append([]byte{0}, b...)); err != nil {
			t.Fatalf("the library does not read %x: %v", b, err)
		}
		p := &piece{buf: append([]byte("before"), b...)}
		if times != want.TimestampDelta64 || int32(offsets) != want.OffsetDelta ||
			textOf(p.of(r.key)) != textOf(want.Key) || textOf(p.of(r.value)) != textOf(want.Value) {
			t.Fatalf("%x is read as %+v", b, r)
		}
		list := p.headersOf(&r)
		if len(list) != len(want.Headers) {
			t.Fatalf("%d headers, want %d", len(list), len(want.Headers))
		}
		for i, h := range want.Headers {
			if list[i].Name != h.Key || !bytes.Equal(list[i].Value, h.Value) {
				t.Fatalf("header %d is %q=%q", i, list[i].Name, list[i].Value)
			}
		}
	})
}

// Any bytes are a set of messages or an error, compressed or not.
func FuzzOldSet(f *testing.F) {
	f.Add(append(oldMessage(0, 0, 1, 0, []byte("k"), []byte("v")), oldMessage(1, 0, 0, 7, nil, nil)...), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, offset int64) {
		d := &decoder{q: &query{at: asked}, copies: true}
		d.s = newStream(bytes.NewReader(nil), 0, d.keep)
		d.set(&message{offset: offset}, &piece{buf: b})
		d.flush()
		for _, r := range d.list() {
			if r.offset < 0 {
				t.Fatalf("a record at %d", r.offset)
			}
		}
	})
}

// Any bytes are decompressed or an error.
func FuzzInflate(f *testing.F) {
	for codec := codecGzip; codec <= codecZSTD; codec++ {
		f.Add(codec, deflate(f, codec, bytes.Repeat([]byte("ackmesh"), 100)))
		f.Add(codec, deflate(f, codec, bytes.Repeat([]byte("ackmesh "), 100)))
	}
	f.Fuzz(func(t *testing.T, codec int, b []byte) {
		var out bytes.Buffer
		if err := inflate(&out, codec, b, 1<<20); err == nil && out.Len() > 1<<20 {
			t.Fatalf("%d bytes", out.Len())
		}
	})
}

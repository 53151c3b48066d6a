package frame_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/ackmesh/ackmesh/frame"
)

// The seeds are in testdata/fuzz/<target>, one file each, named for what they are.

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		useAll(b)
		got, err := frame.Decode(b)
		if !bytes.Equal(b, before) {
			t.Fatal("decoding changed the bytes")
		}
		if err != nil {
			_ = err.Error()
			return
		}
		again, err := frame.Append(nil, &got)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("encoded again as %x, %v; want %x", again, err, b)
		}
	})
}

func FuzzAppendProto(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) { checkProtoOut(t, b) })
}

func FuzzAppendFromProto(f *testing.F) {
	f.Fuzz(func(t *testing.T, msg []byte) {
		out, meta, err := frame.AppendFromProto([]byte("kept"), msg, fills)
		want, plainErr := unmarshal(msg)
		if err != nil {
			if string(out) != "kept" || err.Error() == "" {
				t.Fatalf("error %v, yet dst is %q", err, out)
			}
			if plainErr == nil && (errors.Is(err, frame.ErrProto) || errors.Is(err, frame.ErrUTF8)) {
				t.Fatalf("refused with %v, but protobuf takes it", err)
			}
			return
		}
		if plainErr != nil {
			t.Fatalf("taken, but protobuf says %v", plainErr)
		}
		got, err := frame.Decode(out[len("kept"):])
		if err != nil {
			t.Fatalf("what was made is no frame: %v", err)
		}
		if !plain(got, true).equal(filled(want)) {
			t.Fatalf("got %+v, want %+v", got, filled(want))
		}
		checkMeta(t, meta, got)
	})
}

func FuzzCloudEventJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, doc []byte) {
		raw := frame.FromRaw(doc, nil, nil)
		if _, err := frame.Append(nil, &raw.Frame); err != nil {
			t.Fatalf("FromRaw made no frame: %v", err)
		}
		first, err := frame.FromCloudEventJSON(doc)
		if err != nil {
			return
		}
		stored, err := frame.Append(nil, &first)
		if err != nil {
			t.Fatalf("%+v: %v", first, err)
		}
		text, err := frame.AppendJSON(nil, stored)
		if err != nil {
			t.Fatalf("%+v: %v", first, err)
		}
		second, err := frame.FromCloudEventJSON(text)
		if err != nil || !reflect.DeepEqual(plain(second, true).attrs, plain(first, true).attrs) || !bytes.Equal(second.Data, first.Data) {
			t.Fatalf("%s\nbecame %+v, then %s,\nthen %+v, %v", doc, first, text, second, err)
		}
	})
}

package frame_test

import (
	"testing"

	"github.com/ackmesh/ackmesh/frame"
)

func BenchmarkParse(b *testing.B) {
	stored := encode(b, eightAttributes())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frame.Parse(stored); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAttr(b *testing.B) {
	v, err := frame.Parse(encode(b, eightAttributes()))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := v.Attr(frame.AttrTraceParent); !ok {
			b.Fatal("no traceparent")
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	stored := encode(b, eightAttributes())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frame.Decode(stored); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	f := eightAttributes()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frame.Append(buf, &f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendProto(b *testing.B) {
	stored := encode(b, eightAttributes())
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frame.AppendProto(buf, stored, frame.ProtoOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProtoSize(b *testing.B) {
	stored := encode(b, eightAttributes())
	b.ReportAllocs()
	for b.Loop() {
		if frame.ProtoSize(stored, frame.ProtoOptions{}) == 0 {
			b.Fatal("no size")
		}
	}
}

func BenchmarkAppendFromProto(b *testing.B) {
	msg := []byte(wireOf(eightAttributes()))
	buf := make([]byte, 0, 4096)
	opt := frame.PublishOptions{ID: []byte("made"), Source: []byte("made"), Time: []byte("made")}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := frame.AppendFromProto(buf, msg, opt); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestamp(b *testing.B) {
	stored := encode(b, eightAttributes())
	buf := make([]byte, 0, 4096)
	opt := frame.RestampOptions{Stamps: []frame.Attribute{{Name: frame.AttrToSubscriber, Value: "client:a"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := frame.Restamp(buf, stored, opt); err != nil {
			b.Fatal(err)
		}
	}
}

package frame_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/frame"
	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// message is what an EventMeshFrame message holds.
type message struct {
	typ        int32
	flags, seq uint32
	attrs      map[string]string
	data       []byte
}

// unmarshal reads wire bytes the plain way, with the generated code.
func unmarshal(b []byte) (message, error) {
	var m ackmeshv1.EventMeshFrame
	if err := proto.Unmarshal(b, &m); err != nil {
		return message{}, err
	}
	out := message{typ: int32(m.GetType()), flags: m.GetFlags(), seq: m.GetSeq(), attrs: m.GetAttributes(), data: m.GetData()}
	if out.attrs == nil {
		out.attrs = map[string]string{}
	}
	return out, nil
}

// marshal writes wire bytes the plain way.
func (m message) marshal(t testing.TB) []byte {
	t.Helper()
	b, err := proto.Marshal(&ackmeshv1.EventMeshFrame{
		Type: ackmeshv1.MessageType(m.typ), Flags: m.flags, Seq: m.seq, Attributes: m.attrs, Data: m.data,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (m message) equal(o message) bool {
	return m.typ == o.typ && m.flags == o.flags && m.seq == o.seq && maps.Equal(m.attrs, o.attrs) && bytes.Equal(m.data, o.data)
}

// plain turns a frame into the message that stands for it, leaving out reserved
// names unless they are kept.
func plain(f frame.Frame, keepReserved bool) message {
	m := message{typ: int32(f.Type), flags: uint32(f.Flags), seq: f.Seq, attrs: map[string]string{}, data: f.Data}
	for _, a := range f.Attributes {
		if keepReserved || !frame.Reserved(a.Name) {
			m.attrs[a.Name] = a.Value
		}
	}
	return m
}

// wire builds message bytes by hand, in the given order, legal or not.
type wire []byte

func (w wire) attr(name, value string) wire {
	var e []byte
	e = protowire.AppendTag(e, 1, protowire.BytesType)
	e = protowire.AppendString(e, name)
	e = protowire.AppendTag(e, 2, protowire.BytesType)
	e = protowire.AppendString(e, value)
	return w.bytes(4, e)
}

func (w wire) bytes(num protowire.Number, b []byte) wire {
	return protowire.AppendBytes(protowire.AppendTag(w, num, protowire.BytesType), b)
}

func (w wire) varint(num protowire.Number, v uint64) wire {
	return protowire.AppendVarint(protowire.AppendTag(w, num, protowire.VarintType), v)
}

// eightAttributes is an ordinary event: 8 attributes and 1 KiB of data.
func eightAttributes() frame.Frame {
	return frame.Frame{
		Type: frame.Event,
		Attributes: []frame.Attribute{
			{Name: "id", Value: "0f8fad5b-d9cb-469f-a165-70867728950e"},
			{Name: "source", Value: "/sensors/tn-1234567/alerts"},
			{Name: "type", Value: "com.example.sensor.alert.v1"},
			{Name: "subject", Value: "room-4711"},
			{Name: "time", Value: "2026-01-02T03:04:05.123456789Z"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "partitionkey", Value: "tn-1234567"},
			{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		},
		Data: bytes.Repeat([]byte("0123456789abcdef"), 64),
	}
}

func wireOf(f frame.Frame) wire {
	var w wire
	w = w.varint(1, uint64(f.Type))
	for _, a := range f.Attributes {
		w = w.attr(a.Name, a.Value)
	}
	return w.bytes(5, f.Data)
}

func encode(t testing.TB, f frame.Frame) []byte {
	t.Helper()
	b, err := frame.Append(nil, &f)
	if err != nil {
		t.Fatalf("encoding %+v: %v", f, err)
	}
	return b
}

func sortedNames(f frame.Frame) string {
	names := make([]string, 0, len(f.Attributes))
	for _, a := range f.Attributes {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

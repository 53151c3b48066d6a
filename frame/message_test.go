package frame_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ackmesh/ackmesh/frame"
)

// eventMeshFrame is the descriptor of ackmesh.v1.EventMeshFrame, spelled out so
// that a change of its numbers elsewhere does not change what is tested here.
var eventMeshFrame = buildDescriptor()

func buildDescriptor() protoreflect.MessageDescriptor {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("frame_test.proto"), Package: proto.String("frametest"), Syntax: proto.String("proto3"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{
			Name: proto.String("MessageType"),
			Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: proto.String("MESSAGE_TYPE_UNSPECIFIED"), Number: proto.Int32(0)},
				{Name: proto.String("MESSAGE_TYPE_STREAM_REQ"), Number: proto.Int32(1)},
				{Name: proto.String("MESSAGE_TYPE_STREAM_CHUNK"), Number: proto.Int32(2)},
				{Name: proto.String("MESSAGE_TYPE_EVENT"), Number: proto.Int32(3)},
			},
		}},
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("EventMeshFrame"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field("type", 1, descriptorpb.FieldDescriptorProto_TYPE_ENUM, ".frametest.MessageType"),
				field("flags", 2, descriptorpb.FieldDescriptorProto_TYPE_UINT32, ""),
				field("seq", 3, descriptorpb.FieldDescriptorProto_TYPE_UINT32, ""),
				attributesField(),
				field("data", 5, descriptorpb.FieldDescriptorProto_TYPE_BYTES, ""),
			},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: proto.String("AttributesEntry"),
				Field: []*descriptorpb.FieldDescriptorProto{
					field("key", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""),
					field("value", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""),
				},
				Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
			}},
		}},
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return fd.Messages().ByName("EventMeshFrame")
}

func field(name string, num int32, typ descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(num), Type: typ.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	if of != "" {
		f.TypeName = proto.String(of)
	}
	return f
}

func attributesField() *descriptorpb.FieldDescriptorProto {
	f := field("attributes", 4, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".frametest.EventMeshFrame.AttributesEntry")
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}

// message is what an EventMeshFrame message holds.
type message struct {
	typ        int32
	flags, seq uint32
	attrs      map[string]string
	data       []byte
}

// unmarshal reads wire bytes the plain way.
func unmarshal(b []byte) (message, error) {
	m := dynamicpb.NewMessage(eventMeshFrame)
	if err := proto.Unmarshal(b, m); err != nil {
		return message{}, err
	}
	get := func(n protoreflect.FieldNumber) protoreflect.Value { return m.Get(eventMeshFrame.Fields().ByNumber(n)) }
	out := message{
		typ: int32(get(1).Enum()), flags: uint32(get(2).Uint()), seq: uint32(get(3).Uint()),
		attrs: map[string]string{}, data: get(5).Bytes(),
	}
	get(4).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		out.attrs[k.String()] = v.String()
		return true
	})
	return out, nil
}

// marshal writes wire bytes the plain way.
func (m message) marshal(t testing.TB) []byte {
	t.Helper()
	d := dynamicpb.NewMessage(eventMeshFrame)
	set := func(n protoreflect.FieldNumber, v protoreflect.Value) { d.Set(eventMeshFrame.Fields().ByNumber(n), v) }
	set(1, protoreflect.ValueOfEnum(protoreflect.EnumNumber(m.typ)))
	set(2, protoreflect.ValueOfUint32(m.flags))
	set(3, protoreflect.ValueOfUint32(m.seq))
	set(5, protoreflect.ValueOfBytes(m.data))
	entries := d.Mutable(eventMeshFrame.Fields().ByNumber(4)).Map()
	for k, v := range m.attrs {
		entries.Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
	}
	b, err := proto.Marshal(d)
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

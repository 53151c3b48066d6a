package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ackmesh/ackmesh/frame"
)

// Frame is an EventMeshFrame to be written. Attrs and the first Extras of Extra
// together are its attributes; names should be distinct.
type Frame struct {
	Type, Flags, Seq uint32
	Attrs            []frame.Attribute
	Extra            [2]frame.Attribute
	Extras           int
	Data             []byte
}

func (f *Frame) extra() []frame.Attribute { return f.Extra[:f.Extras] }

// Size is how many bytes Append appends.
func (f *Frame) Size() int {
	n := varintFieldSize(f.Type) + varintFieldSize(f.Flags) + varintFieldSize(f.Seq)
	n += attrsSize(f.Attrs) + attrsSize(f.extra())
	if len(f.Data) > 0 {
		n += 1 + lenSize(len(f.Data)) + len(f.Data)
	}
	return n
}

// Append appends the message, without tag and length before it.
func (f *Frame) Append(dst []byte) []byte {
	dst = appendVarintField(dst, tagVarint1, f.Type)
	dst = appendVarintField(dst, tagVarint2, f.Flags)
	dst = appendVarintField(dst, tagVarint3, f.Seq)
	dst = appendAttrs(dst, f.Attrs)
	dst = appendAttrs(dst, f.extra())
	if len(f.Data) > 0 {
		dst = append(dst, tagBytes5)
		dst = appendLen(dst, len(f.Data))
		dst = append(dst, f.Data...)
	}
	return dst
}

func varintFieldSize(v uint32) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(v))
}

func appendVarintField(dst []byte, tag byte, v uint32) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, tag), uint64(v))
}

func attrsSize(attrs []frame.Attribute) int {
	n := 0
	for i := range attrs {
		e := entrySize(&attrs[i])
		n += 1 + lenSize(e) + e
	}
	return n
}

func entrySize(a *frame.Attribute) int {
	return 2 + lenSize(len(a.Name)) + len(a.Name) + lenSize(len(a.Value)) + len(a.Value)
}

func appendAttrs(dst []byte, attrs []frame.Attribute) []byte {
	for i := range attrs {
		a := &attrs[i]
		dst = append(dst, tagBytes4)
		dst = appendLen(dst, entrySize(a))
		dst = append(dst, tagBytes1)
		dst = appendLen(dst, len(a.Name))
		dst = append(dst, a.Name...)
		dst = append(dst, tagBytes2)
		dst = appendLen(dst, len(a.Value))
		dst = append(dst, a.Value...)
	}
	return dst
}

// AppendTopic appends PublishRequest.topic.
func AppendTopic(dst []byte, topic string) []byte {
	dst = append(dst, tagBytes1)
	dst = appendLen(dst, len(topic))
	return append(dst, topic...)
}

// EventFieldSize is how many bytes AppendEvent appends for a frame of that size.
func EventFieldSize(frameSize int) int { return 1 + lenSize(frameSize) + frameSize }

// AppendEvent appends one element of PublishRequest.events. size is f.Size().
func AppendEvent(dst []byte, f *Frame, size int) []byte {
	dst = append(dst, tagBytes2)
	dst = appendLen(dst, size)
	return f.Append(dst)
}

// AppendRequestID appends PublishRequest.request_id.
func AppendRequestID(dst []byte, id uint64) []byte {
	return protowire.AppendVarint(append(dst, tagVarint4), id)
}

// AppendEventBytes appends one element of PublishRequest.events that is encoded
// already.
func AppendEventBytes(dst, frame []byte) []byte {
	dst = append(dst, tagBytes2)
	dst = appendLen(dst, len(frame))
	return append(dst, frame...)
}

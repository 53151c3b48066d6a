// Package rpc is the gRPC edge: it reads requests, hands them to the dispatcher
// and the log, and turns what comes back into answers and statuses. The data
// calls read and write wire bytes without building messages; everything else
// uses the generated code.
package rpc

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that raw messages stand beside
	"google.golang.org/grpc/mem"
)

// rawIn is a message as it came: contiguous wire bytes. free gives them back.
type rawIn struct{ buf mem.Buffer }

func (r *rawIn) bytes() []byte { return r.buf.ReadOnlyData() }

func (r *rawIn) free() {
	if r.buf != nil {
		r.buf.Free()
		r.buf = nil
	}
}

// rawOut is a message as it goes: wire bytes that the transport frees.
type rawOut struct{ data mem.BufferSlice }

// Codec is the protobuf codec that also takes raw messages, for the server's
// data calls. Give it to grpc.ForceServerCodecV2.
type Codec struct{}

var protoCodec = encoding.GetCodecV2("proto")

// Name is "proto": the bytes are the same.
func (Codec) Name() string { return "proto" }

// Marshal passes raw messages through.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*rawOut); ok {
		return r.data, nil
	}
	return protoCodec.Marshal(v)
}

// Unmarshal keeps raw messages as they are.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*rawIn); ok {
		r.buf = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return protoCodec.Unmarshal(data, v)
}

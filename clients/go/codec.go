package ackmesh

import (
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// rawCodec carries the messages of the data streams as bytes. On the wire it is
// protobuf: the peer sees nothing of it.
type rawCodec struct{ pool mem.BufferPool }

var _ encoding.CodecV2 = rawCodec{}

// outMsg is a message to be sent: one that gRPC may read as often as it likes.
// The sender's own reference stays the sender's.
type outMsg struct{ buf mem.Buffer }

// inMsg receives a message. Whoever reads it frees buf.
type inMsg struct{ buf mem.Buffer }

// Name is the name of protobuf's codec, so that the content type is protobuf's.
func (rawCodec) Name() string { return "proto" }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *outMsg:
		m.buf.Ref()
		return mem.BufferSlice{m.buf}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("ackmesh: codec: cannot send a %T", v)
}

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*inMsg)
	if !ok {
		return fmt.Errorf("ackmesh: codec: cannot receive into a %T", v)
	}
	m.buf = data.MaterializeToBuffer(c.pool)
	return nil
}

// bufferPool is a mem.BufferPool of powers of two from 256 B to 16 MiB that does
// not clear what it hands out: whoever gets a buffer overwrites all of it. gRPC's
// own pool clears, and rounds everything above 32 KiB up to 1 MiB.
type bufferPool struct{ tiers [maxTier + 1]sync.Pool }

const (
	minTier = 8
	maxTier = 24
)

var pool = new(bufferPool)

// Get returns a buffer of that length, with any content.
func (p *bufferPool) Get(length int) *[]byte {
	tier := max(bits.Len(uint(max(length, 1)-1)), minTier)
	if tier > maxTier {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.tiers[tier].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, 1<<tier)
	return &b
}

// Put takes a buffer back. Any buffer will do; one that was enlarged goes to the
// tier that it now fits.
func (p *bufferPool) Put(b *[]byte) {
	tier := bits.Len(uint(cap(*b))) - 1
	if tier < minTier || tier > maxTier {
		return
	}
	p.tiers[tier].Put(b)
}

package frame

import "slices"

// Limits of a frame. They hold on encode and on decode.
const (
	// MaxFrameSize is the most bytes a whole frame may have.
	MaxFrameSize = 16 << 20
	// MaxDataSize is the most bytes of data in a frame.
	MaxDataSize = 8 << 20
	// MaxAttributes is the most attributes in a frame.
	MaxAttributes = 64
	// MaxPublishAttributes is the most attributes a publisher may set. The rest,
	// up to MaxAttributes, is for what the mesh fills in and stamps.
	MaxPublishAttributes = 56
	// MaxNameLen is the most bytes of an attribute name.
	MaxNameLen = 256
	// MaxValueLen is the most bytes of an attribute value.
	MaxValueLen = 4096
)

const (
	magic     = 0xEF
	version   = 1
	headerLen = 14
	// attrOverhead is what an attribute takes beside its name and value.
	attrOverhead = 6
)

// Offsets of the fields of the header.
const (
	offMagic    = 0
	offVersion  = 1
	offType     = 2
	offFlags    = 3
	offSeq      = 4
	offKeyCount = 8
	offDataLen  = 10
)

// Type is the kind of a frame. Other values than the three named ones are
// errors in a frame; in protobuf, 0 stands for Event.
type Type uint8

// The frame types, numbered as in the frame and in ackmesh.v1.MessageType.
const (
	// StreamReq opens a stream of chunks.
	StreamReq Type = 1
	// StreamChunk is one chunk of a stream.
	StreamChunk Type = 2
	// Event is a whole event; CloudEvents map onto frames of this type.
	Event Type = 3
)

// String returns the name of the type as the wire contract spells it.
func (t Type) String() string {
	switch t {
	case StreamReq:
		return "STREAM_REQ"
	case StreamChunk:
		return "STREAM_CHUNK"
	case Event:
		return "EVENT"
	default:
		return "unknown"
	}
}

func (t Type) known() bool { return t >= StreamReq && t <= Event }

// Flags are the flag bits of a frame. Bits without a name are kept as they are.
type Flags uint8

// The flags with a meaning.
const (
	// Done marks the last chunk of a stream.
	Done Flags = 1
	// HasError says that the frame carries an error.
	HasError Flags = 2
	// HasMeta says that the frame carries metadata.
	HasMeta Flags = 4
)

// Attribute is one named value of a frame.
type Attribute struct {
	Name, Value string
}

// Frame is a decoded frame. The zero value is not a valid frame: Type must be
// set. Names of Attributes are distinct in a valid frame, in any order.
type Frame struct {
	Type       Type
	Flags      Flags
	Seq        uint32
	Attributes []Attribute
	Data       []byte
}

// Get returns the value of the named attribute, and whether there is one.
func (f *Frame) Get(name string) (string, bool) {
	if i := f.index(name); i >= 0 {
		return f.Attributes[i].Value, true
	}
	return "", false
}

// Set gives the named attribute a value: in its place if it is there, else at
// the end. It checks nothing; Append does.
func (f *Frame) Set(name, value string) {
	if i := f.index(name); i >= 0 {
		f.Attributes[i].Value = value
		return
	}
	f.Attributes = append(f.Attributes, Attribute{Name: name, Value: value})
}

// Delete removes the named attribute and says whether it was there. The order
// of the others stays.
func (f *Frame) Delete(name string) bool {
	i := f.index(name)
	if i < 0 {
		return false
	}
	f.Attributes = slices.Delete(f.Attributes, i, i+1)
	return true
}

func (f *Frame) index(name string) int {
	return slices.IndexFunc(f.Attributes, func(a Attribute) bool { return a.Name == name })
}

package remoting

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Bits of Message.SysFlag.
const (
	SysCompressed = 1 << 0
	SysBornV6     = 1 << 4
	SysHostV6     = 1 << 5
	SysUnwrap     = 1 << 6
	SysInnerBatch = 1 << 7
	// The bits of SysCompression say how: 0 (of old clients) and 3 zlib, 1
	// LZ4, 2 ZSTD.
	SysCompression = 7 << 8
	SysLZ4         = 1 << 8
	SysZSTD        = 2 << 8
	SysZlib        = 3 << 8
)

// Magic numbers of a message as it lies in a log.
const (
	magicV1 = 0xDAA320A7
	magicV2 = 0xDAA320AB // topics of more than 127 bytes
)

// Message is a message as a broker keeps it.
type Message struct {
	Topic          string
	QueueID        int
	QueueOffset    int64
	PhysicalOffset int64
	SysFlag, Flag  int
	// BornTime is the producer's time, StoreTime the broker's, in ms since
	// 1970.
	BornTime, StoreTime int64
	ReconsumeTimes      int
	// StoreHost is the IP and port of the broker as they lie in the message: 4
	// or 16 bytes, then 4.
	StoreHost []byte
	// Body is decompressed; where that failed BodyErr says why and Body is as
	// it lies in the log.
	Body    []byte
	BodyErr error
	// Properties is their text; see Property.
	Properties string
}

// Names of properties.
const (
	PropKeys        = "KEYS"
	PropTags        = "TAGS"
	PropShardingKey = "__SHARDINGKEY"
	PropUniqueKey   = "UNIQ_KEY"
)

const (
	nameEnd     = "\x01"
	propertyEnd = "\x02"
)

// ID is the broker's own identity of the message: where it is stored, as the
// 32 hexadecimal digits that mqadmin takes (40 and more for IPv6).
func (m *Message) ID() string { return fmt.Sprintf("%X%016X", m.StoreHost, m.PhysicalOffset) }

// Stored is StoreTime as a time.
func (m *Message) Stored() time.Time { return time.UnixMilli(m.StoreTime) }

// AllProperties lists the properties in their order.
func (m *Message) AllProperties() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for p := range strings.SplitSeq(m.Properties, propertyEnd) {
			name, value, ok := strings.Cut(p, nameEnd)
			if ok && !yield(name, value) {
				return
			}
		}
	}
}

// Property finds a property.
func (m *Message) Property(name string) (value string, ok bool) {
	for n, v := range m.AllProperties() {
		if n == name {
			return v, true
		}
	}
	return "", false
}

// AppendProperty appends a property to the text of properties. Names and
// values must not have the bytes 1 and 2.
func AppendProperty(dst, name, value string) string {
	if dst != "" && !strings.HasSuffix(dst, propertyEnd) {
		dst += propertyEnd
	}
	return dst + name + nameEnd + value
}

// decoder reads numbers and bytes; failed says that there were too few.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.failed = true
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int16() int {
	if b := d.bytes(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int {
	if b := d.bytes(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// DecodeMessages reads the messages in the body of a pull. A batch that the
// broker keeps as one message becomes the messages in it, with offsets that
// count up; what only says that it is one is one message. Bodies are
// decompressed, up to MaxBody bytes each. All together have about as much: where
// there is no room for more, the others are left out, and reading goes on behind
// the last one returned. Messages refer to body. Any bytes give messages or
// ErrMalformed; those before the damage are returned with the error.
func DecodeMessages(body []byte) (list []Message, err error) { return decodeUpTo(body, MaxBody) }

// decodeUpTo is DecodeMessages with so many bytes of room for what is
// decompressed.
func decodeUpTo(body []byte, room int) (list []Message, err error) {
	for at := 0; at < len(body); {
		m, n, err := decodeMessage(body[at:])
		if err != nil {
			return list, fmt.Errorf("message at byte %d: %w", at, err)
		}
		if at += n; m.SysFlag&(SysCompressed|SysInnerBatch) == 0 {
			list = append(list, m)
			continue
		}
		inner, cost := unpack(m, body[at:])
		if room -= cost; room < 0 && len(list) > 0 {
			return list, nil
		}
		list = append(list, inner...)
	}
	return list, nil
}

// unpack decompresses a message and makes the messages of it that it holds; cost
// is what they take beyond the body of the pull.
func unpack(stored Message, rest []byte) (list []Message, cost int) {
	m := stored
	if m.inflate(); len(m.Body) > len(stored.Body) {
		cost = len(m.Body)
	}
	if m.SysFlag&SysInnerBatch == 0 || m.SysFlag&SysUnwrap == 0 {
		return []Message{m}, cost
	}
	list, err := innerOf(&m, rest)
	if err != nil {
		stored.BodyErr = fmt.Errorf("batch at offset %d: %w", m.QueueOffset, err)
		return []Message{stored}, 0
	}
	return list, cost + len(list)*innerCost
}

// innerCost is about what a message of a batch takes besides its body.
const innerCost = 256

// decodeMessage reads the first message as it lies in the log, and tells its
// size.
func decodeMessage(b []byte) (m Message, size int, err error) {
	head := decoder{b: b}
	size = head.int32()
	if head.failed || size < 4 || size > len(b) {
		return m, 0, fmt.Errorf("size %d in %d bytes: %w", size, len(b), ErrMalformed)
	}
	d := decoder{b: b[4:size]}
	magic := uint32(d.int32())
	if magic != magicV1 && magic != magicV2 {
		return m, 0, fmt.Errorf("magic %#x: %w", magic, ErrMalformed)
	}
	d.int32() // checksum of the body
	m.QueueID, m.Flag = d.int32(), d.int32()
	m.QueueOffset, m.PhysicalOffset = d.int64(), d.int64()
	m.SysFlag = d.int32()
	m.BornTime = d.int64()
	d.bytes(hostSize(m.SysFlag, SysBornV6))
	m.StoreTime = d.int64()
	m.StoreHost = d.bytes(hostSize(m.SysFlag, SysHostV6))
	m.ReconsumeTimes = d.int32()
	d.int64() // of a transaction
	m.Body = d.bytes(d.int32())
	m.Topic = string(d.bytes(topicSize(&d, magic)))
	m.Properties = string(d.bytes(d.int16()))
	if d.failed {
		return Message{}, 0, fmt.Errorf("it is cut off: %w", ErrMalformed)
	}
	return m, size, nil
}

func hostSize(flags, v6 int) int {
	if flags&v6 != 0 {
		return 16 + 4
	}
	return 4 + 4
}

func topicSize(d *decoder, magic uint32) int {
	if magic == magicV2 {
		return d.int16()
	}
	if b := d.bytes(1); b != nil {
		return int(b[0])
	}
	return 0
}

// inflate decompresses the body.
func (m *Message) inflate() {
	if m.SysFlag&SysCompressed == 0 {
		return
	}
	body, err := decompress(m.Body, m.SysFlag&SysCompression, MaxBody)
	if err != nil {
		m.BodyErr = fmt.Errorf("body of the message at offset %d: %w", m.QueueOffset, err)
		return
	}
	m.Body = body
	m.SysFlag &^= SysCompressed | SysCompression
}

// maxInner bounds the messages of a batch that is kept as one message.
const maxInner = 1 << 16

// innerOf is the messages of a batch that is kept as one message. rest is what
// follows it: that begins behind the batch, unless the broker has counted it as
// one message.
func innerOf(outer *Message, rest []byte) (list []Message, err error) {
	if outer.BodyErr != nil {
		return nil, outer.BodyErr
	}
	for b := outer.Body; len(b) > 0; {
		m, size, err := decodeInner(b)
		if err == nil && len(list) == maxInner {
			err = fmt.Errorf("there are more than %d: %w", maxInner, ErrMalformed)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d of the batch: %w", len(list), err)
		}
		b = b[size:]
		m.Topic, m.QueueID, m.QueueOffset, m.PhysicalOffset = outer.Topic, outer.QueueID, outer.QueueOffset+int64(len(list)), outer.PhysicalOffset
		m.BornTime, m.StoreTime, m.StoreHost, m.ReconsumeTimes = outer.BornTime, outer.StoreTime, outer.StoreHost, outer.ReconsumeTimes
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("it holds no message: %w", ErrMalformed)
	}
	if next, _, err := decodeMessage(rest); err == nil && next.QueueOffset < outer.QueueOffset+int64(len(list)) {
		return nil, fmt.Errorf("it holds %d messages, and the next one is at offset %d: %w", len(list), next.QueueOffset, ErrMalformed)
	}
	return list, nil
}

// decodeInner reads a message of a batch as a producer sends it: size, magic,
// checksum, flag, body, properties.
func decodeInner(b []byte) (m Message, size int, err error) {
	head := decoder{b: b}
	size = head.int32()
	if head.failed || size < 4 || size > len(b) {
		return m, 0, fmt.Errorf("size %d in %d bytes: %w", size, len(b), ErrMalformed)
	}
	d := decoder{b: b[4:size]}
	d.int32() // magic
	d.int32() // checksum
	m.Flag = d.int32()
	m.Body = d.bytes(d.int32())
	m.Properties = string(d.bytes(d.int16()))
	if d.failed {
		return Message{}, 0, fmt.Errorf("it is cut off: %w", ErrMalformed)
	}
	return m, size, nil
}

// AppendMessage appends a message in the form in which brokers keep it and
// answer pulls; for tests and tools. The body is written as it is, whatever
// SysFlag says of its compression.
func AppendMessage(dst []byte, m *Message) []byte {
	at := len(dst)
	magic := uint32(magicV1)
	if len(m.Topic) > 127 {
		magic = magicV2
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(be.AppendUint32(dst, uint32(m.QueueID)), uint32(m.Flag))
	dst = be.AppendUint64(be.AppendUint64(dst, uint64(m.QueueOffset)), uint64(m.PhysicalOffset))
	dst = be.AppendUint32(dst, uint32(m.SysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTime))
	dst = append(dst, make([]byte, hostSize(m.SysFlag, SysBornV6))...)
	dst = be.AppendUint64(dst, uint64(m.StoreTime))
	host := make([]byte, hostSize(m.SysFlag, SysHostV6))
	copy(host, m.StoreHost)
	dst = append(dst, host...)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, 0)
	dst = append(be.AppendUint32(dst, uint32(len(m.Body))), m.Body...)
	if magic == magicV2 {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	} else {
		dst = append(dst, byte(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	dst = append(be.AppendUint16(dst, uint16(len(m.Properties))), m.Properties...)
	be.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

package frame

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// PublishOptions are the values that a published event gets where it has none
// of its own. An attribute that is there but empty counts as absent for these
// four, as CloudEvents allows none of them to be empty. An empty option fills
// nothing. The bytes are copied.
type PublishOptions struct {
	ID, Source, Time, PartitionKey []byte
}

// Meta is what the server needs to know of an event it has just taken in. The
// byte fields are parts of the slice that AppendFromProto returned, and good for
// as long as those bytes stay; they are nil where the event has no such
// attribute, filled-in ones included.
type Meta struct {
	ID, Source, PartitionKey, TraceParent []byte
	// TTL is the value of emttl in milliseconds, if HasTTL.
	TTL    int64
	HasTTL bool
}

// AppendFromProto appends to dst the stored form of an event as it was
// published: msg is the protobuf wire form of ackmesh.v1.EventMeshFrame, without
// tag and length before it. It goes over msg once, builds no map, and allocates
// nothing if dst has room. On error dst is returned as it was.
//
// It enforces what holds for publishers: at most MaxPublishAttributes
// attributes, not counting those that opt fills in; legal CloudEvents names; no
// reserved names (see Reserved); sizes; UTF-8; an emttl that ParseTTL takes. Type
// 0 becomes Event, other unknown types are errors, and so are flags over 255.
//
// As protobuf demands, the last of several values of a plain field counts, and
// unknown fields and fields of the wrong wire type are skipped. A name that
// occurs twice among the attributes is an error, though: no map encodes to that,
// so one of the values would be lost.
func AppendFromProto(dst, msg []byte, opt PublishOptions) ([]byte, Meta, error) {
	p := publish{dst: dst, base: len(dst), typ: Event}
	p.dst = append(p.dst, zeroHeader[:]...)
	if err := p.message(msg); err != nil {
		return dst, Meta{}, err
	}
	if err := p.fillIn(&opt); err != nil {
		return dst, Meta{}, err
	}
	if err := p.finish(); err != nil {
		return dst, Meta{}, err
	}
	return p.dst, p.meta(), nil
}

var zeroHeader [headerLen]byte

// publish is the state of one pass over one event.
type publish struct {
	dst   []byte // the output; this frame begins at base
	base  int
	sent  int    // attributes of the message
	count int    // attributes written: fewer for empty ones, more for filled-in ones
	seen  uint64 // nameBit of each

	typ   Type
	flags Flags
	seq   uint32
	data  []byte // part of the message

	id, source, time, key, trace span
	ttl                          int64
	hasTTL                       bool
}

// span is a part of publish.dst. No value of a frame is at 0, so the zero span is
// an absent value.
type span struct{ from, to int }

func (s span) of(b []byte) []byte {
	if s.from == 0 {
		return nil
	}
	return b[s.from:s.to:s.to]
}

// message walks the fields of the message.
func (p *publish) message(msg []byte) error {
	for len(msg) > 0 {
		num, typ, n, err := consumeTag(msg)
		if err != nil {
			return err
		}
		msg = msg[n:]
		n, err = p.field(num, typ, msg)
		if err != nil {
			return err
		}
		msg = msg[n:]
	}
	return nil
}

// consumeTag reads a tag, refusing the field numbers that protobuf refuses.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int, error) {
	num, typ, n := protowire.ConsumeTag(b)
	switch {
	case n < 0:
		return 0, 0, 0, errProto(n)
	case num > protowire.MaxValidNumber:
		return 0, 0, 0, &Error{Kind: ErrProto, Field: fieldFrame, Hint: "invalid field number"}
	}
	return num, typ, n, nil
}

// field takes one field and returns how many bytes it has.
func (p *publish) field(num protowire.Number, typ protowire.Type, b []byte) (int, error) {
	switch {
	case typ == protowire.BytesType && (num == 4 || num == 5):
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return 0, errProto(n)
		}
		if num == 5 {
			p.data = v
			return n, nil
		}
		return n, p.entry(v)
	case typ == protowire.VarintType && num >= 1 && num <= 3:
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return 0, errProto(n)
		}
		return n, p.scalar(num, v)
	default:
		n := protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return 0, errProto(n)
		}
		return n, nil
	}
}

// scalar takes the fields type, flags and seq, which protobuf cuts to 32 bits.
func (p *publish) scalar(num protowire.Number, v uint64) error {
	switch num {
	case 1:
		t := int32(v)
		if t < 0 || t > int32(Event) {
			return errType(int64(t))
		}
		p.typ = Type(t)
		if t == 0 {
			p.typ = Event
		}
	case 2:
		if uint32(v) > math.MaxUint8 {
			return errLimit(fieldFlags, int64(uint32(v)), math.MaxUint8)
		}
		p.flags = Flags(v)
	case 3:
		p.seq = uint32(v)
	}
	return nil
}

// entry takes one entry of the attribute map. Encoders write key, then value,
// each once, mostly with lengths of one byte: that form is read directly.
func (p *publish) entry(e []byte) error {
	if len(e) < 4 || e[0] != tagKey || int(e[1]) > len(e)-4 || e[1] >= 0x80 {
		return p.slowEntry(e)
	}
	name, rest := e[2:2+e[1]], e[2+e[1]:]
	if rest[0] != tagValue {
		return p.slowEntry(e)
	}
	value, n := protowire.ConsumeBytes(rest[1:])
	if n != len(rest)-1 {
		return p.slowEntry(e)
	}
	return p.attribute(name, value)
}

// slowEntry reads an entry in any form that protobuf allows: fields missing,
// repeated, in any order, unknown.
func (p *publish) slowEntry(e []byte) error {
	var name, value []byte
	for len(e) > 0 {
		num, typ, n, err := consumeTag(e)
		if err != nil {
			return err
		}
		e = e[n:]
		if n = protowire.ConsumeFieldValue(num, typ, e); n < 0 {
			return errProto(n)
		}
		if typ == protowire.BytesType && (num == 1 || num == 2) {
			b, _ := protowire.ConsumeBytes(e)
			field, to := fieldName, &name
			if num == 2 {
				field, to = fieldValue, &value
			}
			// protobuf checks each value, also one that a later one replaces.
			if !utf8.Valid(b) {
				return errAttr(ErrUTF8, field, name, "")
			}
			*to = b
		}
		e = e[n:]
	}
	return p.attribute(name, value)
}

// attribute checks a published attribute and writes it.
func (p *publish) attribute(name, value []byte) error {
	if err := p.checkPublished(name, value); err != nil {
		return err
	}
	p.seen |= nameBit(name)
	if p.sent++; p.sent > MaxPublishAttributes {
		return errLimit(fieldAttributes, int64(p.sent), MaxPublishAttributes)
	}
	return p.write(name, value)
}

func (p *publish) checkPublished(name, value []byte) error {
	switch {
	case len(name) == 0 || len(name) > MaxNameLen || !nameChars(name) || string(name) == payloadName:
		return checkName(name)
	case len(value) > MaxValueLen:
		return errAttrLimit(fieldValue, name, int64(len(value)), MaxValueLen)
	case !utf8.Valid(value):
		return errAttr(ErrUTF8, fieldValue, name, "")
	case Reserved(name):
		return errAttr(ErrReserved, fieldName, name, "leave it out")
	case p.seen&nameBit(name) != 0 && hasBefore(p.dst, p.base+headerLen, len(p.dst), name):
		return errAttr(ErrDuplicate, fieldName, name, "")
	}
	return nil
}

// write writes an attribute, remembering where the values go that Meta tells.
// Empty values that are as good as absent are not written.
func (p *publish) write(name, value []byte) error {
	var at *span
	switch string(name) {
	case AttrID:
		at = &p.id
	case AttrSource:
		at = &p.source
	case AttrTime:
		at = &p.time
	case AttrPartitionKey:
		at = &p.key
	case AttrTraceParent:
		at = &p.trace
	case AttrTTL:
		if err := p.setTTL(value); err != nil {
			return err
		}
	}
	if at != nil && at != &p.trace && len(value) == 0 {
		return nil
	}
	p.put(at, name, value)
	return nil
}

func (p *publish) put(at *span, name, value []byte) {
	p.dst = appendAttr(p.dst, name, value)
	p.count++
	if at != nil {
		*at = span{len(p.dst) - len(value), len(p.dst)}
	}
}

func (p *publish) setTTL(value []byte) error {
	ms, ok := ParseTTL(value)
	if !ok {
		return errAttr(ErrValue, fieldValue, []byte(AttrTTL), "give whole milliseconds from 0 to 9223372036854")
	}
	p.ttl, p.hasTTL = ms, true
	return nil
}

// fillIn adds what the event lacks.
func (p *publish) fillIn(opt *PublishOptions) error {
	if err := p.fill(&p.id, AttrID, opt.ID); err != nil {
		return err
	}
	if err := p.fill(&p.source, AttrSource, opt.Source); err != nil {
		return err
	}
	if err := p.fill(&p.time, AttrTime, opt.Time); err != nil {
		return err
	}
	return p.fill(&p.key, AttrPartitionKey, opt.PartitionKey)
}

func (p *publish) fill(at *span, name string, value []byte) error {
	if at.from != 0 || len(value) == 0 {
		return nil
	}
	if len(value) > MaxValueLen {
		return errAttrLimit(fieldValue, name, int64(len(value)), MaxValueLen)
	}
	if !utf8.Valid(value) {
		return errAttr(ErrUTF8, fieldValue, name, "")
	}
	p.put(at, []byte(name), value)
	return nil
}

// finish adds the data and writes the header, now that it is known.
func (p *publish) finish() error {
	if len(p.data) > MaxDataSize {
		return errLimit(fieldData, int64(len(p.data)), MaxDataSize)
	}
	h := p.dst[p.base : p.base+headerLen]
	h[offMagic], h[offVersion], h[offType], h[offFlags] = magic, version, byte(p.typ), byte(p.flags)
	binary.BigEndian.PutUint32(h[offSeq:], p.seq)
	binary.BigEndian.PutUint16(h[offKeyCount:], uint16(p.count))
	binary.BigEndian.PutUint32(h[offDataLen:], uint32(len(p.data)))
	p.dst = append(p.dst, p.data...)
	return nil
}

func (p *publish) meta() Meta {
	return Meta{
		ID:           p.id.of(p.dst),
		Source:       p.source.of(p.dst),
		PartitionKey: p.key.of(p.dst),
		TraceParent:  p.trace.of(p.dst),
		TTL:          p.ttl,
		HasTTL:       p.hasTTL,
	}
}

// errProto wraps an error code of protowire.
func errProto(code int) error {
	return &Error{Kind: ErrProto, Field: fieldFrame, Hint: protowire.ParseError(code).Error()}
}

package wire

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Body returns the content of SubscribeResponse.deliveries where that is all
// that the message holds, in one piece: the form that encoders write. Other
// messages give false and must be read with the generated code.
func Body(msg []byte) ([]byte, bool) {
	if len(msg) == 0 || msg[0] != tagBytes3 {
		return nil, false
	}
	v, n := protowire.ConsumeBytes(msg[1:])
	if n != len(msg)-1 {
		return nil, false
	}
	return v, true
}

// Run is a Run message: its head, and its deliveries as yet unread. Next gives
// them one by one.
type Run struct {
	Subscription     uint32
	Topic, Partition []byte
	Epoch            uint64
	// Count is how many deliveries the run had at first.
	Count int

	rest []byte
}

// Item is one delivery. Frame has passed Check, and Data is its data.
type Item struct {
	ID          uint64
	Offset      int64
	Attempt     int32
	attrs       stretch
	Frame, Data []byte
}

// AppendRuns appends the runs of a Deliveries message, given its content, to dst.
func AppendRuns(dst []Run, body []byte) ([]Run, error) {
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeField(body)
		if n < 0 {
			return dst, malformed("deliveries", n)
		}
		if num == 1 && typ == protowire.BytesType {
			dst = append(dst, Run{rest: fieldBytes(body)})
			if err := dst[len(dst)-1].readHead(); err != nil {
				return dst, err
			}
		}
		body = body[n:]
	}
	return dst, nil
}

// readHead walks over the run for its head and the number of its deliveries.
func (r *Run) readHead() error {
	for b := r.rest; len(b) > 0; {
		if b[0] == tagBytes5 {
			if _, to := span(b); to > 0 {
				r.Count++
				b = b[to:]
				continue
			}
		}
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return malformed("run", n)
		}
		r.field(num, typ, b[:n])
		b = b[n:]
	}
	return nil
}

func (r *Run) field(num protowire.Number, typ protowire.Type, b []byte) {
	switch {
	case typ == protowire.BytesType && num == 5:
		r.Count++
	case typ == protowire.BytesType && num == 2:
		r.Topic = fieldBytes(b)
	case typ == protowire.BytesType && num == 3:
		r.Partition = fieldBytes(b)
	case typ == protowire.VarintType && num == 1:
		r.Subscription = uint32(fieldVarint(b))
	case typ == protowire.VarintType && num == 4:
		r.Epoch = fieldVarint(b)
	}
}

// fieldVarint returns the value of the varint field that b begins with;
// protowire.ConsumeField has accepted it.
func fieldVarint(b []byte) uint64 {
	_, _, n := protowire.ConsumeTag(b)
	v, _ := protowire.ConsumeVarint(b[max(n, 0):])
	return v
}

// Next reads the next delivery of the run into it, and returns false behind the
// last one.
func (r *Run) Next(it *Item) (bool, error) {
	for len(r.rest) > 0 {
		b := r.rest
		if b[0] == tagBytes5 {
			if from, to := span(b); to > 0 {
				r.rest = b[to:]
				return true, it.read(b[from:to])
			}
		}
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return false, malformed("run", n)
		}
		r.rest = b[n:]
		if num == 5 && typ == protowire.BytesType {
			return true, it.read(fieldBytes(b))
		}
	}
	return false, nil
}

func (it *Item) read(b []byte) error {
	if !it.readPlain(b) {
		*it = Item{}
		for len(b) > 0 {
			n, err := it.field(b)
			if err != nil {
				return err
			}
			b = b[n:]
		}
	}
	if it.ID == 0 {
		*it = Item{} // attrs are of a frame before
		return malformedText("delivery without an id")
	}
	return it.Check()
}

// Check walks over Frame once, so that every attribute is found, and sets Data. It
// does not check text for UTF-8.
func (it *Item) Check() (err error) {
	it.Data, it.attrs, err = checkFrame(it.Frame)
	return err
}

// readPlain reads the form that the server writes, each field once and in order,
// and returns false for any other.
func (it *Item) readPlain(b []byte) bool {
	if len(b) < 9 || b[0] != tagFixed1 {
		return false
	}
	id := binary.LittleEndian.Uint64(b[1:])
	b = b[9:]
	off, n := varint(b, tagVarint2)
	b = b[n:]
	attempt, m := varint(b, tagVarint3)
	b = b[m:]
	from, to := span(b)
	if n == 0 || m == 0 || to == 0 || to != len(b) || b[0] != tagBytes4 {
		return false
	}
	it.ID, it.Offset, it.Attempt, it.Frame = id, int64(off), int32(attempt), b[from:to]
	return true
}

func (it *Item) field(b []byte) (int, error) {
	num, typ, n := protowire.ConsumeField(b)
	switch {
	case n < 0:
		return 0, malformed("delivery", n)
	case typ == protowire.Fixed64Type && num == 1:
		it.ID = binary.LittleEndian.Uint64(b[n-8:])
	case typ == protowire.VarintType && num == 2:
		it.Offset = int64(fieldVarint(b))
	case typ == protowire.VarintType && num == 3:
		it.Attempt = int32(fieldVarint(b))
	case typ == protowire.BytesType && num == 4:
		if it.Frame != nil {
			return 0, malformedText("delivery with two frames")
		}
		it.Frame = fieldBytes(b)
	}
	return n, nil
}

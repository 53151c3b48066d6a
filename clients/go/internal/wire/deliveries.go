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

// Run is the head of a Run message.
type Run struct {
	Subscription     uint32
	Topic, Partition []byte
	Epoch            uint64
	// Count is how many deliveries follow.
	Count int
}

// Item is one delivery. Frame has passed CheckFrame, and Data is its data.
type Item struct {
	ID          uint64
	Offset      int64
	Attempt     int32
	Frame, Data []byte
}

// Walker reads a Deliveries message run by run and item by item. Begin with
// NextRun; then Next gives the run's items.
type Walker struct {
	body []byte // runs not yet read
	run  []byte // items of the current run not yet read
}

// Walk returns a Walker over the content of a Deliveries message.
func Walk(body []byte) Walker { return Walker{body: body} }

// NextRun reads the head of the next run into r, and returns false behind the
// last one. What Next has not read of the run before is left out.
func (w *Walker) NextRun(r *Run) (bool, error) {
	for len(w.body) > 0 {
		num, typ, n := protowire.ConsumeField(w.body)
		if n < 0 {
			return false, malformed("deliveries", n)
		}
		field := w.body
		w.body = w.body[n:]
		if num == 1 && typ == protowire.BytesType {
			w.run = fieldBytes(field)
			return true, readRun(w.run, r)
		}
	}
	return false, nil
}

func readRun(b []byte, r *Run) error {
	*r = Run{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return malformed("run", n)
		}
		readRunField(r, num, typ, b[:n])
		b = b[n:]
	}
	return nil
}

func readRunField(r *Run, num protowire.Number, typ protowire.Type, b []byte) {
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
func (w *Walker) Next(it *Item) (bool, error) {
	for len(w.run) > 0 {
		b := w.run
		if b[0] == tagBytes5 {
			v, n := protowire.ConsumeBytes(b[1:])
			if n < 0 {
				return false, malformed("run", n)
			}
			w.run = b[1+n:]
			return true, readItem(v, it)
		}
		n := skip(b)
		if n < 0 {
			return false, malformed("run", n)
		}
		w.run = b[n:]
		if v, ok := longTagItem(b[:n]); ok {
			return true, readItem(v, it)
		}
	}
	return false, nil
}

func skip(b []byte) int {
	_, _, n := protowire.ConsumeField(b)
	return n
}

// longTagItem recognises Run.deliveries whose tag is written in more bytes than
// it needs, which protobuf allows.
func longTagItem(b []byte) ([]byte, bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num != 5 || typ != protowire.BytesType {
		return nil, false
	}
	return fieldBytes(b), true
}

func readItem(b []byte, it *Item) error {
	*it = Item{}
	for len(b) > 0 {
		n, err := readItemField(b, it)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if it.ID == 0 {
		return malformedText("delivery without an id")
	}
	data, err := CheckFrame(it.Frame)
	it.Data = data
	return err
}

func readItemField(b []byte, it *Item) (int, error) {
	if b[0] == tagFixed1 && len(b) >= 9 {
		it.ID = binary.LittleEndian.Uint64(b[1:])
		return 9, nil
	}
	num, typ, n := protowire.ConsumeField(b)
	switch {
	case n < 0:
		return 0, malformed("delivery", n)
	case typ == protowire.VarintType && num == 2:
		it.Offset = int64(fieldVarint(b))
	case typ == protowire.VarintType && num == 3:
		it.Attempt = int32(fieldVarint(b))
	case typ == protowire.BytesType && num == 4:
		if it.Frame != nil {
			return 0, malformedText("delivery with two frames")
		}
		it.Frame = fieldBytes(b)
	case typ == protowire.Fixed64Type && num == 1:
		it.ID = binary.LittleEndian.Uint64(b[n-8:])
	}
	return n, nil
}

package wire

import "google.golang.org/protobuf/encoding/protowire"

// PublishResponse is a received PublishResponse. Status is the encoded
// google.rpc.Status, nil if the field is not set.
type PublishResponse struct {
	RequestID uint64
	Status    []byte
	Events    []PublishedEvent
}

// PublishedEvent is what became of one event.
type PublishedEvent struct {
	Partition, ID, Status []byte
	Offset                int64
}

// Read reads a message into r, reusing r.Events.
func (r *PublishResponse) Read(b []byte) error {
	*r = PublishResponse{Events: r.Events[:0]}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return malformed("publish answer", n)
		}
		if err := r.field(num, typ, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (r *PublishResponse) field(num protowire.Number, typ protowire.Type, b []byte) error {
	switch {
	case num == 1 && typ == protowire.VarintType:
		r.RequestID = fieldVarint(b)
	case num == 2 && typ == protowire.BytesType:
		r.Status = fieldBytes(b)
	case num == 3 && typ == protowire.BytesType:
		r.Events = append(r.Events, PublishedEvent{})
		return r.Events[len(r.Events)-1].read(fieldBytes(b))
	}
	return nil
}

func (e *PublishedEvent) read(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return malformed("published event", n)
		}
		switch {
		case num == 1 && typ == protowire.BytesType:
			e.Partition = fieldBytes(b)
		case num == 2 && typ == protowire.VarintType:
			e.Offset = int64(fieldVarint(b))
		case num == 3 && typ == protowire.BytesType:
			e.ID = fieldBytes(b)
		case num == 4 && typ == protowire.BytesType:
			e.Status = fieldBytes(b)
		}
		b = b[n:]
	}
	return nil
}

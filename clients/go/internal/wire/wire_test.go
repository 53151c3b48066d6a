package wire

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

var text = rapid.StringMatching(`[a-z0-9é]{0,12}`)

func genAttrs(t *rapid.T) []frame.Attribute {
	m := rapid.MapOfN(rapid.StringMatching(`[a-z0-9]{0,9}`), rapid.StringN(0, 200, 300), 0, 12).Draw(t, "attrs")
	attrs := make([]frame.Attribute, 0, len(m))
	for name, value := range m {
		attrs = append(attrs, frame.Attribute{Name: name, Value: value})
	}
	return attrs
}

func genFrame(t *rapid.T) Frame {
	attrs := genAttrs(t)
	extras := rapid.IntRange(0, min(len(attrs), 2)).Draw(t, "extras")
	f := Frame{
		Type:  rapid.Uint32Range(0, 3).Draw(t, "type"),
		Flags: rapid.Uint32Range(0, 255).Draw(t, "flags"),
		Seq:   rapid.Uint32().Draw(t, "seq"),
		Attrs: attrs[extras:], Extras: extras,
		Data: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"),
	}
	copy(f.Extra[:], attrs[:extras])
	return f
}

func toProto(f *Frame) *pb.EventMeshFrame {
	m := &pb.EventMeshFrame{Type: pb.MessageType(f.Type), Flags: f.Flags, Seq: f.Seq, Attributes: map[string]string{}, Data: f.Data}
	for _, a := range append(append([]frame.Attribute{}, f.Attrs...), f.extra()...) {
		m.Attributes[a.Name] = a.Value
	}
	return m
}

// TestPublishRequestEqualsGenerated: what is written by hand is what the
// generated code reads.
func TestPublishRequestEqualsGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := text.Draw(t, "topic")
		id := rapid.Uint64().Draw(t, "id")
		want := &pb.PublishRequest{Topic: topic, RequestId: id}
		b := AppendTopic(nil, topic)
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			f := genFrame(t)
			size := f.Size()
			before := len(b)
			b = AppendEvent(b, &f, size)
			if got := len(b) - before; got != EventFieldSize(size) {
				t.Fatalf("event takes %d bytes, EventFieldSize says %d", got, EventFieldSize(size))
			}
			want.Events = append(want.Events, toProto(&f))
		}
		b = AppendRequestID(b, id)
		got := &pb.PublishRequest{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func genDeliveries(t *rapid.T) *pb.Deliveries {
	m := &pb.Deliveries{}
	for range rapid.IntRange(0, 3).Draw(t, "runs") {
		run := &pb.Run{
			Subscription: rapid.Uint32().Draw(t, "sub"),
			Topic:        text.Draw(t, "topic"),
			Partition:    text.Draw(t, "partition"),
			Epoch:        rapid.Uint64().Draw(t, "epoch"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			f := genFrame(t)
			run.Deliveries = append(run.Deliveries, &pb.Delivery{
				DeliveryId: rapid.Uint64Min(1).Draw(t, "id"),
				Offset:     rapid.Int64().Draw(t, "offset"),
				Attempt:    rapid.Int32().Draw(t, "attempt"),
				Frame:      toProto(&f),
			})
		}
		m.Runs = append(m.Runs, run)
	}
	return m
}

func asResponse(m *pb.Deliveries) *pb.SubscribeResponse {
	return &pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: m}}
}

// TestDeliveriesEqualGenerated: what the generated code writes is read by hand
// as it was meant.
func TestDeliveriesEqualGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genDeliveries(t)
		b, err := proto.Marshal(asResponse(want))
		if err != nil {
			t.Fatal(err)
		}
		body, ok := Body(b)
		if !ok {
			t.Fatal("Body does not know a message of deliveries")
		}
		got, err := readAll(body)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// readAll builds the generated message out of what the reader tells.
func readAll(body []byte) (*pb.Deliveries, error) {
	m := &pb.Deliveries{}
	runs, err := AppendRuns(nil, body)
	if err != nil {
		return m, err
	}
	for i := range runs {
		head := &runs[i]
		run := &pb.Run{Subscription: head.Subscription, Topic: string(head.Topic), Partition: string(head.Partition), Epoch: head.Epoch}
		if err := readItems(head, run); err != nil {
			return m, err
		}
		if len(run.Deliveries) != head.Count {
			return m, errors.New("Run.Count is wrong")
		}
		m.Runs = append(m.Runs, run)
	}
	return m, nil
}

func readItems(r *Run, run *pb.Run) error {
	var it Item
	for {
		more, err := r.Next(&it)
		if err != nil || !more {
			return err
		}
		d := &pb.Delivery{DeliveryId: it.ID, Offset: it.Offset, Attempt: it.Attempt, Frame: frameOf(it.Frame)}
		if !bytes.Equal(d.Frame.Data, it.Data) {
			return errors.New("Item.Data is not the frame's data")
		}
		run.Deliveries = append(run.Deliveries, d)
	}
}

func frameOf(b []byte) *pb.EventMeshFrame {
	typ, flags, seq := Head(b)
	f := &pb.EventMeshFrame{Type: pb.MessageType(typ), Flags: flags, Seq: seq, Attributes: map[string]string{}}
	EachAttr(b, func(name, value []byte) bool {
		f.Attributes[string(name)] = string(value)
		return true
	})
	it := Item{Frame: b}
	_ = it.Check()
	for name := range f.Attributes {
		if v, ok := Attr(b, name); !ok || string(v) != f.Attributes[name] {
			f.Attributes[name] = "Attr disagrees with EachAttr"
		}
		if v, ok := it.Attr(name); !ok || string(v) != f.Attributes[name] {
			f.Attributes[name] = "Item.Attr disagrees with EachAttr"
		}
	}
	f.Data = it.Data
	return f
}

// TestAckEqualsGenerated: acks, nacks and extends are read by the generated code
// as they were meant.
func TestAckEqualsGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
			first := rapid.Uint64Range(1, 1<<62).Draw(t, "first")
			return Range{first, first + rapid.Uint64Range(0, 3).Draw(t, "more")}
		}), 1, 40).Draw(t, "ranges")
		kind := rapid.SampledFrom([]byte{KindAck, KindNack, KindExtend}).Draw(t, "kind")
		got := &pb.SubscribeRequest{}
		if err := proto.Unmarshal(AppendRanges(nil, kind, ranges, nil), got); err != nil {
			t.Fatal(err)
		}
		if want := asRequest(kind, ranges); !proto.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func asRequest(kind byte, ranges []Range) *pb.SubscribeRequest {
	var ids []uint64
	var rs []*pb.DeliveryRange
	for _, r := range ranges {
		if r.First == r.Last {
			ids = append(ids, r.First)
			continue
		}
		rs = append(rs, &pb.DeliveryRange{First: r.First, Last: r.Last})
	}
	switch kind {
	case KindAck:
		return &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{DeliveryIds: ids, Ranges: rs}}}
	case KindNack:
		return &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: ids, Ranges: rs}}}
	}
	return &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{DeliveryIds: ids, Ranges: rs}}}
}

// TestPublishResponseEqualsGenerated: answers are read as they were meant.
func TestPublishResponseEqualsGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &pb.PublishResponse{RequestId: rapid.Uint64().Draw(t, "id")}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			want.Events = append(want.Events, &pb.PublishedEvent{
				Partition: text.Draw(t, "partition"), Id: text.Draw(t, "id"),
				Offset: rapid.Int64().Draw(t, "offset"),
			})
		}
		b, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var r PublishResponse
		if err := r.Read(b); err != nil {
			t.Fatal(err)
		}
		got := &pb.PublishResponse{RequestId: r.RequestID}
		for _, e := range r.Events {
			got.Events = append(got.Events, &pb.PublishedEvent{Partition: string(e.Partition), Id: string(e.ID), Offset: e.Offset})
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestUnusualForms: forms that no usual encoder writes but protobuf allows.
func TestUnusualForms(t *testing.T) {
	entry := func(b ...byte) []byte { return append([]byte{tagBytes4, byte(len(b))}, b...) }
	swapped := entry(tagBytes2, 1, 'v', tagBytes1, 1, 'n')
	if v, ok := Attr(swapped, "n"); !ok || string(v) != "v" {
		t.Errorf("value before key: %q %v", v, ok)
	}
	empty := entry()
	if v, ok := Attr(empty, ""); !ok || len(v) != 0 {
		t.Errorf("entry without key and value: %q %v", v, ok)
	}
	twice := append(entry(tagBytes1, 1, 'n', tagBytes2, 1, '1'), entry(tagBytes1, 1, 'n', tagBytes2, 1, '2')...)
	if v, _ := Attr(twice, "n"); string(v) != "2" {
		t.Errorf("the last of two entries must count, got %q", v)
	}
	longTag := []byte{0xa2, 0x00, 6, tagBytes1, 1, 'n', tagBytes2, 1, 'v'}
	if v, ok := Attr(longTag, "n"); !ok || string(v) != "v" {
		t.Errorf("overlong tag: %q %v", v, ok)
	}
}

// TestItemAttr: an attribute of an item is that of its frame, whatever else is in
// the frame and wherever.
func TestItemAttr(t *testing.T) {
	entry := func(tag []byte, b ...byte) []byte { return append(append(tag, byte(len(b))), b...) }
	pieces := [][]byte{
		{tagVarint1, 3},
		{tagVarint3, 0x80, 0x01},
		{tagBytes5, 2, 'e', 'm'},
		{tagBytes5, 0},
		{9<<3 | 2, 1, 'x'}, // unknown
		{4 << 3, 1},        // of the attributes' number, and none
		entry([]byte{tagBytes4}, tagBytes1, 1, 'n', tagBytes2, 1, '1'),
		entry([]byte{tagBytes4}, tagBytes1, 1, 'n', tagBytes2, 1, '2'),
		entry([]byte{tagBytes4}, tagBytes1, 2, 'n', 'm', tagBytes2, 0),
		entry([]byte{tagBytes4}, tagBytes1, 0, tagBytes2, 1, '3'),
		entry([]byte{tagBytes4}, tagBytes2, 1, '4', tagBytes1, 1, 'n'),
		entry([]byte{tagBytes4}, tagBytes1, 1, 'n'),
		entry([]byte{tagBytes4}),
		entry([]byte{tagBytes4 | 0x80, 0}, tagBytes1, 1, 'n', tagBytes2, 1, '5'),
	}
	rapid.Check(t, func(t *rapid.T) {
		it := Item{Frame: bytes.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "pieces"), nil)}
		if err := it.Check(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"n", "nm", "", "m"} {
			want, there := Attr(it.Frame, name)
			if got, found := it.Attr(name); found != there || !bytes.Equal(got, want) {
				t.Errorf("frame %x: %q is %q, %v, want %q, %v", it.Frame, name, got, found, want, there)
			}
		}
	})
}

// TestItemAfterError: an item that could not be read has nothing of the one before.
func TestItemAfterError(t *testing.T) {
	frame := []byte{tagBytes4, 6, tagBytes1, 1, 'n', tagBytes2, 1, '1'}
	var it Item
	for _, id := range []byte{1, 0} {
		b := frame
		if id == 0 {
			b = []byte{tagVarint1, 1}
		}
		d := append([]byte{tagFixed1, id, 0, 0, 0, 0, 0, 0, 0, tagVarint2, 1, tagVarint3, 1, tagBytes4, byte(len(b))}, b...)
		if err := it.read(d); (err == nil) != (id > 0) {
			t.Fatalf("id %d: %v", id, err)
		}
		if v, found := it.Attr("n"); found != (id > 0) {
			t.Errorf("id %d: attribute %q, %v", id, v, found)
		}
	}
}

// TestNoDeliveryWithoutID: 0 is no id.
func TestNoDeliveryWithoutID(t *testing.T) {
	b, err := proto.Marshal(&pb.Deliveries{Runs: []*pb.Run{{Deliveries: []*pb.Delivery{{Offset: 3}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(b); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
}

func FuzzDeliveries(f *testing.F) {
	seed := asResponse(&pb.Deliveries{Runs: []*pb.Run{{
		Subscription: 1, Topic: "t", Partition: "0", Epoch: 2,
		Deliveries: []*pb.Delivery{{
			DeliveryId: 7, Offset: 3, Attempt: 1,
			Frame: &pb.EventMeshFrame{Attributes: map[string]string{"id": "a"}, Data: []byte("hi")},
		}},
	}}})
	b, err := proto.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{tagBytes3, 0})
	f.Add([]byte{tagBytes3, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		body, ok := Body(b)
		if !ok {
			return
		}
		got, err := readAll(body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		compareWithGenerated(t, b, got)
	})
}

// compareWithGenerated: whatever both accept, both read alike. The generated
// code refuses more: text that is not UTF-8.
func compareWithGenerated(t *testing.T, b []byte, got *pb.Deliveries) {
	var want pb.SubscribeResponse
	if proto.Unmarshal(b, &want) != nil {
		return
	}
	for _, run := range want.GetDeliveries().GetRuns() {
		for _, d := range run.Deliveries {
			if d.Frame == nil {
				d.Frame = &pb.EventMeshFrame{}
			}
		}
	}
	dropUnknown(&want)
	if !proto.Equal(got, want.GetDeliveries()) {
		t.Fatalf("got %v, want %v", got, want.GetDeliveries())
	}
}

func dropUnknown(m *pb.SubscribeResponse) {
	m.ProtoReflect().SetUnknown(nil)
	d := m.GetDeliveries()
	d.ProtoReflect().SetUnknown(nil)
	for _, r := range d.GetRuns() {
		r.ProtoReflect().SetUnknown(nil)
		for _, i := range r.Deliveries {
			i.ProtoReflect().SetUnknown(nil)
			i.Frame.ProtoReflect().SetUnknown(nil)
		}
	}
}

func FuzzPublishResponse(f *testing.F) {
	b, err := proto.Marshal(&pb.PublishResponse{RequestId: 5, Events: []*pb.PublishedEvent{{Partition: "0", Offset: 9, Id: "x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r PublishResponse
		if err := r.Read(b); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}

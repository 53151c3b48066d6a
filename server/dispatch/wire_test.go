package dispatch

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offset"
)

// decode reads wire bytes as the generated code does and requires that nothing
// of them is unknown to it.
func decode(t interface{ Fatalf(string, ...any) }, b []byte) *pb.SubscribeResponse {
	m := &pb.SubscribeResponse{}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatalf("does not decode: %v", err)
	}
	if again, _ := proto.Marshal(m); len(again) == 0 {
		t.Fatalf("decodes to nothing")
	}
	return m
}

// TestDeliveriesOnTheWire holds a message of runs against the generated code.
func TestDeliveriesOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []*pb.Run
		var bodies [][]byte
		var lens []int
		id := rapid.Uint64Range(1, 1<<62).Draw(t, "id")
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			run, body := drawRun(t, id)
			want = append(want, run)
			bodies = append(bodies, body)
			lens = append(lens, len(body))
		}
		b := appendDeliveriesHead(nil, tagResponseDeliveries, lens)
		for i, body := range bodies {
			b = append(appendRunLen(b, lens[i]), body...)
		}
		got := decode(t, b)
		if !proto.Equal(got, &pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: want}}}) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

func drawRun(t *rapid.T, id uint64) (*pb.Run, []byte) {
	run := &pb.Run{
		Subscription: rapid.Uint32Range(1, 1<<31).Draw(t, "sub"), Topic: "topic", Partition: "broker-a:3",
		Epoch: rapid.Uint64().Draw(t, "epoch"),
	}
	body := appendRunHead(nil, run.Subscription, run.Topic, run.Partition, run.Epoch)
	var pos []int32
	for i := range rapid.IntRange(1, 5).Draw(t, "deliveries") {
		size := rapid.SampledFrom([]int{0, 1, 60, 100, 110, 120, 127, 128, 200, 16000, 16300, 16384, 70000}).Draw(t, "size")
		f := frame.Frame{Type: frame.Event, Data: []byte(strings.Repeat("x", size))}
		for j := range rapid.IntRange(0, 8).Draw(t, "attrs") {
			f.Set("a"+strings.Repeat("b", j), strings.Repeat("v", rapid.IntRange(0, 200).Draw(t, "len")))
		}
		stored, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatalf("frame: %v", err)
		}
		d := &pb.Delivery{
			DeliveryId: id + uint64(i), Offset: rapid.Int64Range(0, 1<<62).Draw(t, "off"), Attempt: rapid.Int32Range(1, 300).Draw(t, "attempt"),
			Frame: &pb.EventMeshFrame{Type: pb.MessageType_MESSAGE_TYPE_EVENT, Data: f.Data},
		}
		for _, a := range f.Attributes {
			if d.Frame.Attributes == nil {
				d.Frame.Attributes = map[string]string{}
			}
			d.Frame.Attributes[a.Name] = a.Value
		}
		var at int
		if body, at, err = appendDelivery(body, d.Offset, d.Attempt, stored, frame.ProtoOptions{}); err != nil {
			t.Fatalf("delivery: %v", err)
		}
		pos = append(pos, int32(at))
		run.Deliveries = append(run.Deliveries, d)
	}
	patchIDs(body, pos, id)
	return run, body
}

// TestAckResultOnTheWire holds outcomes and positions against the generated code.
func TestAckResultOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o outcomes
		model := map[uint64]AckStatus{}
		id := uint64(1000)
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			st := AckStatus(rapid.IntRange(1, int(statusEnd)-1).Draw(t, "status"))
			mask := rapid.Uint64().Draw(t, "mask")
			o.addMask(st, id, mask)
			for i := range uint64(64) {
				if mask>>i&1 == 1 {
					model[id+i] = st
				}
			}
			id += 64 + rapid.Uint64Range(0, 2).Draw(t, "gap")
		}
		got := map[uint64]AckStatus{}
		for o.n > 0 {
			body := o.take(nil, maxOutcomesPerMessage)
			msg := append(appendVarintHead(tagResponseAckResult, len(body)), body...)
			for _, out := range decode(t, msg).GetAckResult().GetOutcomes() {
				for _, id := range out.GetDeliveryIds() {
					got[id] = AckStatus(out.GetStatus())
				}
				for _, r := range out.GetRanges() {
					for id := r.GetFirst(); id <= r.GetLast(); id++ {
						got[id] = AckStatus(out.GetStatus())
					}
				}
			}
		}
		if len(got) != len(model) {
			t.Fatalf("%d outcomes, want %d", len(got), len(model))
		}
		for id, st := range model {
			if got[id] != st {
				t.Fatalf("delivery %d: %v, want %v", id, got[id], st)
			}
		}
	})
}

// TestPositionOnTheWire holds a position against the generated code.
func TestPositionOnTheWire(t *testing.T) {
	p := position{topic: "t", subscriber: "share/s", partition: "b:1", next: 1 << 40, epoch: 7, ahead: []offset.Range{{First: 1<<40 + 2, Last: 1<<40 + 300}}}
	got := &pb.Position{}
	if err := proto.Unmarshal(appendPosition(nil, p, maxAheadRanges), got); err != nil {
		t.Fatal(err)
	}
	want := &pb.Position{Topic: "t", Subscriber: "share/s", Partition: "b:1", NextOffset: 1 << 40, Epoch: 7, FinishedAhead: []*pb.OffsetRange{{First: 1<<40 + 2, Last: 1<<40 + 300}}}
	if !proto.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

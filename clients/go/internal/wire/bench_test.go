package wire

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// eightAttrs is an event as the benchmarks of the project use it.
func eightAttrs() Frame {
	return Frame{
		Attrs: []frame.Attribute{
			{Name: "id", Value: "01J9ZQ4T8V3N5M7K2P6R0X1Y9A"},
			{Name: "source", Value: "/sensors/hall-7"},
			{Name: "type", Value: "com.example.reading"},
			{Name: "subject", Value: "temperature"},
			{Name: "time", Value: "2026-01-02T03:04:05.678Z"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "partitionkey", Value: "sensor-4711"},
			{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		},
		Data: []byte(strings.Repeat("x", 1024)),
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	f := eightAttrs()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendEvent(buf[:0], &f, f.Size())
	}
}

func BenchmarkEncodeEventGenerated(b *testing.B) {
	f := eightAttrs()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = proto.MarshalOptions{}.MarshalAppend(buf[:0], toProto(&f))
	}
}

func benchDeliveries(n int) []byte {
	f := eightAttrs()
	run := &pb.Run{Subscription: 1, Topic: "readings", Partition: "0", Epoch: 1}
	for i := range n {
		run.Deliveries = append(run.Deliveries, &pb.Delivery{DeliveryId: uint64(1000 + i), Offset: int64(i), Attempt: 1, Frame: toProto(&f)})
	}
	b, err := proto.Marshal(asResponse(&pb.Deliveries{Runs: []*pb.Run{run}}))
	if err != nil {
		panic(err)
	}
	return b
}

// BenchmarkDecodeDelivery is one delivery of a batch of 20, one attribute read.
func BenchmarkDecodeDelivery(b *testing.B) {
	msg := benchDeliveries(20)
	var runs []Run
	var err error
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		body, _ := Body(msg)
		var it Item
		runs, err = AppendRuns(runs[:0], body)
		for i := range runs {
			for more, e := runs[i].Next(&it); more && err == nil; more, e = runs[i].Next(&it) {
				if _, found := it.Attr("type"); !found || e != nil {
					b.Fatal("no type", e)
				}
				n++
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

func BenchmarkDecodeDeliveryGenerated(b *testing.B) {
	msg := benchDeliveries(20)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var m pb.SubscribeResponse
		if err := proto.Unmarshal(msg, &m); err != nil {
			b.Fatal(err)
		}
		n += len(m.GetDeliveries().Runs[0].Deliveries)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

package servertest_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that raw messages stand beside
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// wire is a message as it goes on the wire, whatever it holds.
type wire []byte

// wireCodec sends wire as it is.
type wireCodec struct{ encoding.CodecV2 }

func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(wire); ok {
		return mem.BufferSlice{mem.SliceBuffer(w)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// anyWire lets messages go that generated code refuses to write.
func anyWire() grpc.DialOption {
	return grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wireCodec{encoding.GetCodecV2("proto")}))
}

// field is a field with a value that has a length.
func field(num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), v)
}

// TestEventsWithZeroBytesAreTold: two events are told apart by source and id also
// where these hold zero bytes.
func TestEventsWithZeroBytesAreTold(t *testing.T) {
	in := Start(t, Options{})
	s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
	event := func(source, id string) *pb.EventMeshFrame {
		return &pb.EventMeshFrame{Attributes: map[string]string{"source": source, "id": id}, Data: []byte(id)}
	}
	res, err := in.Mesh().Publish(t.Context(), &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{
		event("a\x00b", "c"), event("a", "b\x00c"),
	}})
	if err != nil || res.GetStatus().GetCode() != 0 {
		t.Fatal(res, err)
	}
	if a, b := res.GetEvents()[0].GetOffset(), res.GetEvents()[1].GetOffset(); a == b {
		t.Errorf("two events were stored as one, at offset %d", a)
	}
	if !s.Await(time.Second, 2) {
		t.Errorf("came: %s", Show(s.Pending()))
	}
}

// TestReasonsAreText: the reason of a nack is text, or the dead letter could
// never be written.
func TestReasonsAreText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		mesh := pb.NewEventMeshClient(in.Dial(anyWire()))
		s := Open(t, mesh, open("c", Sub("t", broadcast)))
		Publish(t, mesh, "t", "x")
		id := s.Take(1)[0].ID
		nack := append(protowire.AppendFixed64([]byte{1<<3 | 1}, id), field(4, []byte{0xff, 0xfe})...)
		nack = append(nack, 5<<3, 1)
		if err := s.Raw.SendMsg(wire(field(4, nack))); err != nil {
			t.Fatal(err)
		}
		if err := s.End(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a reason that is not UTF-8: %v", err)
		}
	})
}

// TestRangesThatOverlap: what an Extend costs is bounded by what is outstanding,
// however often it names it.
func TestRangesThatOverlap(t *testing.T) {
	in := Start(t, Options{})
	mesh := in.Mesh()
	s := Open(t, mesh, open("c", Sub("t", broadcast)))
	var got []Got
	for range 200 {
		Publish(t, mesh, "t", "x") // each goes in a batch of its own
		got = append(got, s.Take(1)...)
	}
	ranges := make([]*pb.DeliveryRange, 10_000)
	for i := range ranges {
		ranges[i] = &pb.DeliveryRange{First: 1, Last: 1<<63 - 1}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{Ranges: ranges}}})
	s.AckDurable(got...)
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 50 {
		t.Errorf("%d MiB were allocated for one Extend of 200 deliveries", n)
	}
}

// TestNamedTwice: an id that one Ack names several times is answered once, with
// what became of it.
func TestNamedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(4)...)
		got := s.Take(4)
		first, last := got[0].ID, got[3].ID
		s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{
			DeliveryIds: []uint64{last, first, first},
			Ranges:      []*pb.DeliveryRange{{First: first, Last: first + 2}, {First: first + 1, Last: last}, {First: last + 1, Last: last + 5}},
		}}})
		for _, g := range got {
			if st := s.Outcome(g); st != pb.AckResult_STATUS_DURABLE {
				t.Errorf("offset %d: %v", g.Offset, st)
			}
		}
		if st := s.Outcome(Got{ID: last + 5}); st != pb.AckResult_STATUS_UNKNOWN {
			t.Errorf("an id that was never sent: %v", st)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 4 || p.GetInFlight() != 0 {
			t.Errorf("after all were acked: %v", p)
		}
	})
}

// TestRecommendIsBounded: a request of very many subscriptions is refused before
// it is unpacked.
func TestRecommendIsBounded(t *testing.T) {
	in := Start(t, Options{})
	conn := in.Dial(anyWire(), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))
	msg := make([]byte, 0, 4<<20)
	for range 2 << 20 {
		msg = append(msg, 3<<3|2, 0)
	}
	for _, method := range []string{"/ackmesh.v1.Session/Recommend", "/session/recommend"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := conn.Invoke(context.Background(), method, wire(msg), new(emptypb.Empty))
		runtime.ReadMemStats(&after)
		if c := status.Code(err); c != codes.InvalidArgument {
			t.Errorf("%s: %v", method, err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 60 {
			t.Errorf("%s: %d MiB were allocated for a message of 4 MiB", method, n)
		}
	}
}

// TestOpenedComesFirst: a stream that is told to go while it is opened is told
// nothing before Opened: it ends.
func TestOpenedComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var faults *storagefault.Backend
		in := Start(t, Options{Wrap: func(b storage.Backend) storage.Backend {
			faults = storagefault.New(b)
			return faults
		}})
		held := faults.Inject(storagefault.Fault{Op: storagefault.EnsureTopic, Topic: "t", Hang: true})
		raw, err := in.Mesh().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open("c", Sub("t", broadcast))}}); err != nil {
			t.Fatal(err)
		}
		<-held.Struck()
		if n := drain(t, in, &pb.DrainRequest{}); n != 1 {
			t.Errorf("%d streams were told to go", n)
		}
		held.Release()
		if msg, err := raw.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the first message: %v, %v", msg, err)
		}
	})
}

// TestAddedPaused: a Change may pause what it adds, and what it adds again.
func TestAddedPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		c := s.Change(&pb.Change{
			Remove: []uint32{1}, Pause: []uint32{1, 2},
			Add: []*pb.Subscription{Sub("t", broadcast), {Id: 2, Topic: "u", Mode: broadcast}},
		})
		for _, res := range c.GetResults() {
			if res.GetStatus().GetCode() != 0 {
				t.Errorf("subscription %d: %v", res.GetId(), res.GetStatus())
			}
		}
		Publish(t, in.Mesh(), "t", "t")
		Publish(t, in.Mesh(), "u", "u")
		s.Quiet(time.Minute)
		s.Change(&pb.Change{Resume: []uint32{1, 2}})
		s.AckDurable(s.Take(2)...)
	})
}

// TestTimesBeyondLimits: a time that a Nack or an Extend asks for and that is out of
// bounds is brought into them; the stream and what else is on it stay as they are.
func TestTimesBeyondLimits(t *testing.T) {
	const most, week = 10 * time.Minute, 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		by         *durationpb.Duration
		nack, held time.Duration // when it comes again
	}{
		"ages":           {&durationpb.Duration{Seconds: 315_576_000_000, Nanos: 1}, week, most},
		"a bit too much": {durationpb.New(week + 1), week, most},
		"two minutes":    {durationpb.New(2 * time.Minute), 2 * time.Minute, 2 * time.Minute},
		"below 0":        {durationpb.New(-time.Hour), 0, time.Second},
		"a bit below 0":  {durationpb.New(-1), 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := Start(t, Options{Config: func(cfg *server.Config) { cfg.AckTimeout.Max = most }})
				s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
				for what, want := range map[string]time.Duration{"nack": c.nack, "extend": c.held} {
					Publish(t, in.Mesh(), "t", what, "other")
					got := s.Take(2)
					begun, id := time.Now(), []uint64{got[0].ID}
					if what == "nack" {
						s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: id, Delay: c.by}}})
					} else {
						s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{DeliveryIds: id, By: c.by}}})
					}
					s.AckDurable(got[1])
					s.Await(week+time.Hour, 1)
					if took := time.Since(begun); took < want || took > want+time.Second {
						t.Errorf("%s: it comes again after %v, want %v", what, took, want)
					}
					s.AckDurable(s.Take(1)...)
				}
			})
		})
	}
}

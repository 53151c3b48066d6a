package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Got is one delivery as a client sees it.
type Got struct {
	ID        uint64
	Sub       uint32
	Topic     string
	Partition string
	Offset    int64
	Attempt   int32
	Epoch     uint64
	Frame     *pb.EventMeshFrame
}

// Data is the payload.
func (g Got) Data() string { return string(g.Frame.GetData()) }

// Data lists what deliveries carry.
func Data(got []Got) (list []string) {
	for _, g := range got {
		list = append(list, g.Data())
	}
	return list
}

// Stream is a Subscribe stream driven by a test. What comes in is read in the
// background and waits in order; the methods take from there.
type Stream struct {
	t      testing.TB
	Raw    grpc.BidiStreamingClient[pb.SubscribeRequest, pb.SubscribeResponse]
	cancel context.CancelFunc
	in     chan *pb.SubscribeResponse
	end    chan error
	Opened *pb.Opened

	deliveries []Got
	outcomes   map[uint64]pb.AckResult_Status
	notices    []*pb.Notice
	changed    []*pb.Changed
	Positions  map[string]*pb.Position // by partition, latest
	ended      error
	hasEnded   bool
	largest    int
}

// LargestControl is the size of the largest message so far that carried no
// deliveries.
func (s *Stream) LargestControl() int { return s.largest }

// Patience is how long a test waits for what must come.
const Patience = 20 * time.Second

// Sub is a subscription for Open.
func Sub(topic string, mode pb.Mode) *pb.Subscription {
	return &pb.Subscription{Id: 1, Topic: topic, Mode: mode}
}

// Earliest is a Start.
func Earliest() *pb.Start { return &pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_EARLIEST}} }

// AtTime is a Start.
func AtTime(t time.Time) *pb.Start {
	return &pb.Start{Place: &pb.Start_Time{Time: timestamppb.New(t)}}
}

// OpenFrom opens the stream of a client that gets every record of a topic, from a
// start; nil: the default.
func OpenFrom(t testing.TB, mesh pb.EventMeshClient, client, topic string, start *pb.Start) *Stream {
	t.Helper()
	sub := Sub(topic, pb.Mode_MODE_BROADCAST)
	sub.Start = start
	return Open(t, mesh, &pb.Open{ClientId: client, Subscriptions: []*pb.Subscription{sub}})
}

// Open opens a stream and waits for Opened; every subscription must stand.
func Open(t testing.TB, mesh pb.EventMeshClient, open *pb.Open) *Stream {
	t.Helper()
	s := TryOpen(t, mesh, open)
	if s.Opened == nil {
		t.Fatalf("no Opened, the stream ended: %v", s.ended)
	}
	for _, r := range s.Opened.GetResults() {
		if r.GetStatus().GetCode() != 0 {
			t.Fatalf("subscription %d refused: %v", r.GetId(), r.GetStatus())
		}
	}
	return s
}

// TryOpen is Open that takes refusals.
func TryOpen(t testing.TB, mesh pb.EventMeshClient, open *pb.Open) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	raw, err := mesh.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := drive(t, raw, cancel)
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open}})
	s.until(Patience, func() bool { return s.Opened != nil })
	return s
}

// drive drives a stream, which ends with the test.
func drive(t testing.TB, raw grpc.BidiStreamingClient[pb.SubscribeRequest, pb.SubscribeResponse], cancel context.CancelFunc) *Stream {
	s := &Stream{
		t: t, Raw: raw, cancel: cancel, in: make(chan *pb.SubscribeResponse, 1024), end: make(chan error, 1),
		outcomes: map[uint64]pb.AckResult_Status{}, Positions: map[string]*pb.Position{},
	}
	go s.read()
	t.Cleanup(func() {
		cancel()
		for range s.in { // until read has ended
		}
	})
	return s
}

func (s *Stream) read() {
	defer close(s.in)
	for {
		msg, err := s.Raw.Recv()
		if err != nil {
			s.end <- err
			return
		}
		s.in <- msg
	}
}

// Send sends one message; that the stream has ended shows elsewhere.
func (s *Stream) Send(m *pb.SubscribeRequest) {
	s.t.Helper()
	s.sent(s.Raw.Send(m))
}

// sent takes the error of sending one message.
func (s *Stream) sent(err error) {
	s.t.Helper()
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatalf("send: %v", err)
	}
}

// until takes messages until cond holds, the stream ends or patience is over.
func (s *Stream) until(patience time.Duration, cond func() bool) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for !cond() && !s.hasEnded {
		select {
		case m, ok := <-s.in:
			if !ok {
				s.ended, s.hasEnded = <-s.end, true
				continue
			}
			s.take(m)
		case <-timer.C:
			return false
		}
	}
	return cond()
}

func (s *Stream) take(m *pb.SubscribeResponse) {
	if m.GetDeliveries() == nil {
		s.largest = max(s.largest, proto.Size(m))
	}
	switch k := m.GetKind().(type) {
	case *pb.SubscribeResponse_Opened:
		s.Opened = k.Opened
		s.note(k.Opened.GetPositions())
	case *pb.SubscribeResponse_Changed:
		s.changed = append(s.changed, k.Changed)
		s.note(k.Changed.GetPositions())
	case *pb.SubscribeResponse_Notice:
		s.notices = append(s.notices, k.Notice)
	case *pb.SubscribeResponse_AckResult:
		s.takeResult(k.AckResult)
	case *pb.SubscribeResponse_Deliveries:
		for _, r := range k.Deliveries.GetRuns() {
			for _, d := range r.GetDeliveries() {
				s.deliveries = append(s.deliveries, Got{
					ID: d.GetDeliveryId(), Sub: r.GetSubscription(), Topic: r.GetTopic(), Partition: r.GetPartition(),
					Offset: d.GetOffset(), Attempt: d.GetAttempt(), Epoch: r.GetEpoch(), Frame: d.GetFrame(),
				})
			}
		}
	}
}

func (s *Stream) takeResult(r *pb.AckResult) {
	for _, o := range r.GetOutcomes() {
		for _, id := range o.GetDeliveryIds() {
			s.outcomes[id] = o.GetStatus()
		}
		for _, rg := range o.GetRanges() {
			for id := rg.GetFirst(); id <= rg.GetLast(); id++ {
				s.outcomes[id] = o.GetStatus()
			}
		}
	}
	s.note(r.GetPositions())
}

func (s *Stream) note(list []*pb.Position) {
	for _, p := range list {
		s.Positions[p.GetPartition()] = p
	}
}

// Take returns the next n deliveries.
func (s *Stream) Take(n int) []Got {
	s.t.Helper()
	if !s.until(Patience, func() bool { return len(s.deliveries) >= n }) {
		s.t.Fatalf("%d deliveries came, not %d (stream ended: %v)", len(s.deliveries), n, s.ended)
	}
	got := s.deliveries[:n:n]
	s.deliveries = s.deliveries[n:]
	return got
}

// Pending lists what has come and was not taken. It does not wait.
func (s *Stream) Pending() []Got {
	for {
		select {
		case m, ok := <-s.in:
			if !ok {
				s.ended, s.hasEnded = <-s.end, true
				return s.deliveries
			}
			s.take(m)
			continue
		default:
		}
		return s.deliveries
	}
}

// Await waits until n deliveries have come, at most for d.
func (s *Stream) Await(d time.Duration, n int) bool {
	return s.until(d, func() bool { return len(s.deliveries) >= n })
}

// Quiet requires that no delivery comes for d.
func (s *Stream) Quiet(d time.Duration) {
	s.t.Helper()
	if s.until(d, func() bool { return len(s.deliveries) > 0 }) {
		s.t.Fatalf("a delivery came where none may: %s", Show(s.deliveries))
	}
}

// Ack acks deliveries and does not wait.
func (s *Stream) Ack(got ...Got) {
	s.t.Helper()
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{DeliveryIds: ids(got)}}})
}

// Nack gives deliveries back.
func (s *Stream) Nack(got ...Got) {
	s.t.Helper()
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: ids(got), Reason: "test"}}})
}

func ids(got []Got) []uint64 {
	var list []uint64
	for _, g := range got {
		list = append(list, g.ID)
	}
	return list
}

// Outcome waits for the fate of an ack.
func (s *Stream) Outcome(g Got) pb.AckResult_Status {
	s.t.Helper()
	if !s.until(Patience, func() bool { return s.outcomes[g.ID] != 0 }) {
		s.t.Fatalf("no AckResult for delivery %d of offset %d (stream ended: %v)", g.ID, g.Offset, s.ended)
	}
	st := s.outcomes[g.ID]
	delete(s.outcomes, g.ID)
	return st
}

// AckDurable acks and requires DURABLE for each.
func (s *Stream) AckDurable(got ...Got) {
	s.t.Helper()
	s.Ack(got...)
	for _, g := range got {
		if st := s.Outcome(g); st != pb.AckResult_STATUS_DURABLE {
			s.t.Fatalf("ack of offset %d of partition %s: %v", g.Offset, g.Partition, st)
		}
	}
}

// Notice waits for a notice of a kind.
func (s *Stream) Notice(kind pb.Notice_Kind) *pb.Notice {
	s.t.Helper()
	var found *pb.Notice
	ok := s.until(Patience, func() bool {
		for _, n := range s.notices {
			if n.GetKind() == kind {
				found = n
				return true
			}
		}
		return false
	})
	if !ok {
		s.t.Fatalf("no notice %v came (stream ended: %v)", kind, s.ended)
	}
	return found
}

// Change sends a Change and waits for its answer.
func (s *Stream) Change(c *pb.Change) *pb.Changed {
	s.t.Helper()
	n := len(s.changed)
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Change{Change: c}})
	if !s.until(Patience, func() bool { return len(s.changed) > n }) {
		s.t.Fatalf("no Changed came (stream ended: %v)", s.ended)
	}
	return s.changed[n]
}

// CloseSend half-closes and waits for the end; nil: it ended with OK.
func (s *Stream) CloseSend() error {
	s.t.Helper()
	if err := s.Raw.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	return s.End()
}

// End waits for the end of the stream and returns what it ended with; nil: OK.
func (s *Stream) End() error {
	s.t.Helper()
	s.until(Patience, func() bool { return false })
	if !s.hasEnded {
		s.t.Fatal("the stream does not end")
	}
	if errors.Is(s.ended, io.EOF) {
		return nil
	}
	return s.ended
}

// Break drops the stream as a client that dies does.
func (s *Stream) Break() { s.cancel() }

// TakeFromStart takes n deliveries and wants each partition's to begin at 0 and
// to leave no offset out. It returns how many came of each.
func (s *Stream) TakeFromStart(n int) (came map[string]int64) {
	s.t.Helper()
	came = map[string]int64{}
	for _, g := range s.Take(n) {
		if g.Offset != came[g.Partition] {
			s.t.Errorf("partition %s: %d after %d", g.Partition, g.Offset, came[g.Partition]-1)
		}
		came[g.Partition]++
	}
	return came
}

// Publish publishes payloads to a topic and returns where they are.
func Publish(t testing.TB, mesh pb.EventMeshClient, topic string, data ...string) []*pb.PublishedEvent {
	t.Helper()
	return PublishKey(t, mesh, topic, "", data...)
}

// PublishKey is Publish with a partition key; empty: without one.
func PublishKey(t testing.TB, mesh pb.EventMeshClient, topic, key string, data ...string) []*pb.PublishedEvent {
	t.Helper()
	req := &pb.PublishRequest{Topic: topic, PartitionKey: key}
	for _, d := range data {
		req.Events = append(req.Events, &pb.EventMeshFrame{Data: []byte(d)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	res, err := mesh.Publish(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if res.GetStatus().GetCode() != 0 {
		t.Fatalf("publish: %v", res.GetStatus())
	}
	for i, e := range res.GetEvents() {
		if e.GetStatus().GetCode() != 0 {
			t.Fatalf("publish event %d: %v", i, e.GetStatus())
		}
	}
	return res.GetEvents()
}

// Numbers is n payloads m0, m1, ….
func Numbers(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%d", i)
	}
	return list
}

// Offsets lists the offsets of deliveries.
func Offsets(got []Got) []int64 {
	var list []int64
	for _, g := range got {
		list = append(list, g.Offset)
	}
	return list
}

// Show writes deliveries for a message.
func Show(got []Got) string {
	out := ""
	for _, g := range got {
		out += fmt.Sprintf("[%s/%s:%d #%d id %d %q]", g.Topic, g.Partition, g.Offset, g.Attempt, g.ID, g.Data())
	}
	return out
}

// Eventually wants f to become nil within patience.
func Eventually(t testing.TB, patience time.Duration, f func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("after %v still: %v", patience, err)
		}
	}
}

// UntilPoison takes and acks deliveries until one of the data "poison" comes, which
// is told, or none for a second. What comes together with the poison is not acked;
// the data of what is acked is noted in finished.
func (s *Stream) UntilPoison(finished map[string]bool) (came bool) {
	for s.Await(time.Second, 1) {
		got := s.Take(len(s.Pending()))
		for _, g := range got {
			if g.Data() == "poison" {
				return true
			}
		}
		s.AckDurable(got...)
		for _, g := range got {
			finished[g.Data()] = true
		}
	}
	return false
}

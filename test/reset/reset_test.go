//go:build long

// Package reset moves positions under load, again and again, with the server
// killed right after every tenth answer.
package reset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

const (
	partitions = 3
	perTopic   = 3000
	rounds     = 200
)

// share is what the three clients of a share saw and may ack.
type share struct {
	t  *testing.T
	mu sync.Mutex
	// upTo is the epoch whose deliveries are acked; later ones are held.
	upTo  map[string]uint64
	first map[string]delivered // the first held delivery of each partition
	acked int
	wake  chan struct{}
}

type delivered struct {
	epoch  uint64
	offset int64
}

// take notes deliveries of one stream and returns which to ack.
func (s *share) take(d *pb.Deliveries) (ack []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range d.GetRuns() {
		p := run.GetPartition()
		for _, x := range run.GetDeliveries() {
			if run.GetEpoch() <= s.upTo[p] {
				ack = append(ack, x.GetDeliveryId())
				s.acked++
				continue
			}
			f, seen := s.first[p]
			if !seen || run.GetEpoch() > f.epoch || run.GetEpoch() == f.epoch && x.GetOffset() < f.offset {
				s.first[p] = delivered{run.GetEpoch(), x.GetOffset()}
			}
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return ack
}

// run keeps one client subscribed until ctx ends.
func (s *share) run(ctx context.Context, mesh pb.EventMeshClient, client string) {
	for ctx.Err() == nil {
		s.session(ctx, mesh, client)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *share) session(ctx context.Context, mesh pb.EventMeshClient, client string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := mesh.Subscribe(ctx)
	if err != nil {
		return
	}
	window := int32(100_000)
	err = stream.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: &pb.Open{
		ClientId: client, MaxInFlight: &window,
		Subscriptions: []*pb.Subscription{{Id: 1, Topic: "t", Mode: pb.Mode_MODE_LOAD_BALANCE, Share: "s"}},
	}}})
	for err == nil {
		var msg *pb.SubscribeResponse
		if msg, err = stream.Recv(); err != nil {
			return
		}
		if ack := s.take(msg.GetDeliveries()); len(ack) > 0 {
			err = stream.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{DeliveryIds: ack}}})
		}
	}
}

// TestResetUnderLoad: whatever is under way, the next new delivery after a reset
// is at its target, and no ack of before moves anything.
func TestResetUnderLoad(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	srv := process.Start(t, t.TempDir())
	admin, mesh := pb.NewAdminClient(srv.DialAdmin()), pb.NewEventMeshClient(srv.Dial())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := admin.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	s := &share{t: t, upTo: map[string]uint64{}, first: map[string]delivered{}, wake: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Add(1)
		go func() { defer wg.Done(); s.run(ctx, mesh, fmt.Sprint("c", i)) }()
	}
	publish(t, mesh)
	for round := range rounds {
		s.round(ctx, srv, admin, rnd, round)
	}
	cancel()
	wg.Wait()
	t.Logf("%d acks were sent in %d rounds", s.acked, rounds)
	srv.Check()
}

func publish(t *testing.T, mesh pb.EventMeshClient) {
	t.Helper()
	for p := range partitions * perTopic / 100 {
		req := &pb.PublishRequest{Topic: "t"}
		for i := range 100 {
			req.Events = append(req.Events, &pb.EventMeshFrame{Data: fmt.Append(nil, p*100+i)})
		}
		ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
		_, err := mesh.Publish(ctx, req)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *share) round(ctx context.Context, srv *process.Server, admin pb.AdminClient, rnd *rand.Rand, round int) {
	s.t.Helper()
	<-time.After(time.Duration(rnd.IntN(30)) * time.Millisecond) // anywhere in the flood
	target := rnd.Int64N(perTopic * 8 / 10)
	call, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	res, err := admin.ResetOffset(call, &pb.ResetOffsetRequest{
		Topic: "t", Subscriber: "share/s", To: &pb.Start{Place: &pb.Start_Offset{Offset: target}},
	})
	if err != nil {
		s.t.Fatalf("round %d: %v", round, err)
	}
	if round%10 == 9 {
		srv.Kill()
		srv.Up()
	}
	want := map[string]*pb.ResetPartition{}
	for _, p := range res.GetPartitions() {
		want[p.GetPartition()] = p
	}
	if len(want) != partitions {
		s.t.Fatalf("round %d: reset of %d partitions: %v", round, len(want), res)
	}
	s.awaitFirst(call, round, want)
	s.positions(call, round, admin, want)
	s.release(want)
}

// awaitFirst waits for the first delivery of the new epoch in every partition.
func (s *share) awaitFirst(ctx context.Context, round int, want map[string]*pb.ResetPartition) {
	s.t.Helper()
	for {
		s.mu.Lock()
		here := 0
		for p, r := range want {
			f, ok := s.first[p]
			switch {
			case !ok || f.epoch < r.GetEpoch():
			case f.epoch > r.GetEpoch():
				s.t.Errorf("round %d partition %s: epoch %d came, %d was answered", round, p, f.epoch, r.GetEpoch())
				here++
			case f.offset < r.GetTo():
				s.t.Errorf("round %d partition %s: offset %d came, below the target %d", round, p, f.offset, r.GetTo())
				here++
			case f.offset == r.GetTo():
				here++
			}
		}
		s.mu.Unlock()
		if here == len(want) {
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			s.t.Fatalf("round %d: first deliveries %v, want %v", round, s.first, want)
		}
	}
}

// positions sees that nothing has moved: all acks so far were of older epochs.
func (s *share) positions(ctx context.Context, round int, admin pb.AdminClient, want map[string]*pb.ResetPartition) {
	s.t.Helper()
	res, err := admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: "t", Subscriber: "share/s"})
	if err != nil {
		s.t.Fatalf("round %d: %v", round, err)
	}
	for _, o := range res.GetOffsets() {
		r := want[o.GetPartition()]
		if o.GetPosition() != r.GetTo() || o.GetEpoch() != r.GetEpoch() || o.GetFinishedAhead() != 0 {
			s.t.Fatalf("round %d partition %s: position %d epoch %d, %d finished ahead; reset to %d epoch %d", round, o.GetPartition(), o.GetPosition(), o.GetEpoch(), o.GetFinishedAhead(), r.GetTo(), r.GetEpoch())
		}
	}
}

// release lets the new epoch be acked from now on. What was held of it is not
// acked, so that it is still in flight at the next reset.
func (s *share) release(want map[string]*pb.ResetPartition) {
	s.mu.Lock()
	for p, r := range want {
		s.upTo[p] = r.GetEpoch()
	}
	clear(s.first)
	s.mu.Unlock()
}

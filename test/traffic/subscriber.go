package traffic

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// SubscriberConfig says who subscribes to what.
type SubscriberConfig struct {
	Client, Topic string
	// Share makes it a member of a share, else it gets everything.
	Share string
	// Window is the most records in flight. Default 200.
	Window int
	// Start is where it begins; nil: behind the last record.
	Start *pb.Start
	// Hoard is how many of 1,000 first deliveries are not acked until the
	// stream breaks or the run drains.
	Hoard int
	// Breaks is after how many of 10,000 deliveries the client breaks its
	// stream, until the run drains.
	Breaks int
}

// subscriber opens stream after stream and acks in random order.
type subscriber struct {
	r    *Run
	cfg  SubscriberConfig
	name string
	mesh pb.EventMeshClient
	rnd  *rand.Rand
}

// Subscribe starts a subscriber, which lives until the run stops.
func (r *Run) Subscribe(cfg SubscriberConfig) {
	if cfg.Window == 0 {
		cfg.Window = 200
	}
	s := &subscriber{r: r, cfg: cfg, name: "client/" + cfg.Client, mesh: pb.NewEventMeshClient(r.dial()), rnd: r.rand("subscriber " + cfg.Client)}
	if cfg.Share != "" {
		s.name = "share/" + cfg.Share
	}
	r.clients.Go(func() {
		for r.Gate.Wait(r.ctx) == nil {
			s.session()
		}
	})
}

func (s *subscriber) open() *pb.Open {
	sub := &pb.Subscription{Id: 1, Topic: s.cfg.Topic, Mode: pb.Mode_MODE_BROADCAST, Share: s.cfg.Share, Start: s.cfg.Start}
	if s.cfg.Share != "" {
		sub.Mode = pb.Mode_MODE_LOAD_BALANCE
	}
	window := int32(s.cfg.Window)
	return &pb.Open{ClientId: s.cfg.Client, MaxInFlight: &window, AckTimeout: durationpb.New(time.Hour), Subscriptions: []*pb.Subscription{sub}}
}

// session is one stream, from its Open to its end.
func (s *subscriber) session() {
	ctx, cancel := context.WithCancel(s.r.ctx)
	defer cancel()
	raw, err := s.mesh.Subscribe(ctx, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	s.r.state.update(func(c *Counts) { c.Streams++; c.Opens++ })
	st := &session{
		s: s, raw: raw, id: s.r.Rec.Open(s.name, s.cfg.Window), opening: true, cancel: cancel,
		flying: map[uint64]bool{}, more: make(chan struct{}, 1),
	}
	acker := make(chan struct{})
	go func() {
		defer close(acker)
		st.ack(ctx)
	}()
	// An error of Send shows in Recv.
	_ = raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: s.open()}})
	for {
		msg, err := raw.Recv()
		if err != nil {
			break
		}
		st.take(msg)
	}
	cancel()
	<-acker
	st.close()
}

// session is one stream.
type session struct {
	s       *subscriber
	raw     grpc.BidiStreamingClient[pb.SubscribeRequest, pb.SubscribeResponse]
	id      int32
	opening bool
	broken  bool // by the client
	cancel  context.CancelFunc

	more  chan struct{} // there is something to ack
	mu    sync.Mutex
	held  []uint64 // deliveries to be acked
	hoard []uint64 // deliveries that are not
	// flying are acks that are not answered.
	flying map[uint64]bool
}

func (st *session) take(m *pb.SubscribeResponse) {
	switch k := m.GetKind().(type) {
	case *pb.SubscribeResponse_Opened:
		st.opened(k.Opened)
	case *pb.SubscribeResponse_Deliveries:
		for _, run := range k.Deliveries.GetRuns() {
			st.takeRun(run)
		}
	case *pb.SubscribeResponse_AckResult:
		st.takeResult(k.AckResult)
	}
}

func (st *session) opened(o *pb.Opened) {
	for _, res := range o.GetResults() {
		if res.GetStatus().GetCode() != 0 {
			st.s.r.t.Errorf("%s: subscription refused: %v", st.s.name, res.GetStatus())
		}
	}
	list := positions(o.GetPositions())
	if len(list) == 0 { // a log that hands records out
		list = []tracecheck.Position{{Partition: partition(st.s.cfg.Topic, "")}}
	}
	st.s.r.Rec.Opened(st.id, list)
	st.opening = false
	st.s.r.state.update(func(c *Counts) { c.Opens-- })
}

func positions(list []*pb.Position) []tracecheck.Position {
	var out []tracecheck.Position
	for _, p := range list {
		pos := tracecheck.Position{Partition: partition(p.GetTopic(), p.GetPartition()), Next: p.GetNextOffset(), Epoch: p.GetEpoch()}
		for _, r := range p.GetFinishedAhead() {
			pos.Ahead = append(pos.Ahead, offset.Range{First: r.GetFirst(), Last: r.GetLast()})
		}
		out = append(out, pos)
	}
	return out
}

func (st *session) takeRun(run *pb.Run) {
	part := partition(run.GetTopic(), run.GetPartition())
	var events []tracecheck.Event
	for _, d := range run.GetDeliveries() {
		id, err := number(d.GetFrame())
		if err != nil {
			st.s.r.t.Errorf("%s got offset %d of %s: %v", st.s.name, d.GetOffset(), part, err)
		}
		events = append(events, tracecheck.Event{
			Kind: tracecheck.Delivered, Stream: st.id, Delivery: d.GetDeliveryId(), Partition: part,
			Offset: d.GetOffset(), Attempt: d.GetAttempt(), Epoch: run.GetEpoch(), ID: id,
		})
	}
	st.s.r.Rec.Add(events...)
	for _, e := range events {
		st.s.r.state.deliver(st.s.name, part, e.Offset)
		st.hold(e)
		if st.s.rnd.IntN(10_000) < st.s.cfg.Breaks && !st.s.r.isDraining() {
			st.breakOff()
		}
	}
}

// breakOff ends the stream as a client that dies does.
func (st *session) breakOff() {
	if !st.broken {
		st.broken = true
		st.s.r.Rec.Add(tracecheck.Event{Kind: tracecheck.Closed, Stream: st.id})
		st.cancel()
	}
}

// hold keeps a delivery for the acker.
func (st *session) hold(e tracecheck.Event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if e.Attempt == 1 && st.s.rnd.IntN(1000) < st.s.cfg.Hoard && !st.s.r.isDraining() {
		st.hoard = append(st.hoard, e.Delivery)
		return
	}
	st.held = append(st.held, e.Delivery)
	st.signal()
}

func (st *session) signal() {
	select {
	case st.more <- struct{}{}:
	default:
	}
}

// ack acks what is held, in random order and in portions, until the stream
// ends.
func (st *session) ack(ctx context.Context) {
	rnd := st.s.r.rand("acker " + st.s.cfg.Client)
	draining := st.s.r.draining
	for {
		select {
		case <-st.more:
		case <-draining:
			draining = nil
			st.release()
		case <-ctx.Done():
			return
		}
		for ids := st.pick(rnd); len(ids) > 0; ids = st.pick(rnd) {
			st.sendAck(ids)
		}
	}
}

// release gives up the hoard.
func (st *session) release() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.held = append(st.held, st.hoard...)
	st.hoard = nil
	st.signal()
}

// pick takes some of what is held.
func (st *session) pick(rnd *rand.Rand) []uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.held) == 0 {
		return nil
	}
	n := 1 + rnd.IntN(min(len(st.held), 50))
	for i := range n {
		k := i + rnd.IntN(len(st.held)-i)
		st.held[i], st.held[k] = st.held[k], st.held[i]
	}
	ids := append([]uint64(nil), st.held[:n]...)
	st.held = append(st.held[:0], st.held[n:]...)
	for _, id := range ids {
		st.flying[id] = true
	}
	return ids
}

func (st *session) sendAck(ids []uint64) {
	events := make([]tracecheck.Event, len(ids))
	for i, id := range ids {
		events[i] = tracecheck.Event{Kind: tracecheck.Ack, Stream: st.id, Delivery: id}
	}
	st.s.r.Rec.Add(events...)
	st.s.r.state.update(func(c *Counts) { c.Acks += len(ids) })
	// An error of Send shows in Recv.
	_ = st.raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{DeliveryIds: ids}}})
}

func (st *session) takeResult(res *pb.AckResult) {
	var events []tracecheck.Event
	for _, o := range res.GetOutcomes() {
		answer := func(id uint64) {
			events = append(events, tracecheck.Event{Kind: tracecheck.Answer, Status: tracecheck.Status(o.GetStatus()), Stream: st.id, Delivery: id})
		}
		for _, id := range o.GetDeliveryIds() {
			answer(id)
		}
		for _, rg := range o.GetRanges() {
			for id := rg.GetFirst(); id <= rg.GetLast(); id++ {
				answer(id)
			}
		}
	}
	st.s.r.Rec.Add(events...)
	st.s.r.Rec.Positions(st.id, positions(res.GetPositions()))
	st.s.r.state.update(func(c *Counts) { c.Acks -= len(events) })
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range events {
		delete(st.flying, e.Delivery)
		if e.Status == tracecheck.Retry {
			st.held = append(st.held, e.Delivery)
			st.signal()
		}
	}
}

// close records the end of the stream.
func (st *session) close() {
	if !st.broken {
		st.s.r.Rec.Add(tracecheck.Event{Kind: tracecheck.Closed, Stream: st.id})
	}
	st.s.r.state.update(func(c *Counts) {
		c.Streams--
		c.Acks -= len(st.flying)
		if st.opening {
			c.Opens--
		}
	})
}

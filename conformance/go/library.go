package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Library is a Client of the library clients/go. It speaks the messages of the wire
// contract to the steps and the library's own terms to the library: an AckResult is
// what OnConfirm was told. What the library tells nobody is made up: that a nack was
// taken, and that an ack which does not count is UNKNOWN.
type Library struct{ Mesh }

// Publish publishes by Client.Publish.
func (l Library) Publish(ctx context.Context, req *pb.PublishRequest) (answer *pb.PublishResponse, err error) {
	c, err := ackmesh.New(ackmesh.Config{Addresses: []string{l.GRPC}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	events := make([]*ackmesh.Event, len(req.GetEvents()))
	for i, f := range req.GetEvents() {
		events[i] = ackmesh.EventFromMap(f.GetAttributes(), f.GetData())
		if _, own := events[i].Get(ackmesh.AttrPartitionKey); !own && req.GetPartitionKey() != "" {
			events[i].SetPartitionKey(req.GetPartitionKey())
		}
	}
	results, err := c.Publish(ctx, req.GetTopic(), events...)
	answer = &pb.PublishResponse{RequestId: req.GetRequestId(), Status: statusOf(err)}
	for _, r := range results {
		answer.Events = append(answer.Events, &pb.PublishedEvent{Partition: r.Partition, Offset: r.Offset, Id: r.ID, Status: statusOf(r.Err)})
	}
	return answer, nil
}

func statusOf(err error) *rpcstatus.Status { return status.Convert(err).Proto() }

// Subscribe is a Stream as soon as Open is sent.
func (l Library) Subscribe() (Call, error) {
	c := &libraryCall{
		mesh: l.Mesh, out: make(chan arrival, 1000), done: make(chan struct{}),
		held: map[uint64]*ackmesh.Delivery{}, names: map[string]uint32{}, own: map[uint32]uint32{},
	}
	return c, nil
}

// libraryCall is a Client and its one Stream.
type libraryCall struct {
	mesh   Mesh
	client *ackmesh.Client
	stream *ackmesh.Stream
	out    chan arrival
	done   chan struct{}
	once   sync.Once

	mu    sync.Mutex
	held  map[uint64]*ackmesh.Delivery // what came and was not answered
	names map[string]uint32            // the scenario's subscription of a topic
	own   map[uint32]uint32            // the library's id of the scenario's subscription
	conns []net.Conn
	cut   bool
}

// tell passes a message, or the end, on to Recv.
func (c *libraryCall) tell(msg *pb.SubscribeResponse, err error) {
	select {
	case c.out <- arrival{msg: msg, err: err}:
	case <-c.done:
	}
}

func (c *libraryCall) tellFate(id uint64, st pb.AckResult_Status) {
	c.tell(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{
		Outcomes: []*pb.AckResult_Outcome{{Status: st, DeliveryIds: []uint64{id}}},
	}}}, nil)
}

// Recv returns what the stream told.
func (c *libraryCall) Recv() (*pb.SubscribeResponse, error) {
	select {
	case a := <-c.out:
		return a.msg, a.err
	case <-c.done:
		return nil, errors.New("the connection was cut")
	}
}

// Send does what a message asks for.
func (c *libraryCall) Send(msg *pb.SubscribeRequest) error {
	switch k := msg.GetKind().(type) {
	case *pb.SubscribeRequest_Open:
		return c.open(k.Open)
	case *pb.SubscribeRequest_Change:
		c.change(k.Change)
		return nil
	case *pb.SubscribeRequest_Ack:
		return c.answer(k.Ack.GetDeliveryIds(), k.Ack.GetRanges(), func(id uint64, d *ackmesh.Delivery) {
			if d == nil || !d.Ack() {
				c.tellFate(id, pb.AckResult_STATUS_UNKNOWN)
			} // else OnConfirm tells
		})
	case *pb.SubscribeRequest_Nack:
		return c.answer(k.Nack.GetDeliveryIds(), k.Nack.GetRanges(), func(id uint64, d *ackmesh.Delivery) {
			fate := pb.AckResult_STATUS_UNKNOWN
			if d != nil && d.Nack(whyOf(k.Nack)) {
				fate = pb.AckResult_STATUS_DURABLE
			}
			c.tellFate(id, fate)
		})
	}
	return fmt.Errorf("the library has no %T", msg.GetKind())
}

// whyOf is the error that a handler would return for a Nack.
func whyOf(n *pb.Nack) error {
	var why error
	if n.GetReason() != "" {
		why = errors.New(n.GetReason())
	}
	switch {
	case n.GetDeadLetter():
		return ackmesh.DeadLetter(why)
	case n.GetDelay() != nil:
		return ackmesh.RetryAfter(n.GetDelay().AsDuration(), why)
	}
	return why
}

// open opens the Stream. What the library refuses itself is refused here.
func (c *libraryCall) open(o *pb.Open) (err error) {
	c.client, err = ackmesh.New(ackmesh.Config{
		Addresses: []string{c.mesh.GRPC}, ClientID: o.GetClientId(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(c.dial)},
	})
	if err != nil {
		return err
	}
	cfg := ackmesh.SubscribeConfig{
		MaxInFlight: int(o.GetMaxInFlight()), AckTimeout: o.GetAckTimeout().AsDuration(),
		OnConfirm: c.confirmed, OnNotice: c.noticed,
	}
	for _, sub := range o.GetSubscriptions() {
		if sub.GetRetry() != nil {
			return errors.New("the library has no retry policy")
		}
		cfg.Subscriptions = append(cfg.Subscriptions, subscriptionOf(sub))
		c.named(sub.GetId(), sub.GetTopic())
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultPatience)
	defer cancel()
	if c.stream, err = c.client.OpenStream(ctx, cfg); err != nil {
		c.tell(nil, err)
		return nil
	}
	c.adopt(o.GetSubscriptions())
	c.tell(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: c.opened()}}, nil)
	go c.receive()
	return nil
}

// named notes that deliveries of a topic are those of a subscription.
func (c *libraryCall) named(id uint32, topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[topic] = id
}

// adopt notes which ids the library has given to subscriptions.
func (c *libraryCall) adopt(subs []*pb.Subscription) {
	for own, has := range c.stream.Subscriptions() {
		for _, sub := range subs {
			if sub.GetTopic() == has.Topic {
				c.own[sub.GetId()] = own
			}
		}
	}
}

func (c *libraryCall) opened() *pb.Opened {
	o := &pb.Opened{InstanceId: c.stream.Instance()}
	for id := range c.own {
		o.Results = append(o.Results, &pb.SubscriptionResult{Id: id})
	}
	for _, p := range c.stream.Positions() {
		told := &pb.Position{Topic: p.Topic, Subscriber: p.Subscriber, Partition: p.Partition, NextOffset: p.NextOffset, Epoch: p.Epoch}
		for _, r := range p.FinishedAhead {
			told.FinishedAhead = append(told.FinishedAhead, &pb.OffsetRange{First: r.First, Last: r.Last})
		}
		o.Positions = append(o.Positions, told)
	}
	return o
}

func subscriptionOf(sub *pb.Subscription) ackmesh.Subscription {
	out := ackmesh.Subscription{
		Topic: sub.GetTopic(), Mode: ackmesh.Mode(sub.GetMode()), Share: sub.GetShare(), Filter: sub.GetFilter(),
		Ordered: sub.GetOrdered(), MaxInFlight: int(sub.GetMaxInFlight()),
	}
	switch place := sub.GetStart().GetPlace().(type) {
	case *pb.Start_At_:
		if place.At == pb.Start_AT_EARLIEST {
			out.Start = ackmesh.Earliest()
		}
	case *pb.Start_Offset:
		out.Start = ackmesh.AtOffset(place.Offset)
	}
	return out
}

// receive takes whatever comes, until the stream ends.
func (c *libraryCall) receive() {
	for {
		batch, err := c.stream.Recv(context.Background())
		if errors.Is(err, ackmesh.ErrClosed) {
			return // Close or CloseSend tells the end
		}
		if err != nil {
			c.tell(nil, coded(err))
			return
		}
		for _, d := range batch.All() {
			c.delivered(d)
		}
	}
}

// coded gives an error of the library's own the status that it stands for.
func coded(err error) error {
	if !errors.Is(err, ackmesh.ErrSuperseded) {
		return err
	}
	st, derr := status.New(codes.Aborted, err.Error()).WithDetails(&errdetails.ErrorInfo{Reason: "SUPERSEDED", Domain: "ackmesh"})
	return cmp.Or(derr, st.Err())
}

func (c *libraryCall) delivered(d *ackmesh.Delivery) {
	c.mu.Lock()
	c.held[d.DeliveryID()] = d
	id := c.names[d.Topic()]
	c.mu.Unlock()
	frame := &pb.EventMeshFrame{Attributes: d.Map(), Data: slices.Clone(d.Data())}
	one := &pb.Delivery{DeliveryId: d.DeliveryID(), Offset: d.Offset(), Attempt: int32(d.Attempt()), Frame: frame}
	run := &pb.Run{Subscription: id, Topic: d.Topic(), Partition: d.Partition(), Deliveries: []*pb.Delivery{one}}
	c.tell(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: []*pb.Run{run}}}}, nil)
}

func (c *libraryCall) confirmed(r ackmesh.Ref, err error) {
	fate := pb.AckResult_STATUS_DURABLE
	switch {
	case errors.Is(err, ackmesh.ErrNotOutstanding):
		fate = pb.AckResult_STATUS_UNKNOWN
	case errors.Is(err, ackmesh.ErrStale):
		fate = pb.AckResult_STATUS_STALE
	case errors.Is(err, ackmesh.ErrFenced):
		fate = pb.AckResult_STATUS_FENCED
	}
	c.tellFate(r.DeliveryID, fate)
}

func (c *libraryCall) noticed(n ackmesh.Notice) {
	c.mu.Lock()
	id := c.names[n.Topic]
	c.mu.Unlock()
	told := &pb.Notice{Kind: pb.Notice_Kind(n.Kind), Detail: n.Detail, Subscription: id}
	c.tell(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Notice{Notice: told}}, nil)
}

// answer does something with each delivery that is named. nil: it did not come here.
// A range names only what came.
func (c *libraryCall) answer(ids []uint64, ranges []*pb.DeliveryRange, do func(uint64, *ackmesh.Delivery)) error {
	all := map[uint64]*ackmesh.Delivery{}
	c.mu.Lock()
	for _, id := range ids {
		all[id] = c.held[id]
	}
	for id, d := range c.held {
		if slices.ContainsFunc(ranges, func(r *pb.DeliveryRange) bool { return r.GetFirst() <= id && id <= r.GetLast() }) {
			all[id] = d
		}
	}
	c.mu.Unlock()
	for id, d := range all {
		do(id, d)
	}
	return nil
}

// change does what a Change asks for, one after another.
func (c *libraryCall) change(ch *pb.Change) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultPatience)
	defer cancel()
	changed := &pb.Changed{ChangeId: ch.GetChangeId()}
	note := func(id uint32, err error) {
		changed.Results = append(changed.Results, &pb.SubscriptionResult{Id: id, Status: statusOf(err)})
	}
	for _, sub := range ch.GetAdd() {
		c.named(sub.GetId(), sub.GetTopic())
		own, err := c.stream.Add(ctx, subscriptionOf(sub))
		c.own[sub.GetId()] = own
		note(sub.GetId(), err)
	}
	// An id that the library did not give is one that it does not know.
	of := func(id uint32) uint32 { return cmp.Or(c.own[id], 1<<31+id) }
	for _, id := range ch.GetRemove() {
		note(id, c.stream.Remove(ctx, of(id)))
	}
	for _, id := range ch.GetPause() {
		note(id, c.stream.Pause(ctx, of(id)))
	}
	for _, id := range ch.GetResume() {
		note(id, c.stream.Resume(ctx, of(id)))
	}
	c.tell(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Changed{Changed: changed}}, nil)
}

// CloseSend ends the stream in order, and gives back what is open.
func (c *libraryCall) CloseSend() error {
	go func() {
		err := c.stream.Close(gone())
		if left := (*ackmesh.CloseError)(nil); err == nil || errors.As(err, &left) && left.Unconfirmed == 0 {
			err = io.EOF
		}
		c.tell(nil, err)
	}()
	return nil
}

// gone is a context that has ended.
func gone() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// dial notes connections, so that they can be cut.
func (c *libraryCall) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Close cuts the connections, as when the process dies.
func (c *libraryCall) Close() {
	c.once.Do(func() {
		c.mu.Lock()
		c.cut = true
		for _, conn := range c.conns {
			_ = conn.Close() // whatever it was about
		}
		c.mu.Unlock()
		close(c.done)
		if c.client != nil {
			_ = c.client.Shutdown(gone()) // what it leaves is what was cut
		}
	})
}

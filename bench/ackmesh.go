package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ackmesh/ackmesh/bench/load"
	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/auth"
)

// mesh is the load.Driver of Ackmesh: its own Go client with its defaults.
type mesh struct {
	address, token string
	inFlight       int
	admin          pb.AdminClient
}

func openMesh(spec load.Spec) (load.Driver, error) {
	cc, err := grpc.NewClient(spec.Admin, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(auth.Bearer{Token: spec.Token, Plaintext: true}))
	if err != nil {
		return nil, err
	}
	return &mesh{address: spec.Address, token: spec.DataToken, inFlight: spec.InFlight, admin: pb.NewAdminClient(cc)}, nil
}

// MakeTopic makes a topic with the server's default number of partitions.
func (m *mesh) MakeTopic(ctx context.Context, topic string) error {
	_, err := m.admin.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: topic})
	return err
}

// Unfinished is the lag of the subscriber over all partitions.
func (m *mesh) Unfinished(ctx context.Context, topic string, sub load.Sub) (int64, error) {
	name := "client/" + sub.Name
	if sub.Share != "" {
		name = "share/" + sub.Share
	}
	res, err := m.admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: topic, Subscriber: name})
	if err != nil {
		return 0, err
	}
	if len(res.GetOffsets()) == 0 {
		return 0, fmt.Errorf("the server knows no subscriber %s of %s", name, topic)
	}
	left := int64(0)
	for _, o := range res.GetOffsets() {
		if left += o.GetLag(); o.GetBounds() == pb.BoundsState_BOUNDS_STATE_UNKNOWN {
			left += o.GetInFlight() + o.GetWaiting() // there is no lag
		}
	}
	return left, nil
}

// Connect opens a client; each has a connection of its own.
func (m *mesh) Connect(ctx context.Context, name string) (load.Client, error) {
	c, err := ackmesh.Dial(ctx, ackmesh.Config{Addresses: []string{m.address}, ClientID: name, Token: m.token})
	if err != nil {
		return nil, err
	}
	return &meshClient{c: c, filtered: m.token != "", inFlight: m.inFlight}, nil
}

type meshClient struct {
	c        *ackmesh.Client
	filtered bool
	inFlight int // 0: the server's default
}

// attrs are reused: the client keeps nothing of an event.
var attrs = sync.Pool{New: func() any { return &ackmesh.Event{Attributes: make([]ackmesh.Attribute, load.Attributes)} }}

// passAll is a filter of the usual kind that every event passes.
const passAll = "type LIKE '%.%' AND source <> 'nowhere'"

// Publish hands an event to the client.
func (m *meshClient) Publish(ctx context.Context, topic string, e *load.Event, done func(error)) error {
	ev, _ := attrs.Get().(*ackmesh.Event)
	for i, a := range e.Attrs {
		ev.Attributes[i] = ackmesh.Attribute{Name: a[0], Value: a[1]}
	}
	ev.Data = e.Data
	err := m.c.PublishAsync(ctx, topic, ev, func(r ackmesh.Result) { done(r.Err) })
	attrs.Put(ev)
	return err
}

// Subscribe opens a stream.
func (m *meshClient) Subscribe(ctx context.Context, topic string, sub load.Sub, handle func(*load.Message)) (load.Subscription, error) {
	cfg := ackmesh.SubscribeConfig{Topics: []string{topic}, Mode: ackmesh.Broadcast, MaxInFlight: m.inFlight}
	if sub.Share != "" {
		cfg.Mode, cfg.Share = ackmesh.LoadBalance, sub.Share
	} else if m.filtered {
		cfg.Mode, cfg.Filter = ackmesh.Multicast, passAll
	}
	if sub.Beginning {
		cfg.Start = ackmesh.Earliest()
	}
	s, err := m.c.OpenStream(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ms := &meshSubscription{s: s, done: make(chan struct{})}
	ms.ctx, ms.cancel = context.WithCancel(context.Background())
	go ms.work(handle)
	return ms, nil
}

// Close closes the client.
func (m *meshClient) Close() error { return m.c.Close() }

type meshSubscription struct {
	s      *ackmesh.Stream
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// work hands over delivery after delivery until Stop.
func (m *meshSubscription) work(handle func(*load.Message)) {
	defer close(m.done)
	var d *ackmesh.Delivery
	msg := load.Message{Attr: func(name string) string {
		v, _ := d.Attr(name)
		return v
	}}
	for {
		b, err := m.s.Recv(m.ctx)
		if err != nil {
			return
		}
		for i := range b.Len() {
			d = b.At(i)
			msg.Data = d.Data()
			handle(&msg)
			d.Ack()
		}
		b.Release()
	}
}

// Stop ends the stream; its acks are confirmed then.
func (m *meshSubscription) Stop(ctx context.Context) error {
	m.cancel()
	<-m.done
	err := m.s.Close(ctx)
	if errors.Is(err, ackmesh.ErrClosed) {
		return nil
	}
	return err
}

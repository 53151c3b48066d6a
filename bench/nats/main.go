// Command nats puts the benchmark's load on a NATS JetStream server, with the
// newest of its own Go client's interfaces and their defaults: asynchronous
// publishing, and pull consumers with a callback and explicit acks. It is a
// module of its own so that nothing of NATS is needed to build Ackmesh.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ackmesh/ackmesh/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := load.Main(ctx, os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, "bench/nats:", err)
		os.Exit(1)
	}
}

// driver is the load.Driver of JetStream. A topic is a stream with one subject.
type driver struct {
	url string
	js  jetstream.JetStream
}

// maxPending is the client's default bound of unanswered publishes, made
// explicit because beyond it the client's own default is to fail after 200 ms.
const (
	maxPending = 4000
	stallWait  = time.Minute
)

func open(spec load.Spec) (load.Driver, error) {
	d := &driver{url: "nats://" + spec.Address}
	_, js, err := d.connect("bench")
	d.js = js
	return d, err
}

func (d *driver) connect(name string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(d.url, nats.Name(name))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { publicationOf(m).done(nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { publicationOf(m).done(err) }))
	return nc, js, err
}

// publication is a message and who waits for its fate. The client gives the
// message back by its pointer, which is the publication's too.
type publication struct {
	nats.Msg
	done func(error)
}

func publicationOf(m *nats.Msg) *publication { return (*publication)(unsafe.Pointer(m)) }

// MakeTopic makes a stream in files.
func (d *driver) MakeTopic(ctx context.Context, topic string) error {
	_, err := d.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topic, Subjects: []string{"bench." + topic}, Storage: jetstream.FileStorage,
	})
	return err
}

func durable(sub load.Sub) string {
	if sub.Share != "" {
		return sub.Share
	}
	return sub.Name
}

// Unfinished is what the consumer has not delivered, or not had acked.
func (d *driver) Unfinished(ctx context.Context, topic string, sub load.Sub) (int64, error) {
	c, err := d.js.Consumer(ctx, topic, durable(sub))
	if err != nil {
		return 0, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int64(info.NumPending) + int64(info.NumAckPending), nil
}

// Connect opens a connection.
func (d *driver) Connect(_ context.Context, name string) (load.Client, error) {
	nc, js, err := d.connect(name)
	if err != nil {
		return nil, err
	}
	return &client{nc: nc, js: js}, nil
}

type client struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// Publish publishes asynchronously. The client keeps the message until the
// answer, so that every event is a new one.
func (c *client) Publish(_ context.Context, topic string, e *load.Event, done func(error)) error {
	h := make(nats.Header, load.Attributes)
	for _, a := range e.Attrs {
		h[a[0]] = []string{a[1]}
	}
	p := &publication{nats.Msg{Subject: "bench." + topic, Header: h, Data: append([]byte(nil), e.Data...)}, done}
	_, err := c.js.PublishMsgAsync(&p.Msg, jetstream.WithStallWait(stallWait))
	return err
}

// Subscribe makes a durable pull consumer, or joins it, and consumes.
func (c *client) Subscribe(ctx context.Context, topic string, sub load.Sub, handle func(*load.Message)) (load.Subscription, error) {
	cfg := jetstream.ConsumerConfig{Durable: durable(sub), AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverNewPolicy}
	if sub.Beginning {
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	consumer, err := c.js.CreateOrUpdateConsumer(ctx, topic, cfg)
	if err != nil {
		return nil, err
	}
	var m jetstream.Msg
	msg := load.Message{Attr: func(name string) string {
		// Not Get, which would look for another spelling of the name.
		if v := m.Headers()[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}}
	cc, err := consumer.Consume(func(got jetstream.Msg) {
		m = got
		msg.Data = got.Data()
		handle(&msg)
		if err := got.Ack(); err != nil {
			fmt.Fprintln(os.Stderr, "bench/nats: ack:", err)
		}
	})
	if err != nil {
		return nil, err
	}
	return subscription{cc, c.nc}, nil
}

// Close closes the connection.
func (c *client) Close() error {
	c.nc.Close()
	return nil
}

type subscription struct {
	cc jetstream.ConsumeContext
	nc *nats.Conn
}

// Stop ends the consumption; a flush makes sure that the server has read every
// ack. JetStream does not confirm them one by one unless asked to.
func (s subscription) Stop(ctx context.Context) error {
	s.cc.Stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.nc.FlushWithContext(ctx)
}

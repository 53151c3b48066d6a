// Command push puts the benchmark's load on a RocketMQ 4 broker without
// Ackmesh, by Apache's Go client: its asynchronous producer, and its push
// consumer with its defaults, which are 32 messages a pull and one a call
// ("each"), or with 32 a call ("batch").
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/ackmesh/ackmesh/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench/rocketmq/push:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	rlog.SetLogLevel("error")
	calls := map[string]int{"each": 1, "batch": batch}
	if len(args) != 1 || calls[args[0]] == 0 {
		return fmt.Errorf("arguments %q: give each or batch", args)
	}
	return load.Main(ctx, os.Stdin, os.Stdout, func(spec load.Spec) (load.Driver, error) {
		return &driver{names: []string{spec.Address}, run: spec.Run, perCall: calls[args[0]]}, nil
	})
}

const (
	// window bounds the unanswered messages of a producer, which has no bound of
	// its own.
	window = 1024
	// sendTimeout is above the client's default of 3 s, which a full window
	// exceeds.
	sendTimeout = 30 * time.Second
	// batch is the most that a broker gives for a pull.
	batch = 32
)

// driver is the load.Driver of the client.
type driver struct {
	names   []string
	run     string
	perCall int // messages handed over at once
}

// MakeTopic is not needed: the benchmark makes topics.
func (d *driver) MakeTopic(context.Context, string) error { return errors.ErrUnsupported }

// Unfinished is not asked for: nobody is told when an offset is committed.
func (d *driver) Unfinished(context.Context, string, load.Sub) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Connect makes a client; what it needs is connected when it needs it.
func (d *driver) Connect(_ context.Context, name string) (load.Client, error) {
	return &client{d: d, name: name + d.run, slots: make(chan struct{}, window)}, nil
}

// client is one connection.
type client struct {
	d     *driver
	name  string
	slots chan struct{} // one for each unanswered message

	mu       sync.Mutex // guards producer
	producer rocketmq.Producer
	subs     []*subscription // by the one goroutine that subscribes
}

// Publish hands an event to the producer. The producer keeps the message, so
// that every event is a new one.
func (c *client) Publish(ctx context.Context, topic string, e *load.Event, done func(error)) error {
	p, err := c.produce()
	if err != nil {
		return err
	}
	m := primitive.NewMessage(topic, slices.Clone(e.Data))
	for _, a := range e.Attrs {
		m.WithProperty(a[0], a[1])
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.SendAsync(ctx, func(_ context.Context, res *primitive.SendResult, err error) {
		<-c.slots
		if err == nil && res.Status != primitive.SendOK {
			err = fmt.Errorf("send status %d", res.Status)
		}
		done(err)
	}, m)
}

// produce returns the producer, and makes it first.
func (c *client) produce() (rocketmq.Producer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.producer != nil {
		return c.producer, nil
	}
	p, err := rocketmq.NewProducer(producer.WithNameServer(c.d.names), producer.WithGroupName(c.name),
		producer.WithInstanceName(c.name), producer.WithSendMsgTimeout(sendTimeout))
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	c.producer = p
	return p, nil
}

// Subscribe begins at the beginning in any case: a topic that is not to be
// read from there is empty still.
func (c *client) Subscribe(_ context.Context, topic string, sub load.Sub, handle func(*load.Message)) (load.Subscription, error) {
	pc, err := rocketmq.NewPushConsumer(consumer.WithNameServer(c.d.names), consumer.WithGroupName(sub.Share),
		consumer.WithInstance(c.name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeMessageBatchMaxSize(c.d.perCall))
	if err != nil {
		return nil, err
	}
	h := handler{handle: handle}
	if err := pc.Subscribe(topic, consumer.MessageSelector{}, h.all); err != nil {
		return nil, err
	}
	if err := pc.Start(); err != nil {
		return nil, err
	}
	s := &subscription{c: pc}
	c.subs = append(c.subs, s)
	return s, nil
}

// Close ends everything.
func (c *client) Close() error {
	var errs []error
	for _, s := range c.subs {
		errs = append(errs, s.Stop(context.Background()))
	}
	if c.producer != nil {
		errs = append(errs, c.producer.Shutdown())
	}
	return errors.Join(errs...)
}

// handler calls the load's handler, for one message at a time.
type handler struct {
	mu     sync.Mutex
	handle func(*load.Message)
}

func (h *handler) all(_ context.Context, list ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range list {
		h.handle(&load.Message{Data: m.Body, Attr: m.GetProperty})
	}
	return consumer.ConsumeSuccess, nil
}

// subscription is a push consumer.
type subscription struct {
	c    rocketmq.PushConsumer
	once sync.Once
	err  error
}

// Stop ends the consumer, which then commits its offsets.
func (s *subscription) Stop(context.Context) error {
	s.once.Do(func() { s.err = s.c.Shutdown() })
	return s.err
}

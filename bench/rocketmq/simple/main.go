// Command simple puts the benchmark's load on a RocketMQ 5 proxy without
// Ackmesh, by Apache's Go client: its asynchronous producer, and its
// SimpleConsumer with 32 messages a receive and an ack for each, from many
// goroutines at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/rocketmq/simple:", err)
		stop()
		os.Exit(1)
	}
}

// run sets up the client's logger, which writes a line for each call into a
// file in the home directory unless it is told not to.
func run(ctx context.Context) (err error) {
	logs, err := os.MkdirTemp("", "rocketmq-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(logs)) }()
	for name, value := range map[string]string{
		rocketmq.CLIENT_LOG_ROOT: filepath.Join(logs, "logs"), rocketmq.CLIENT_LOG_LEVEL: "error",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	rocketmq.ResetLogger()
	rocketmq.EnableSsl = false
	return load.Main(ctx, os.Stdin, os.Stdout, func(spec load.Spec) (load.Driver, error) {
		return &driver{endpoint: spec.Address, window: max(1, window/max(1, spec.Clients))}, nil
	})
}

// What was the fastest of several tries on two cores.
const (
	// window bounds the unanswered messages of all producers, which have no bound
	// of their own. Of four times as many some run into the client's timeout.
	window = 1024
	// receivers is how many goroutines receive and ack.
	receivers = 64
	// batch is the most that a receive may ask for.
	batch = 32
	// wait is how long a receive waits for messages.
	wait = 3 * time.Second
	// invisible is how long a message is kept from others.
	invisible = time.Minute
)

// driver is the load.Driver of the client.
type driver struct {
	endpoint string
	window   int // of one producer
}

// MakeTopic is not needed: the benchmark makes topics.
func (d *driver) MakeTopic(context.Context, string) error { return errors.ErrUnsupported }

// Unfinished is not asked for: the client does not know.
func (d *driver) Unfinished(context.Context, string, load.Sub) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Connect makes a client; what it needs is connected when it needs it.
func (d *driver) Connect(context.Context, string) (load.Client, error) {
	return &client{d: d, slots: make(chan struct{}, d.window)}, nil
}

func (d *driver) config(group string) *rocketmq.Config {
	return &rocketmq.Config{Endpoint: d.endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

// client is one connection.
type client struct {
	d     *driver
	slots chan struct{} // one for each unanswered message

	mu       sync.Mutex // guards producer
	producer rocketmq.Producer
	subs     []*subscription // by the one goroutine that subscribes
}

// Publish hands an event to the producer, which keeps it, so that every event
// is a new one.
func (c *client) Publish(ctx context.Context, topic string, e *load.Event, done func(error)) error {
	p, err := c.produce(topic)
	if err != nil {
		return err
	}
	m := &rocketmq.Message{Topic: topic, Body: slices.Clone(e.Data)}
	for _, a := range e.Attrs {
		m.AddProperty(a[0], a[1])
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.SendAsync(ctx, m, func(_ context.Context, _ []*rocketmq.SendReceipt, err error) {
		<-c.slots
		done(err)
	})
	return nil
}

// produce returns the producer, and makes it first. A load has one topic only.
func (c *client) produce(topic string) (rocketmq.Producer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.producer != nil {
		return c.producer, nil
	}
	p, err := rocketmq.NewProducer(c.d.config(""), rocketmq.WithTopics(topic))
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	c.producer = p
	return p, nil
}

// Subscribe begins where the broker puts a new group: at the beginning while
// the head of the topic is in the broker's memory.
func (c *client) Subscribe(_ context.Context, topic string, sub load.Sub, handle func(*load.Message)) (load.Subscription, error) {
	sc, err := rocketmq.NewSimpleConsumer(c.d.config(sub.Share),
		rocketmq.WithSimpleAwaitDuration(wait), rocketmq.WithSimpleReceiveRateLimit(receivers),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: rocketmq.SUB_ALL}))
	if err != nil {
		return nil, err
	}
	if err := sc.Start(); err != nil {
		return nil, err
	}
	s := &subscription{c: sc, handle: handle}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for range receivers {
		s.wg.Go(s.receive)
	}
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
		errs = append(errs, c.producer.GracefulStop())
	}
	return errors.Join(errs...)
}

// subscription is a consumer and who receives from it.
type subscription struct {
	c      rocketmq.SimpleConsumer
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
	err    error

	mu     sync.Mutex // one message is handled at a time
	handle func(*load.Message)
}

// receive receives, handles and acks until Stop.
func (s *subscription) receive() {
	for s.ctx.Err() == nil {
		list, err := s.c.Receive(s.ctx, batch, invisible)
		if err != nil && s.ctx.Err() == nil && !isEmpty(err) {
			fmt.Fprintln(os.Stderr, "bench/rocketmq/simple: receive:", err)
		}
		s.all(list)
		for _, m := range list {
			if err := s.c.Ack(s.ctx, m); err != nil && s.ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench/rocketmq/simple: ack:", err)
			}
		}
	}
}

// isEmpty: there was nothing to receive.
func isEmpty(err error) bool {
	status, ok := rocketmq.AsErrRpcStatus(err)
	return ok && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND)
}

func (s *subscription) all(list []*rocketmq.MessageView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list {
		properties := m.GetProperties()
		s.handle(&load.Message{Data: m.GetBody(), Attr: func(name string) string { return properties[name] }})
	}
}

// Stop ends the consumer.
func (s *subscription) Stop(context.Context) error {
	s.once.Do(func() {
		s.cancel()
		s.wg.Wait()
		s.err = s.c.GracefulStop()
	})
	return s.err
}

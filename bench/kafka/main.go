// Command kafka puts the benchmark's load on a Kafka broker without Ackmesh,
// by sarama with its own defaults: its idempotent producer with acks from all
// replicas, and for reading its partition consumer ("consumer"), or its
// consumer group, which commits by itself ("group"). With "-events" behind
// either, what is read is a frame that Ackmesh has stored, and is made an event:
// checked, and its attributes and data found, all in place.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench/kafka:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("arguments %q: give one of consumer, group, consumer-events, group-events", args)
	}
	kind, events := strings.CutSuffix(args[0], "-events")
	if kind != "consumer" && kind != "group" {
		return fmt.Errorf("argument %q: give consumer, group, consumer-events or group-events", args[0])
	}
	return load.Main(ctx, os.Stdin, os.Stdout, func(spec load.Spec) (load.Driver, error) {
		return &driver{brokers: []string{spec.Address}, group: kind == "group", events: events}, nil
	})
}

// driver is the load.Driver of sarama.
type driver struct {
	brokers []string
	group   bool
	events  bool // what is read are frames
}

// MakeTopic is not needed: the benchmark makes topics.
func (d *driver) MakeTopic(context.Context, string) error { return errors.ErrUnsupported }

// Unfinished is not asked for: nobody is told when an offset is committed.
func (d *driver) Unfinished(context.Context, string, load.Sub) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Connect makes a client; what it needs is connected when it needs it.
func (d *driver) Connect(_ context.Context, name string) (load.Client, error) {
	return &client{d: d, name: name}, nil
}

func (d *driver) config(name string) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.ClientID = name
	return c
}

// client is one connection.
type client struct {
	d    *driver
	name string

	mu       sync.Mutex // guards producer
	producer *producer
	subs     []load.Subscription // by the one goroutine that subscribes
}

// Publish hands an event to the producer, which waits while its channel is
// full. It keeps the message, so that every event is a new one.
func (c *client) Publish(_ context.Context, topic string, e *load.Event, done func(error)) error {
	p, err := c.produce()
	if err != nil {
		return err
	}
	headers := make([]sarama.RecordHeader, load.Attributes)
	for i, a := range e.Attrs {
		headers[i] = sarama.RecordHeader{Key: []byte(a[0]), Value: []byte(a[1])}
	}
	p.async.Input() <- &sarama.ProducerMessage{
		Topic: topic, Headers: headers, Value: sarama.ByteEncoder(slices.Clone(e.Data)), Metadata: done,
	}
	return nil
}

// produce returns the producer, and makes it first.
func (c *client) produce() (*producer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.producer != nil {
		return c.producer, nil
	}
	var err error
	c.producer, err = newProducer(c.d.brokers, c.d.config(c.name))
	return c.producer, err
}

// Subscribe begins at the beginning in any case: a topic that is not to be
// read from there is empty still.
func (c *client) Subscribe(ctx context.Context, topic string, sub load.Sub, handle func(*load.Message)) (load.Subscription, error) {
	h := &handler{handle: handle, events: c.d.events}
	var s load.Subscription
	var err error
	if c.d.group {
		s, err = newGroup(ctx, c.d.brokers, c.d.config(c.name), topic, sub.Share, h)
	} else {
		s, err = newConsumer(c.d.brokers, c.d.config(c.name), topic, h)
	}
	if err == nil {
		c.subs = append(c.subs, s)
	}
	return s, err
}

// Close ends everything.
func (c *client) Close() error {
	var errs []error
	for _, s := range c.subs {
		errs = append(errs, s.Stop(context.Background()))
	}
	if c.producer != nil {
		errs = append(errs, c.producer.close())
	}
	return errors.Join(errs...)
}

// producer is an asynchronous producer, and who takes its answers.
type producer struct {
	async sarama.AsyncProducer
	wg    sync.WaitGroup
}

func newProducer(brokers []string, c *sarama.Config) (*producer, error) {
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1 // as idempotence wants it
	c.Producer.Return.Successes = true
	async, err := sarama.NewAsyncProducer(brokers, c)
	if err != nil {
		return nil, err
	}
	p := &producer{async: async}
	p.wg.Go(func() {
		for m := range async.Successes() {
			answer(m, nil)
		}
	})
	p.wg.Go(func() {
		for e := range async.Errors() {
			answer(e.Msg, e.Err)
		}
	})
	return p, nil
}

func answer(m *sarama.ProducerMessage, err error) {
	done, _ := m.Metadata.(func(error)) // we put it there
	done(err)
}

func (p *producer) close() error {
	p.async.AsyncClose()
	p.wg.Wait()
	return nil
}

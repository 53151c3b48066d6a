package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/bench/load"
	"github.com/ackmesh/ackmesh/frame"
)

// handler calls the load's handler, for one message at a time, from the
// goroutines of all partitions.
type handler struct {
	mu     sync.Mutex
	handle func(*load.Message)
	events bool // messages are frames
}

// all handles a message, and those that are there already; the lock is taken
// once for all of them.
func (h *handler) all(first *sarama.ConsumerMessage, more <-chan *sarama.ConsumerMessage, handled func(*sarama.ConsumerMessage)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var r reader
	msg := load.Message{Attr: r.header}
	if h.events {
		msg.Attr = r.attribute
	}
	for m := first; m != nil; {
		r.m, msg.Data = m, m.Value
		if h.events {
			msg.Data = r.event()
		}
		h.handle(&msg)
		handled(m)
		select {
		case m = <-more: // nil when it is closed
		default:
			return
		}
	}
}

// reader finds what the load asks for in a message.
type reader struct {
	m *sarama.ConsumerMessage
	v frame.View
}

func (r *reader) header(name string) string {
	for _, header := range r.m.Headers {
		if string(header.Key) == name {
			return string(header.Value)
		}
	}
	return ""
}

// event checks the frame and returns its data. A message that is no frame is
// data alone, as it is to Ackmesh.
func (r *reader) event() []byte {
	v, err := frame.Parse(r.m.Value)
	if r.v = v; err != nil {
		return r.m.Value
	}
	return v.Data()
}

func (r *reader) attribute(name string) string {
	value, _ := r.v.Attr(name)
	return string(value)
}

// consumer reads every partition of a topic with one sarama.Consumer.
type consumer struct {
	c     sarama.Consumer
	parts []sarama.PartitionConsumer
	wg    sync.WaitGroup
	once  sync.Once
	err   error
}

func newConsumer(brokers []string, conf *sarama.Config, topic string, h *handler) (*consumer, error) {
	c, err := sarama.NewConsumer(brokers, conf)
	if err != nil {
		return nil, err
	}
	s := &consumer{c: c}
	numbers, err := c.Partitions(topic)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, n := range numbers {
		p, err := c.ConsumePartition(topic, n, sarama.OffsetOldest)
		if err != nil {
			return nil, errors.Join(err, s.Stop(context.Background()))
		}
		s.parts = append(s.parts, p)
		s.wg.Go(func() {
			for m := range p.Messages() {
				h.all(m, p.Messages(), func(*sarama.ConsumerMessage) {})
			}
		})
	}
	return s, nil
}

// Stop closes the consumer.
func (s *consumer) Stop(context.Context) error {
	s.once.Do(func() {
		for _, p := range s.parts {
			p.AsyncClose()
		}
		s.wg.Wait()
		s.err = s.c.Close()
	})
	return s.err
}

// group reads as the only member of a group; offsets are committed every
// second, which is sarama's default.
type group struct {
	g      sarama.ConsumerGroup
	h      *handler
	ready  chan struct{} // closed when partitions are assigned
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
	err    error
}

func newGroup(ctx context.Context, brokers []string, conf *sarama.Config, topic, name string, h *handler) (*group, error) {
	conf.Consumer.Offsets.Initial = sarama.OffsetOldest
	g, err := sarama.NewConsumerGroup(brokers, name, conf)
	if err != nil {
		return nil, err
	}
	s := &group{g: g, h: h, ready: make(chan struct{})}
	inner, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	ended := make(chan error, 1)
	s.wg.Go(func() { ended <- s.consume(inner, topic) })
	select {
	case <-s.ready:
		return s, nil
	case err := <-ended:
		return nil, errors.Join(err, s.Stop(ctx))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.Stop(ctx))
	}
}

// consume joins, again after each rebalance.
func (s *group) consume(ctx context.Context, topic string) error {
	for ctx.Err() == nil {
		err := s.g.Consume(ctx, []string{topic}, s)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/kafka: consume:", err)
			return err
		}
	}
	return nil
}

// Setup implements sarama.ConsumerGroupHandler.
func (s *group) Setup(sarama.ConsumerGroupSession) error {
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	return nil
}

// Cleanup implements sarama.ConsumerGroupHandler.
func (s *group) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim implements sarama.ConsumerGroupHandler.
func (s *group) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		s.h.all(m, claim.Messages(), func(m *sarama.ConsumerMessage) { session.MarkMessage(m, "") })
	}
	return nil
}

// Stop leaves the group.
func (s *group) Stop(context.Context) error {
	s.once.Do(func() {
		s.cancel()
		s.wg.Wait()
		s.err = s.g.Close()
	})
	return s.err
}

package session

import (
	"context"
	"errors"
	"io"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"
)

// What a receive may ask for. A proxy raises or lowers what is beyond.
const (
	// MaxReceive is how many messages one call returns at most.
	MaxReceive = 32
	// ShortestPoll and LongestPoll bound how long a call waits at the broker.
	ShortestPoll = 5 * time.Second
	LongestPoll  = 20 * time.Second
)

// ReceiveRequest says what to receive.
type ReceiveRequest struct {
	// Broker is whose queues are looked at: all of them, and the group's
	// retries there.
	Broker string
	// Max is how many messages at most: 1 to MaxReceive.
	Max int
	// Invisible is for how long nobody else of the group gets them.
	Invisible time.Duration
	// Wait is how long the broker waits for a first one: ShortestPoll to
	// LongestPoll.
	Wait time.Duration
	// Attempt names this try to the broker of an ordered group: the same name
	// again gets the same messages again.
	Attempt string
}

// Receive pops messages of one broker. None, after the wait, is no error. What a
// broken answer had brought until then is returned.
func (c *Consumer) Receive(ctx context.Context, r ReceiveRequest) ([]*v2.Message, error) {
	inner, end, err := c.s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	bounded, cancel := context.WithTimeout(c.s.signed(inner, c.id), r.Wait+c.s.o.RequestTimeout)
	defer cancel()
	msgs, err := c.receive(bounded, r)
	if len(msgs) > 0 {
		return msgs, nil
	}
	var answered *Error
	if err != nil && !errors.As(err, &answered) {
		return nil, c.s.failed(ctx, "receive", err)
	}
	if hasForgotten(err) {
		c.Reset()
	}
	return nil, err
}

func (c *Consumer) receive(ctx context.Context, r ReceiveRequest) (msgs []*v2.Message, err error) {
	req := &v2.ReceiveMessageRequest{
		Group: c.s.resource(c.group), BatchSize: int32(r.Max), FilterExpression: everything(),
		InvisibleDuration: durationpb.New(r.Invisible), LongPollingTimeout: durationpb.New(r.Wait),
		MessageQueue: &v2.MessageQueue{Topic: c.s.resource(c.topic), Id: -1, Broker: &v2.Broker{Name: r.Broker}},
	}
	if r.Attempt != "" {
		req.AttemptId = &r.Attempt
	}
	stream, err := c.s.rpc.ReceiveMessage(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return msgs, nil
		}
		if err != nil {
			return msgs, err
		}
		if m := res.GetMessage(); m != nil {
			msgs = append(msgs, m)
		}
		if st := res.GetStatus(); st != nil && st.GetCode() != v2.Code_MESSAGE_NOT_FOUND {
			if err := refused("receive", st); err != nil {
				return msgs, err
			}
		}
	}
}

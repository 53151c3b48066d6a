package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// hasForgotten tells whether an answer means that the proxy has no settings of
// the client: it says so in several ways, one of them by mistake.
func hasForgotten(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == v2.Code_UNRECOGNIZED_CLIENT_TYPE ||
		e.Code == v2.Code_INTERNAL_SERVER_ERROR && strings.Contains(e.Message, "NullPointerException"))
}

// isAbnormal tells an answer of 50001 that is the broker's, about a receipt it
// does not know, from one that may pass.
func isAbnormal(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.Contains(e.Message, "status is abnormal")
}

// GroupSettings is what a proxy says of a group.
type GroupSettings struct {
	// Ordered: the broker hands out what follows in a queue after what is
	// before it was acked.
	Ordered bool
	// MaxAttempts is how often it hands out a message; then it puts it into a
	// dead letter topic of its own.
	MaxAttempts int
}

// Consumer is a client of a group for one topic: it keeps a telemetry stream
// open, on which the proxy has got its settings, and sends heartbeats. Close
// ends it.
type Consumer struct {
	s            *Session
	topic, group string
	id           string

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	anew   chan struct{} // asks for the settings to be sent again

	mu      sync.Mutex
	told    *GroupSettings // what the proxy has answered on the present stream; nil: nothing
	err     error          // why there is none
	changed chan struct{}  // closed when told or err changes
}

// NewConsumer makes a client of a group. It connects by itself; Ready waits.
func (s *Session) NewConsumer(topic, group string) (*Consumer, error) {
	c := &Consumer{
		s: s, topic: topic, group: group, id: fmt.Sprintf("%s@%d", s.id, s.serial.Add(1)),
		done: make(chan struct{}), anew: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	if !s.enter() {
		return nil, ErrClosed
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	go func() {
		defer s.wg.Done()
		defer close(c.done)
		c.run()
	}()
	return c, nil
}

// Close ends the consumer and waits for it. The proxy is told, if it can be
// reached.
func (c *Consumer) Close() {
	c.cancel()
	<-c.done
}

// Ready waits until a proxy has the settings and returns what it says of the
// group. Errors: an *Error that is not transient, ErrClosed, ctx.Err(); where
// ctx ends while the proxies cannot be reached, why.
func (c *Consumer) Ready(ctx context.Context) (GroupSettings, error) {
	for {
		c.mu.Lock()
		told, err, changed := c.told, c.err, c.changed
		c.mu.Unlock()
		switch {
		case c.ctx.Err() != nil:
			return GroupSettings{}, ErrClosed
		case told != nil:
			return *told, nil
		case err != nil && !IsTransient(err) && !IsDoubtful(err):
			return GroupSettings{}, err
		}
		select {
		case <-changed:
		case <-c.done:
		case <-ctx.Done():
			if err != nil {
				return GroupSettings{}, err
			}
			return GroupSettings{}, ctx.Err()
		}
	}
}

// Reset has the settings sent again on a new stream: the proxy has forgotten
// them.
func (c *Consumer) Reset() {
	select {
	case c.anew <- struct{}{}:
	default:
	}
}

func (c *Consumer) set(told *GroupSettings, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.err = told, err
	close(c.changed)
	c.changed = make(chan struct{})
}

// run keeps a stream open until the consumer is closed.
func (c *Consumer) run() {
	for fails := 0; c.ctx.Err() == nil; {
		began := time.Now()
		err := c.stream()
		if c.ctx.Err() != nil {
			break
		}
		if time.Since(began) > c.s.o.Heartbeat {
			fails = 0
		}
		fails++
		c.set(nil, err)
		c.s.o.Logger.Debug("telemetry stream ended, opening another", "group", c.group, "error", err)
		if !sleep(c.ctx, Pause(fails)) {
			break
		}
	}
	c.leave()
	c.set(nil, ErrClosed)
}

// stream opens a telemetry stream, sends the settings and stays until it
// breaks.
func (c *Consumer) stream() error {
	const op = "telemetry"
	ctx, cancel := context.WithCancel(c.s.signed(c.ctx, c.id))
	stream, err := c.s.rpc.Telemetry(ctx)
	if err == nil {
		err = stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: c.settings()}})
	}
	if err != nil {
		cancel()
		return transportError(op, err)
	}
	select { // this is the new stream that was asked for
	case <-c.anew:
	default:
	}
	ended := make(chan error, 1)
	go func() { ended <- c.listen(stream) }()
	err = c.beat(ended)
	cancel()
	if err == nil {
		err = <-ended
	}
	return err
}

// listen takes what the proxy says until the stream ends.
func (c *Consumer) listen(stream grpc.BidiStreamingClient[v2.TelemetryCommand, v2.TelemetryCommand]) error {
	const op = "telemetry"
	for {
		cmd, err := stream.Recv()
		if err != nil {
			return transportError(op, err)
		}
		if set := cmd.GetSettings(); set != nil {
			if st := cmd.GetStatus(); st != nil && st.GetCode() != v2.Code_OK {
				return refused(op, st)
			}
			c.set(&GroupSettings{Ordered: set.GetSubscription().GetFifo(), MaxAttempts: int(set.GetBackoffPolicy().GetMaxAttempts())}, nil)
		}
		if cmd.GetReconnectEndpointsCommand() != nil {
			return &Error{Op: op, GRPC: codes.Unavailable, Message: "the proxy asks to connect anew"}
		}
		// The other commands are for clients that run handlers, or are about
		// transactions; a proxy does without an answer.
	}
}

// beat sends heartbeats until the stream has ended, which gives its error, or it
// is to be opened anew; then the error is nil and ended not read.
func (c *Consumer) beat(ended <-chan error) error {
	ticker := time.NewTicker(c.s.o.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-c.anew:
			return nil
		case <-ticker.C:
			err := c.s.unary(c.ctx, "heartbeat", c.id, func(ctx context.Context) (*v2.Status, error) {
				res, err := c.s.rpc.Heartbeat(ctx, &v2.HeartbeatRequest{Group: c.s.resource(c.group), ClientType: v2.ClientType_SIMPLE_CONSUMER})
				return res.GetStatus(), err
			})
			if hasForgotten(err) {
				return nil
			}
		}
	}
}

// leave tells the proxy that this client is gone, so that the group has one
// less at once.
func (c *Consumer) leave() {
	c.mu.Lock()
	known := c.told != nil
	c.mu.Unlock()
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(c.s.signed(context.Background(), c.id), time.Second)
	defer cancel()
	_, err := c.s.rpc.NotifyClientTermination(ctx, &v2.NotifyClientTerminationRequest{Group: c.s.resource(c.group)})
	if err != nil { // it forgets a silent client by itself
		c.s.o.Logger.Debug("the proxy could not be told that a consumer is gone", "group", c.group, "error", err)
	}
}

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
})

// settings says what the client is: a simple consumer of all messages of one
// topic.
func (c *Consumer) settings() *v2.Settings {
	kind := v2.ClientType_SIMPLE_CONSUMER
	return &v2.Settings{
		ClientType: &kind, AccessPoint: c.s.points, RequestTimeout: durationpb.New(c.s.o.RequestTimeout),
		UserAgent: &v2.UA{Language: v2.Language_GOLANG, Version: protocolVersion, Platform: runtime.GOOS, Hostname: hostname()},
		PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{
			Group: c.s.resource(c.group), LongPollingTimeout: durationpb.New(LongestPoll),
			Subscriptions: []*v2.SubscriptionEntry{{Topic: c.s.resource(c.topic), Expression: everything()}},
		}},
	}
}

func everything() *v2.FilterExpression {
	return &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}
}

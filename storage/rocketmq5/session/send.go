package session

import (
	"context"
	"fmt"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Outgoing is a message to send.
type Outgoing struct {
	// ID is the message's id: a repeat with the same one is the same message
	// for who reads it.
	ID string
	// Group orders messages of type FIFO: those of one group go to one queue.
	Group string
	// Lite is the lite topic of a message of type LITE.
	Lite string
	// Deliver is when a message of type DELAY is due.
	Deliver time.Time
	// Born is when it was made.
	Born time.Time
	// Body is 1 byte to 4 MiB, as the proxy is set up.
	Body []byte
	// Properties are the user properties.
	Properties map[string]string
	// Keys are what tools find the message by.
	Keys []string
}

// Sent is what became of one message.
type Sent struct {
	// Offset is its place in its queue; which queue that is is not told.
	Offset int64
	// Err is why it is not stored; an *Error.
	Err error
}

// Send sends messages of one topic and type in one call, and returns the fate of
// each. A call with several messages goes to one queue, whatever their groups
// are, and none of them may be of type DELAY or LITE: brokers put messages of a
// batch into no lite topic. With an error the fate of all is
// open where it is transient, else none is stored.
func (s *Session) Send(ctx context.Context, topic string, typ v2.MessageType, msgs []Outgoing) ([]Sent, error) {
	req := &v2.SendMessageRequest{Messages: make([]*v2.Message, len(msgs))}
	for i := range msgs {
		req.Messages[i] = s.message(topic, typ, &msgs[i])
	}
	const op = "send"
	var res *v2.SendMessageResponse
	err := s.unary(ctx, op, s.id, func(ctx context.Context) (st *v2.Status, err error) {
		res, err = s.rpc.SendMessage(ctx, req)
		if st = res.GetStatus(); len(res.GetEntries()) > 0 {
			st = okStatus // the entries tell
		}
		return st, err
	})
	if err != nil {
		return nil, err
	}
	return sentOf(op, res.GetEntries(), len(msgs))
}

var okStatus = &v2.Status{Code: v2.Code_OK}

// sentOf spreads the answer over the messages. A batch is stored as a whole, and
// answered with one entry: the place of its first message.
func sentOf(op string, entries []*v2.SendResultEntry, n int) ([]Sent, error) {
	if len(entries) != n && len(entries) != 1 {
		return nil, &Error{Op: op, GRPC: codes.Unknown, Message: fmt.Sprintf("the answer has %d entries for %d messages", len(entries), n)}
	}
	out := make([]Sent, n)
	for i := range out {
		e := entries[min(i, len(entries)-1)]
		out[i] = Sent{Offset: e.GetOffset(), Err: refused(op, e.GetStatus())}
		if len(entries) < n {
			out[i].Offset += int64(i)
		}
	}
	return out, nil
}

func (s *Session) message(topic string, typ v2.MessageType, m *Outgoing) *v2.Message {
	sys := &v2.SystemProperties{
		MessageId: m.ID, MessageType: typ, BodyEncoding: v2.Encoding_IDENTITY, BornTimestamp: timestamppb.New(m.Born),
		Keys: m.Keys,
	}
	if typ == v2.MessageType_FIFO {
		sys.MessageGroup = &m.Group
	}
	if typ == v2.MessageType_LITE {
		sys.LiteTopic = &m.Lite
	}
	if typ == v2.MessageType_DELAY {
		sys.DeliveryTimestamp = timestamppb.New(m.Deliver)
	}
	return &v2.Message{Topic: s.resource(topic), UserProperties: m.Properties, SystemProperties: sys, Body: m.Body}
}

package session

import (
	"context"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Entry is a received message of a group, by its newest receipt.
type Entry struct {
	MessageID, Receipt string
}

// Ack acks messages of a topic for a group, in one call. Each has its own
// answer, nil for done, in the order of the entries. With an error nothing is
// known of any.
func (s *Session) Ack(ctx context.Context, topic, group string, entries []Entry) ([]error, error) {
	const op = "ack"
	req := &v2.AckMessageRequest{Group: s.resource(group), Topic: s.resource(topic), Entries: make([]*v2.AckMessageEntry, len(entries))}
	for i, e := range entries {
		req.Entries[i] = &v2.AckMessageEntry{MessageId: e.MessageID, ReceiptHandle: e.Receipt}
	}
	var res *v2.AckMessageResponse
	err := s.unary(ctx, op, s.id, func(ctx context.Context) (st *v2.Status, err error) {
		res, err = s.rpc.AckMessage(ctx, req)
		if st = res.GetStatus(); len(res.GetEntries()) > 0 {
			st = okStatus // the entries tell
		}
		return st, err
	})
	if err != nil {
		return nil, err
	}
	// The answers come in an order of the proxy's own.
	answers := make(map[Entry]*v2.Status, len(entries))
	for _, a := range res.GetEntries() {
		answers[Entry{a.GetMessageId(), a.GetReceiptHandle()}] = a.GetStatus()
	}
	out := make([]error, len(entries))
	for i, e := range entries {
		st, ok := answers[e]
		if !ok {
			out[i] = &Error{Op: op, GRPC: codes.Unknown, Message: "the answer leaves out message " + e.MessageID}
			continue
		}
		out[i] = refused(op, st)
	}
	return out, nil
}

// ChangeInvisible makes a message invisible to its group for that long from now,
// also for less than a receive may ask for: about a second gives it back. It
// returns the receipt that replaces the old one. It is a consumer's call, since
// proxies fail for a client that has no telemetry stream.
func (c *Consumer) ChangeInvisible(ctx context.Context, e Entry, d time.Duration) (receipt string, err error) {
	const op = "change of the invisible time"
	if _, err := c.Ready(ctx); err != nil {
		return "", err
	}
	var res *v2.ChangeInvisibleDurationResponse
	err = c.s.unary(ctx, op, c.id, func(ctx context.Context) (st *v2.Status, err error) {
		res, err = c.s.rpc.ChangeInvisibleDuration(ctx, &v2.ChangeInvisibleDurationRequest{
			Group: c.s.resource(c.group), Topic: c.s.resource(c.topic), ReceiptHandle: e.Receipt, MessageId: e.MessageID,
			InvisibleDuration: durationpb.New(d),
		})
		return res.GetStatus(), err
	})
	if err != nil {
		if hasForgotten(err) {
			c.Reset()
		}
		return "", err
	}
	return res.GetReceiptHandle(), nil
}

// IsGone tells whether an answer about a receipt says that it is known no more:
// it ran out, or never was.
func IsGone(err error) bool {
	switch CodeOf(err) {
	case v2.Code_INVALID_RECEIPT_HANDLE, v2.Code_MESSAGE_NOT_FOUND, v2.Code_BAD_REQUEST:
		return true
	case v2.Code_INTERNAL_SERVER_ERROR:
		return isAbnormal(err)
	}
	return false
}

package remoting

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

// OutMessage is a message to be sent.
type OutMessage struct {
	Body []byte
	// Properties is text that AppendProperty made.
	Properties string
}

// maxProperties is how long the properties of a message may be in the
// protocol; brokers take about half of it.
const maxProperties = 1<<16 - 1

// Sent says where messages are.
type Sent struct {
	// Offset is that of the first message; the others of a batch follow it
	// without gaps.
	Offset int64
	Queue  int
	// ID is the broker's identity of the message; of a batch several, with
	// commas.
	ID string
}

// Send writes one message to a queue at its master. It is not tried again: a
// message whose Send failed may be there all the same. The broker makes no
// topic by itself for it. Errors: an *Error (CodeTopicNotExist; with
// CodeFlushDiskTimeout, CodeFlushSlaveTimeout and CodeSlaveNotAvailable the
// message is stored, but not as safely as the broker is set to), and those of
// Call.
func (c *Client) Send(ctx context.Context, addr string, q Queue, m OutMessage) (Sent, error) {
	f := sendFields(q, m.Properties, false)
	return c.sent(ctx, addr, fmt.Sprintf("send to %v", q), &Command{Code: reqSend, Fields: f, Body: m.Body})
}

// SendBatch writes messages to a queue at its master, all or none. Errors as
// Send.
func (c *Client) SendBatch(ctx context.Context, addr string, q Queue, list []OutMessage) (Sent, error) {
	body, err := EncodeBatch(list)
	if err != nil {
		return Sent{}, err
	}
	f := sendFields(q, "", true)
	return c.sent(ctx, addr, fmt.Sprintf("send %d messages to %v", len(list), q), &Command{Code: reqSendBatch, Fields: f, Body: body})
}

func (c *Client) sent(ctx context.Context, addr, op string, req *Command) (s Sent, err error) {
	res, err := c.ask(ctx, addr, op, req, 0)
	if err != nil {
		return s, err
	}
	if s.Offset, err = res.number("queueOffset"); err != nil {
		return s, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	n, err := res.number("queueId")
	if err != nil {
		return s, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	s.Queue, s.ID = int(n), res.Fields["msgId"]
	return s, nil
}

// producerGroup is in whose name is sent; brokers note it nowhere.
const producerGroup = "CLIENT_INNER_PRODUCER"

// sendFields are the fields of a send, with the short names of its second
// version. The topic after which a missing one would be made (c) is the topic
// itself: so none is made.
func sendFields(q Queue, properties string, batch bool) map[string]string {
	f := map[string]string{
		"a": producerGroup, "b": q.Topic, "c": q.Topic, "d": "4", "e": strconv.Itoa(q.ID), "f": "0",
		"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": properties, "j": "0", "k": "false", "l": "0",
		"m": strconv.FormatBool(batch),
	}
	if q.Broker != "" {
		f["n"], f["bname"] = q.Broker, q.Broker
	}
	return f
}

// EncodeBatch is the body of a batch. Errors: ErrMalformed where it, or the
// properties of a message, are over a limit.
func EncodeBatch(list []OutMessage) ([]byte, error) {
	size := 0
	for i := range list {
		if n := len(list[i].Properties); n > maxProperties {
			return nil, fmt.Errorf("message %d of a batch has %d bytes of properties, at most %d are allowed: %w", i, n, maxProperties, ErrMalformed)
		}
		size += BatchOverhead + len(list[i].Body) + len(list[i].Properties)
	}
	if size > MaxFrame {
		return nil, fmt.Errorf("batch of %d bytes, at most %d are allowed: %w", size, MaxFrame, ErrMalformed)
	}
	b := make([]byte, 0, size)
	for i := range list {
		m := &list[i]
		b = binary.BigEndian.AppendUint32(b, uint32(BatchOverhead+len(m.Body)+len(m.Properties)))
		b = append(b, make([]byte, 12)...) // magic, checksum, flag
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(m.Body))), m.Body...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.Properties))), m.Properties...)
	}
	return b, nil
}

// DecodeBatch reads the body of a batch, as a broker does. Bodies are parts of
// b. Errors: ErrMalformed.
func DecodeBatch(b []byte) (list []OutMessage, err error) {
	for len(b) > 0 {
		m, size, err := decodeInner(b)
		if err != nil {
			return nil, fmt.Errorf("message %d of the batch: %w", len(list), err)
		}
		list = append(list, OutMessage{Body: m.Body, Properties: m.Properties})
		b = b[size:]
	}
	return list, nil
}

// BatchOverhead is what a message takes in a batch besides body and
// properties.
const BatchOverhead = 4 + 12 + 4 + 2

package remoting

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Queue names a queue of a topic at one broker.
type Queue struct {
	Topic string
	ID    int
	// Broker is sent as bname: proxies and brokers that stand in for others
	// need it. Mostly empty.
	Broker string
}

func (q Queue) String() string { return fmt.Sprintf("topic %q queue %d", q.Topic, q.ID) }

func (q Queue) fields() map[string]string {
	f := map[string]string{"topic": q.Topic, "queueId": strconv.Itoa(q.ID)}
	if q.Broker != "" {
		f["bname"] = q.Broker
	}
	return f
}

// number reads a field of a response.
func (c *Command) number(name string) (int64, error) {
	n, err := strconv.ParseInt(c.Fields[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("field %q of a response is %q, want a number: %w", name, c.Fields[name], ErrMalformed)
	}
	return n, nil
}

// askOffset asks for one number about a queue.
func (c *Client) askOffset(ctx context.Context, addr string, q Queue, op string, code int, result string, extra ...string) (int64, error) {
	f := q.fields()
	for i := 0; i+1 < len(extra); i += 2 {
		f[extra[i]] = extra[i+1]
	}
	op += " of " + q.String()
	res, err := c.ask(ctx, addr, op, &Command{Code: code, Fields: f}, 0)
	if err != nil {
		return 0, err
	}
	n, err := res.number(result)
	if err != nil {
		return 0, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	return n, nil
}

// MaxOffset asks a master for the next offset to be written. 0 may mean that
// the broker does not know the queue.
func (c *Client) MaxOffset(ctx context.Context, addr string, q Queue) (int64, error) {
	return c.askOffset(ctx, addr, q, "maximum", reqMaxOffset, "offset")
}

// MinOffset asks a master for the lowest offset held. 0 may mean that the
// broker does not know the queue.
func (c *Client) MinOffset(ctx context.Context, addr string, q Queue) (int64, error) {
	return c.askOffset(ctx, addr, q, "minimum", reqMinOffset, "offset")
}

// SearchOffset asks a master for the offset that a time of storing means.
// RocketMQ 5 gives the first at or after it; 4.9 gives the nearest, and
// after the last one the maximum - 1.
func (c *Client) SearchOffset(ctx context.Context, addr string, q Queue, t time.Time) (int64, error) {
	return c.askOffset(ctx, addr, q, "offset by time", reqSearchOffset, "offset", "timestamp", strconv.FormatInt(t.UnixMilli(), 10))
}

// EarliestTime asks a master when the oldest message was stored; ok is false
// where there is none.
func (c *Client) EarliestTime(ctx context.Context, addr string, q Queue) (t time.Time, ok bool, err error) {
	ms, err := c.askOffset(ctx, addr, q, "earliest time", reqEarliestTime, "timestamp")
	if err != nil || ms < 0 {
		return time.Time{}, false, err
	}
	return time.UnixMilli(ms), true, nil
}

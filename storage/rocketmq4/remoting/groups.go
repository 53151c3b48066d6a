package remoting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// GroupConfig is a consumer group at a broker.
type GroupConfig struct {
	Name string `json:"groupName"`
	// Consume and Broadcast allow reading, and reading all by each.
	Consume   bool `json:"consumeEnable"`
	Broadcast bool `json:"consumeBroadcastEnable"`
	FromMin   bool `json:"consumeFromMinEnable"`
	// Orderly makes a group of RocketMQ 5 hand out a queue in order.
	Orderly     bool `json:"consumeMessageOrderly"`
	RetryQueues int  `json:"retryQueueNums"`
	MaxRetries  int  `json:"retryMaxTimes"`
	// BrokerID is the broker to read from, SlowBrokerID the one for those who
	// are far behind.
	BrokerID     int64 `json:"brokerId"`
	SlowBrokerID int64 `json:"whichBrokerWhenConsumeSlowly"`
	NotifyIDs    bool  `json:"notifyConsumerIdsChangedEnable"`
	// Attributes are those of RocketMQ 5, as "+lite.bind.topic": "parent".
	Attributes map[string]string `json:"attributes,omitempty"`
}

// NewGroup is a group with RocketMQ's own defaults.
func NewGroup(name string) GroupConfig {
	return GroupConfig{Name: name, Consume: true, Broadcast: true, FromMin: true, RetryQueues: 1, MaxRetries: 16, SlowBrokerID: 1, NotifyIDs: true}
}

// CreateGroup makes a group at a broker, or changes one that is there.
func (c *Client) CreateGroup(ctx context.Context, addr string, g GroupConfig) error {
	op := fmt.Sprintf("create group %q", g.Name)
	body, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	_, err = c.ask(ctx, addr, op, &Command{Code: reqCreateGroup, Body: body}, 0)
	return err
}

// Groups lists the groups at a broker by name.
func (c *Client) Groups(ctx context.Context, addr string) (map[string]GroupConfig, error) {
	res, err := c.ask(ctx, addr, "list of groups", &Command{Code: reqGroups}, 0)
	if err != nil {
		return nil, err
	}
	var table struct {
		Groups map[string]GroupConfig `json:"subscriptionGroupTable"`
	}
	if err := Unmarshal(res.Body, &table); err != nil {
		return nil, fmt.Errorf("list of groups at %s: %w", addr, err)
	}
	return table.Groups, nil
}

// DeleteGroup removes a group from a broker, with its offsets where asked.
func (c *Client) DeleteGroup(ctx context.Context, addr, group string, offsets bool) error {
	f := map[string]string{"groupName": group, "cleanOffset": strconv.FormatBool(offsets)}
	_, err := c.ask(ctx, addr, fmt.Sprintf("delete group %q", group), &Command{Code: reqDeleteGroup, Fields: f}, 0)
	return err
}

// GroupOffset asks a broker for the offset that a group has committed; ok is
// false where it has none.
func (c *Client) GroupOffset(ctx context.Context, addr, group string, q Queue) (offset int64, ok bool, err error) {
	f := q.fields()
	f["consumerGroup"] = group
	f["setZeroIfNotFound"] = "false"
	op := fmt.Sprintf("offset of group %q in %v", group, q)
	res, err := c.ask(ctx, addr, op, &Command{Code: reqGroupOffset, Fields: f}, 0, CodeQueryNotFound)
	if err != nil || res.Code == CodeQueryNotFound {
		return 0, false, err
	}
	if offset, err = res.number("offset"); err != nil {
		return 0, false, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	return offset, true, nil
}

// Reset says where a group is to go on.
type Reset struct {
	Group string
	Queue
	// AllQueues moves the group in all queues of the topic at the broker; Queue.ID
	// is not looked at.
	AllQueues bool
	// Time is where to; the zero time: the end. Not looked at where HasOffset.
	Time time.Time
	// Offset is where to, in one queue; brokers of RocketMQ 5 only.
	Offset    int64
	HasOffset bool
}

// ResetGroup moves a group at one broker, whether it has clients or not, and
// returns what the broker says of the new offsets, by queue number; some
// brokers say nothing. Errors: ErrInvalid, an *Error, and those of Call.
func (c *Client) ResetGroup(ctx context.Context, addr string, r Reset) (map[int]int64, error) {
	if r.HasOffset && r.AllQueues {
		return nil, fmt.Errorf("reset group %q: an offset is for one queue: %w", r.Group, ErrInvalid)
	}
	f := r.fields()
	f["group"] = r.Group
	f["timestamp"] = "-1"
	f["isForce"] = "true"
	if r.AllQueues {
		f["queueId"] = "-1"
	}
	if r.HasOffset {
		f["offset"] = strconv.FormatInt(r.Offset, 10)
	} else if !r.Time.IsZero() {
		f["timestamp"] = strconv.FormatInt(r.Time.UnixMilli(), 10)
	}
	op := fmt.Sprintf("reset group %q in topic %q", r.Group, r.Topic)
	res, err := c.ask(ctx, addr, op, &Command{Code: reqResetGroup, Fields: f}, 0)
	if err != nil {
		return nil, err
	}
	offsets, err := queueNumbers(res.Body)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	return offsets, nil
}

// queueNumbers reads a table of offsets by queue: the key is a queue as JSON.
func queueNumbers(body []byte) (map[int]int64, error) {
	if len(body) == 0 {
		return nil, nil
	}
	var table struct {
		Offsets map[string]int64 `json:"offsetTable"`
	}
	if err := Unmarshal(body, &table); err != nil {
		return nil, err
	}
	offsets := map[int]int64{}
	for key, n := range table.Offsets {
		id, err := queueID(key)
		if err != nil {
			return nil, err
		}
		offsets[id] = n
	}
	return offsets, nil
}

func queueID(key string) (int, error) {
	var q struct {
		ID *int `json:"queueId"`
	}
	if err := Unmarshal([]byte(key), &q); err != nil {
		return 0, err
	}
	if q.ID == nil {
		return 0, fmt.Errorf("key %q names no queue: %w", key, ErrMalformed)
	}
	return *q.ID, nil
}

// GroupProgress is how far a group has come in a queue.
type GroupProgress struct {
	// Broker is the maximum of the queue, Consumer the group's offset.
	Broker   int64 `json:"brokerOffset"`
	Consumer int64 `json:"consumerOffset"`
	// LastTime is when the last consumed message was stored, ms since 1970.
	LastTime int64 `json:"lastTimestamp"`
}

// GroupStats asks a broker how far a group has come in a topic, by queue
// number; an empty topic means all, which then may not be told apart by number.
func (c *Client) GroupStats(ctx context.Context, addr, group, topic string) (map[int]GroupProgress, error) {
	f := map[string]string{"consumerGroup": group}
	if topic != "" {
		f["topic"] = topic
	}
	op := fmt.Sprintf("progress of group %q", group)
	res, err := c.ask(ctx, addr, op, &Command{Code: reqGroupStats, Fields: f}, 0)
	if err != nil {
		return nil, err
	}
	var table struct {
		Offsets map[string]GroupProgress `json:"offsetTable"`
	}
	if err := Unmarshal(res.Body, &table); err != nil {
		return nil, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	stats := map[int]GroupProgress{}
	var errs []error
	for key, p := range table.Offsets {
		id, err := queueID(key)
		errs = append(errs, err)
		stats[id] = p
	}
	return stats, errors.Join(errs...)
}

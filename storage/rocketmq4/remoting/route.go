package remoting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Permissions of a topic at a broker.
const (
	PermWrite = 2
	PermRead  = 4
)

// MasterID is the number of a broker's master; others are slaves.
const MasterID = "0"

// Route says where a topic is.
type Route struct {
	Queues  []QueueData  `json:"queueDatas"`
	Brokers []BrokerData `json:"brokerDatas"`
}

// QueueData is a topic's share at one broker.
type QueueData struct {
	Broker string `json:"brokerName"`
	// Read and Write count the queues 0, 1, … that may be read and written.
	Read  int `json:"readQueueNums"`
	Write int `json:"writeQueueNums"`
	// Perm are the permissions: PermRead, PermWrite.
	Perm int `json:"perm"`
}

// BrokerData is a broker: a master and its slaves.
type BrokerData struct {
	Cluster string `json:"cluster"`
	Name    string `json:"brokerName"`
	// Addrs are addresses by number; "0" is the master's.
	Addrs map[string]string `json:"brokerAddrs"`
}

// Master is the master's address; empty: there is none now.
func (b BrokerData) Master() string { return b.Addrs[MasterID] }

// Broker finds a broker by name.
func (r *Route) Broker(name string) (BrokerData, bool) {
	i := slices.IndexFunc(r.Brokers, func(b BrokerData) bool { return b.Name == name })
	if i < 0 {
		return BrokerData{}, false
	}
	return r.Brokers[i], true
}

// Route asks a name server where a topic is; brokers that are down are not
// told. Errors: an *Error with CodeTopicNotExist where no registered broker
// has the topic, and those of Call.
func (c *Client) Route(ctx context.Context, topic string) (*Route, error) {
	res, err := c.askNameServer(ctx, fmt.Sprintf("route of topic %q", topic), &Command{
		Code: reqRoute, Fields: map[string]string{"topic": topic, "acceptStandardJsonOnly": "true"},
	})
	if err != nil {
		return nil, err
	}
	r := new(Route)
	if err := Unmarshal(res.Body, r); err != nil {
		return nil, fmt.Errorf("route of topic %q: %w", topic, err)
	}
	slices.SortFunc(r.Queues, func(a, b QueueData) int { return compare(a.Broker, b.Broker) })
	return r, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Topics lists the topics that a name server knows, in no order; topics of
// groups and of the brokers themselves are among them.
func (c *Client) Topics(ctx context.Context) ([]string, error) {
	res, err := c.askNameServer(ctx, "list of topics", &Command{Code: reqTopics})
	if err != nil {
		return nil, err
	}
	var list struct {
		Topics []string `json:"topicList"`
	}
	if err := Unmarshal(res.Body, &list); err != nil {
		return nil, fmt.Errorf("list of topics: %w", err)
	}
	return list.Topics, nil
}

// Cluster lists the brokers that are registered, in order of name.
func (c *Client) Cluster(ctx context.Context) ([]BrokerData, error) {
	res, err := c.askNameServer(ctx, "list of brokers", &Command{Code: reqCluster})
	if err != nil {
		return nil, err
	}
	var info struct {
		Brokers map[string]BrokerData `json:"brokerAddrTable"`
	}
	if err := Unmarshal(res.Body, &info); err != nil {
		return nil, fmt.Errorf("list of brokers: %w", err)
	}
	var list []BrokerData
	for name, b := range info.Brokers {
		b.Name = name
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b BrokerData) int { return compare(a.Name, b.Name) })
	return list, nil
}

// TopicExists asks a broker whether it has a topic, without a trace there.
func (c *Client) TopicExists(ctx context.Context, addr, topic string) (bool, error) {
	res, err := c.ask(ctx, addr, fmt.Sprintf("look after topic %q", topic),
		&Command{Code: reqTopicStats, Fields: map[string]string{"topic": topic}}, 0, CodeTopicNotExist)
	return err == nil && res.Code == CodeSuccess, err
}

// TopicConfig is a topic to be made at a broker.
type TopicConfig struct {
	Topic string
	// Queues is how many queues it has for reading and for writing.
	Queues int
	// Attributes are those of RocketMQ 5, as "+message.type=LITE"; mostly
	// empty.
	Attributes string
}

// CreateTopic makes a topic at a broker, or changes one that is there.
func (c *Client) CreateTopic(ctx context.Context, addr string, t TopicConfig) error {
	n := strconv.Itoa(t.Queues)
	fields := map[string]string{
		"topic": t.Topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n,
		"perm": strconv.Itoa(PermRead | PermWrite), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
	}
	if t.Attributes != "" {
		fields["attributes"] = t.Attributes
	}
	_, err := c.ask(ctx, addr, fmt.Sprintf("create topic %q", t.Topic), &Command{Code: reqCreateTopic, Fields: fields}, 0)
	return err
}

// DeleteTopicAt removes a topic from one broker, with its messages. The name
// servers go on telling of it until DeleteTopicAtNameServers.
func (c *Client) DeleteTopicAt(ctx context.Context, addr, topic string) error {
	_, err := c.ask(ctx, addr, fmt.Sprintf("delete topic %q", topic), &Command{Code: reqDeleteAtBroker, Fields: map[string]string{"topic": topic}}, 0)
	return err
}

// DeleteTopicAtNameServers makes all name servers forget a topic.
func (c *Client) DeleteTopicAtNameServers(ctx context.Context, topic string) error {
	var errs []error
	for _, addr := range c.opts.NameServers {
		_, err := c.ask(ctx, addr, fmt.Sprintf("forget topic %q", topic), &Command{Code: reqDeleteAtNamesrv, Fields: map[string]string{"topic": topic}}, 0)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

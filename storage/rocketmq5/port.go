package rocketmq5

import (
	"context"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/frame"
)

// port is what cannot be done through the proxies' gRPC. All methods may be
// called concurrently.
type port interface {
	// queues lists the queues of a topic that may be read, of all brokers, in
	// order.
	queues(ctx context.Context, topic string) ([]queue, error)
	// topics lists all topics, RocketMQ's own among them.
	topics(ctx context.Context) ([]string, error)
	// findGroup looks whether a broker has a group. It leaves no trace.
	findGroup(ctx context.Context, broker, group string) (cfg groupConfig, ok bool, err error)
	// makeGroup makes a group at a broker, or changes it.
	makeGroup(ctx context.Context, broker string, cfg groupConfig) error
	// removeGroup removes a group from a broker, with its offsets and its
	// retries of a topic.
	removeGroup(ctx context.Context, broker, topic, group string) error
	// offset is the offset of a group in a queue; ok is false where there is
	// none.
	offset(ctx context.Context, q queue, group string) (next int64, ok bool, err error)
	// place sets where a group goes on in a queue, from the next pop on.
	place(ctx context.Context, q queue, group string, next int64) error
	// bounds are the lowest offset held and the next to be written.
	bounds(ctx context.Context, q queue) (low, high int64, err error)
	// search finds the first offset stored at a time or later; the maximum if
	// there is none.
	search(ctx context.Context, q queue, at time.Time) (int64, error)
	// read reads messages of a queue from an offset on, up to so many; none
	// where there is none.
	read(ctx context.Context, q queue, offset int64, most int) ([]stored, error)
	// byID finds messages of a topic by message id.
	byID(ctx context.Context, topic, id string) ([]stored, error)
	close()
}

// queue is a queue of a topic at a broker.
type queue struct {
	topic, broker string
	id            int
}

func (q queue) partition() string { return partitionName(q.broker, q.id) }

// brokersOf names the brokers of queues, each once.
func brokersOf(list []queue) (names []string) {
	for _, q := range list {
		if !slices.Contains(names, q.broker) {
			names = append(names, q.broker)
		}
	}
	return names
}

// groupConfig is a consumer group at a broker.
type groupConfig struct {
	name    string
	ordered bool
	retries int // how often a message is handed out again at most
}

// stored is a message as a queue holds it.
type stored struct {
	id      string
	offset  int64
	time    time.Time // of storing
	born    time.Time
	body    []byte
	headers []frame.Header
	key     string
}

package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// Topic implements storage.Backend. A proxy is asked each time. A topic that was
// there and is said not to be is ErrUnavailable for 2 minutes: proxies say so
// while its brokers are down. RocketMQ tells no identity of a topic, so one that
// was deleted and made again is not noticed.
func (l *Log) Topic(ctx context.Context, topic string) (storage.Topic, error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return storage.Topic{}, err
	}
	defer leave()
	if err := checkTopic(topic); err != nil {
		return storage.Topic{}, fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	route, err := l.sess.AskRoute(inner, topic)
	if err != nil {
		return storage.Topic{}, l.outcome(ctx, explain(fmt.Sprintf("topic %q", topic), err))
	}
	return describe(route), nil
}

// EnsureTopic implements storage.Backend. Topics are never made: RocketMQ's
// proxies cannot, and their type is for who runs it to choose.
func (l *Log) EnsureTopic(ctx context.Context, topic string) (storage.Topic, error) {
	t, err := l.Topic(ctx, topic)
	if errors.Is(err, storage.ErrTopicNotFound) {
		err = l.toCreate(topic, err)
	}
	return t, err
}

func describe(r *session.Route) storage.Topic {
	t := storage.Topic{Name: r.Topic, Lite: isParent(r)}
	if t.Lite {
		return t
	}
	for _, q := range r.Queues {
		if q.Readable {
			t.Partitions = append(t.Partitions, partitionName(q.Broker, q.ID))
		}
	}
	return t
}

// Topics implements storage.Backend. With name servers all topics that are
// nobody's own are listed, without them those that were used here.
func (l *Log) Topics(ctx context.Context) ([]storage.Topic, error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	names := l.sess.Known()
	if l.port != nil {
		if names, err = l.port.topics(inner); err != nil {
			return nil, l.outcome(ctx, explain("list of topics", err))
		}
		names = slices.DeleteFunc(names, isInternal)
		slices.Sort(names)
	}
	list := make([]storage.Topic, 0, len(names))
	for _, name := range names {
		route, err := l.sess.Route(inner, name)
		if err != nil {
			if isNoTopic(err) || session.IsTransient(err) && inner.Err() == nil {
				continue // it is being made or deleted, or its brokers are down
			}
			return nil, l.outcome(ctx, explain(fmt.Sprintf("topic %q", name), err))
		}
		list = append(list, describe(route))
	}
	return list, nil
}

// isInternal tells topics of RocketMQ itself from those of users.
func isInternal(name string) bool {
	for _, p := range []string{"%RETRY%", "%DLQ%", "%LMQ%", "%SYS%", "rmq_sys_", "SCHEDULE_TOPIC_", "RMQ_SYS_", "CID_", "wheel_timer"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	switch name {
	case "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "DefaultHeartBeatSyncerTopic", "DefaultCluster", "TRANS_CHECK_MAX_TIME_TOPIC":
		return true
	}
	return strings.HasSuffix(name, "_REPLY_TOPIC") || strings.HasPrefix(name, "rmq_")
}

// nameServerArg is how a name server is named in commands that are advised.
func (o Options) nameServerArg() string {
	if len(o.NameServers) > 0 {
		return strings.Join(o.NameServers, ";")
	}
	return "NAMESERVER:9876"
}

// toCreate says how a missing topic is made.
func (l *Log) toCreate(topic string, err error) error {
	return fmt.Errorf("rocketmq5: topic %q is missing and RocketMQ 5 topics are not made on first use; create it: mqadmin updateTopic -n '%s' -c CLUSTER -t %s -r 8 -w 8 -a +message.type=NORMAL: %w: %w",
		topic, l.opts.nameServerArg(), topic, storage.ErrTopicNotFound, err)
}

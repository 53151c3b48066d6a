package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// Topic implements storage.Backend. The brokers are asked each time, so
// partitions that were added are told at once.
func (l *Log) Topic(ctx context.Context, topic string) (storage.Topic, error) {
	return l.describe(ctx, topic, l.meta.ask)
}

// EnsureTopic implements storage.Backend. It makes missing topics with
// Options.AutoCreate.
func (l *Log) EnsureTopic(ctx context.Context, topic string) (storage.Topic, error) {
	return l.describe(ctx, topic, l.ensure)
}

func (l *Log) describe(ctx context.Context, topic string, find func(context.Context, string) (*topicInfo, error)) (storage.Topic, error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return storage.Topic{}, err
	}
	defer leave()
	t, err := find(inner, topic)
	if err != nil {
		return storage.Topic{}, l.outcome(ctx, err)
	}
	return t.describe(), nil
}

// ensure finds a topic and makes it first where that is allowed. Its partitions
// have leaders where it was made.
func (l *Log) ensure(ctx context.Context, topic string) (*topicInfo, error) {
	t, err := l.meta.ask(ctx, topic)
	if !errors.Is(err, storage.ErrTopicNotFound) {
		return t, err
	}
	if !l.opts.AutoCreate {
		return nil, l.toCreate(topic, "topics are not made on first use (topics.auto-create)", err)
	}
	t, err = l.create(ctx, topic, storage.TopicConfig{})
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, storage.ErrTopicExists): // somebody was quicker
		return l.created(ctx, topic)
	case errors.Is(err, sarama.ErrTopicAuthorizationFailed), errors.Is(err, sarama.ErrClusterAuthorizationFailed), errors.Is(err, storage.ErrInvalid):
		return nil, l.toCreate(topic, "it could not be made", err)
	}
	return nil, err
}

// toCreate says how a missing topic is made.
func (l *Log) toCreate(topic, why string, err error) error {
	flags := []string{"kafka-topics.sh", "--bootstrap-server", l.opts.Brokers[0], "--create", "--topic", topic}
	if l.opts.Partitions > 0 {
		flags = append(flags, "--partitions", strconv.Itoa(l.opts.Partitions))
	}
	if l.opts.Replicas > 0 {
		flags = append(flags, "--replication-factor", strconv.Itoa(l.opts.Replicas))
	}
	return fmt.Errorf("kafka: topic %q is missing and %s; create it: %s: %w: %w", topic, why, strings.Join(flags, " "), storage.ErrTopicNotFound, err)
}

// Topics implements storage.Backend. Kafka's own topics are left out.
func (l *Log) Topics(ctx context.Context) ([]storage.Topic, error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	infos, err := l.meta.all(inner)
	if err != nil {
		return nil, l.outcome(ctx, err)
	}
	slices.SortFunc(infos, func(a, b *topicInfo) int { return cmp.Compare(a.name, b.name) })
	list := make([]storage.Topic, len(infos))
	for i, t := range infos {
		list[i] = t.describe()
	}
	return list, nil
}

// CreateTopic implements storage.TopicAdmin. It returns when the partitions
// have leaders. The user needs CREATE on the topic or the cluster.
func (l *Log) CreateTopic(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
	return l.describe(ctx, topic, func(ctx context.Context, topic string) (*topicInfo, error) { return l.create(ctx, topic, cfg) })
}

func (l *Log) create(ctx context.Context, topic string, cfg storage.TopicConfig) (*topicInfo, error) {
	detail, err := l.detail(topic, cfg)
	if err != nil {
		return nil, err
	}
	err = l.atController(ctx, func(addr string) error {
		req := sarama.NewCreateTopicsRequest(sarama.MaxVersion, map[string]*sarama.TopicDetail{topic: detail}, l.opts.RequestTimeout/2, false)
		var res *sarama.CreateTopicsResponse
		err := l.links.once(ctx, addr, func(b *sarama.Broker) (err error) {
			res, err = b.CreateTopics(req)
			return err
		})
		if err != nil {
			return err
		}
		answer := res.TopicErrors[topic]
		if answer == nil {
			return fmt.Errorf("kafka: broker %s left topic %q out of its answer: %w", addr, topic, storage.ErrUnavailable)
		}
		if answer.Err != sarama.ErrNoError {
			return explain(fmt.Sprintf("create topic %q", topic), answer)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.created(ctx, topic)
}

// detail is what Kafka is told of a new topic.
func (l *Log) detail(topic string, cfg storage.TopicConfig) (*sarama.TopicDetail, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if cfg.Partitions < 0 || cfg.Partitions > maxPartitions {
		return nil, fmt.Errorf("kafka: topic %q: %d partitions, give 1 to %d, or 0 for the default: %w", topic, cfg.Partitions, maxPartitions, storage.ErrInvalid)
	}
	if cfg.Retention < 0 {
		return nil, fmt.Errorf("kafka: topic %q: retention %v is below 0: %w", topic, cfg.Retention, storage.ErrInvalid)
	}
	partitions := or(cfg.Partitions, or(l.opts.Partitions, -1)) // -1: the broker's default
	d := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: int16(or(l.opts.Replicas, -1))}
	if cfg.Retention > 0 {
		ms := strconv.FormatInt(max(cfg.Retention.Milliseconds(), 1), 10)
		d.ConfigEntries = map[string]*string{"retention.ms": &ms}
	}
	return d, nil
}

// created waits until a new topic can be used.
func (l *Log) created(ctx context.Context, topic string) (*topicInfo, error) {
	patience := l.patience()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		t, err := l.meta.ask(ctx, topic)
		leaderless := err == nil && slices.ContainsFunc(t.parts, func(p partInfo) bool { return p.leader == "" })
		missing := errors.Is(err, storage.ErrTopicNotFound) || errors.Is(err, storage.ErrUnavailable)
		if !leaderless && !missing || time.Now().After(patience) {
			return t, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// atController calls f with the broker that makes topics.
func (l *Log) atController(ctx context.Context, f func(addr string) error) error {
	for patience := l.patience(); ; {
		addr, err := l.meta.controllerAddr(ctx)
		if err == nil {
			err = f(addr)
		}
		if err == nil || !errors.Is(err, storage.ErrUnavailable) || time.Now().After(patience) {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// controllerAddr asks which broker that is.
func (m *metadata) controllerAddr(ctx context.Context) (addr string, err error) {
	err = m.anyBroker(ctx, func(asked string) error {
		if _, err := m.request(ctx, asked, []string{noTopic}); err != nil {
			return err
		}
		m.mu.Lock()
		addr = m.controller
		m.mu.Unlock()
		if addr == "" {
			return fmt.Errorf("kafka: broker %s knows no controller: %w", asked, storage.ErrUnavailable)
		}
		return nil
	})
	return addr, err
}

// noTopic is asked for where only the brokers matter. Kafka takes no topic of
// that name, so there is none.
const noTopic = "."

// DeleteTopic implements storage.TopicAdmin. It returns when a broker says
// that the topic is gone. The user needs DELETE on the topic.
func (l *Log) DeleteTopic(ctx context.Context, topic string) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return l.outcome(ctx, l.delete(inner, topic))
}

func (l *Log) delete(ctx context.Context, topic string) error {
	before, err := l.meta.ask(ctx, topic)
	if err != nil {
		return err
	}
	err = l.atController(ctx, func(addr string) error {
		req := sarama.NewDeleteTopicsRequest(sarama.V2_7_0_0, []string{topic}, l.opts.RequestTimeout/2)
		var res *sarama.DeleteTopicsResponse
		err := l.links.once(ctx, addr, func(b *sarama.Broker) (err error) {
			res, err = b.DeleteTopics(req)
			return err
		})
		if err != nil {
			return err
		}
		if code := res.TopicErrorCodes[topic]; code != sarama.ErrNoError {
			return explain(fmt.Sprintf("delete topic %q", topic), code)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.forget(topic)
	return l.gone(ctx, before)
}

// forget drops all that is kept of a topic.
func (l *Log) forget(topic string) {
	l.meta.forget(topic)
	l.states.forget(topic)
	l.cursors.Forget(topic)
	l.queue.forget(topic)
}

// gone waits until a deleted topic is not told of any more, or made again.
func (l *Log) gone(ctx context.Context, before *topicInfo) error {
	patience := l.patience()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		t, err := l.meta.ask(ctx, before.name)
		isGone := errors.Is(err, storage.ErrTopicNotFound) || err == nil && before.id != "" && t.id != before.id
		if isGone || time.Now().After(patience) {
			return nil // it was deleted, whoever lags behind
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

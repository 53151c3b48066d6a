package rocketmq4

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Topic implements storage.Backend. The name server is asked each time, so
// queues that were added are told at once; so is a topic that was made again,
// as far as its messages show it.
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
	if err == nil && l.ids.toCheck(topic) {
		if err = l.recheck(inner, t); errors.Is(err, storage.ErrTopicChanged) {
			t, err = find(inner, topic)
		}
	}
	if err != nil {
		return storage.Topic{}, l.outcome(ctx, l.notFound(topic, err))
	}
	return t.describe(), nil
}

// ensure finds a topic and makes it first where that is allowed.
func (l *Log) ensure(ctx context.Context, topic string) (*topicInfo, error) {
	t, err := l.meta.ask(ctx, topic)
	if !errors.Is(err, storage.ErrTopicNotFound) {
		return t, err
	}
	if !l.opts.AutoCreate {
		return nil, l.toCreate(topic, "topics are not made on first use (topics.auto-create)", err)
	}
	t, err = l.create(ctx, topic, storage.TopicConfig{})
	var refused *remoting.Error
	switch {
	case errors.Is(err, storage.ErrTopicExists): // somebody was quicker
		return l.created(ctx, topic, 1)
	case errors.As(err, &refused), errors.Is(err, storage.ErrInvalid):
		return nil, l.toCreate(topic, "it could not be made", err)
	}
	return t, err
}

// toCreate says how a missing topic is made.
func (l *Log) toCreate(topic, why string, err error) error {
	return fmt.Errorf("rocketmq4: topic %q is missing and %s; create it: mqadmin updateTopic -n %s -c %s -t %s -r %d -w %d: %w: %w",
		topic, why, strings.Join(l.opts.NameServers, ";"), cmp.Or(l.opts.Cluster, "DefaultCluster"), topic, l.opts.Partitions, l.opts.Partitions, storage.ErrTopicNotFound, err)
}

// Topics implements storage.Backend. RocketMQ's own topics are left out.
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
	list := make([]storage.Topic, len(infos))
	for i, t := range infos {
		list[i] = t.describe()
	}
	return list, nil
}

// CreateTopic implements storage.TopicAdmin. The queues are divided among the
// brokers of Options.Cluster. Two programs that make the same topic at the same
// moment may both succeed: RocketMQ does not tell. A retention of its own is
// refused: RocketMQ has none for a topic.
func (l *Log) CreateTopic(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
	return l.describe(ctx, topic, func(ctx context.Context, topic string) (*topicInfo, error) { return l.create(ctx, topic, cfg) })
}

func (l *Log) create(ctx context.Context, topic string, cfg storage.TopicConfig) (*topicInfo, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if cfg.Partitions < 0 || cfg.Partitions > maxPartitions {
		return nil, fmt.Errorf("rocketmq4: topic %q: %d partitions, give 1 to %d, or 0 for the default: %w", topic, cfg.Partitions, maxPartitions, storage.ErrInvalid)
	}
	if cfg.Retention != 0 {
		return nil, fmt.Errorf("rocketmq4: topic %q: retention %v, but RocketMQ keeps all topics of a broker equally long (fileReservedTime): give none: %w", topic, cfg.Retention, storage.ErrInvalid)
	}
	select {
	case l.creating <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.creating }()
	switch _, err := l.meta.ask(ctx, topic); {
	case err == nil:
		return nil, fmt.Errorf("rocketmq4: topic %q: %w", topic, storage.ErrTopicExists)
	case !errors.Is(err, storage.ErrTopicNotFound):
		return nil, err
	}
	return l.createAtBrokers(ctx, topic, cmp.Or(cfg.Partitions, l.opts.Partitions))
}

// createAtBrokers divides the queues among the brokers.
func (l *Log) createAtBrokers(ctx context.Context, topic string, queues int) (*topicInfo, error) {
	brokers, err := l.client.Cluster(ctx)
	if err != nil {
		return nil, explain(err)
	}
	brokers = slices.DeleteFunc(brokers, func(b remoting.BrokerData) bool {
		return b.Master() == "" || l.opts.Cluster != "" && b.Cluster != l.opts.Cluster
	})
	if len(brokers) == 0 {
		return nil, fmt.Errorf("rocketmq4: topic %q: no broker of cluster %q is up: %w", topic, l.opts.Cluster, storage.ErrUnavailable)
	}
	for i, b := range brokers {
		share := queues / len(brokers)
		if i < queues%len(brokers) {
			share++
		}
		if share == 0 {
			break
		}
		if err := l.client.CreateTopic(ctx, b.Master(), remoting.TopicConfig{Topic: topic, Queues: share}); err != nil {
			return nil, l.failed(ctx, b.Master(), err)
		}
	}
	return l.created(ctx, topic, queues)
}

// created waits until a new topic is known with so many queues.
func (l *Log) created(ctx context.Context, topic string, queues int) (*topicInfo, error) {
	until := time.Now().Add(l.opts.RequestTimeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		t, err := l.meta.ask(ctx, topic)
		missing := errors.Is(err, storage.ErrTopicNotFound) || errors.Is(err, storage.ErrUnavailable)
		if err == nil && len(t.parts) >= queues || err != nil && !missing || time.Until(until) < pause {
			return t, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// DeleteTopic implements storage.TopicAdmin. All brokers that have the topic
// must be up: one that comes back later would bring it along.
func (l *Log) DeleteTopic(ctx context.Context, topic string) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return l.outcome(ctx, l.delete(inner, topic))
}

func (l *Log) delete(ctx context.Context, topic string) error {
	select {
	case l.creating <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.creating }()
	t, err := l.meta.ask(ctx, topic)
	if err != nil {
		return l.notFound(topic, err)
	}
	addrs := map[string]bool{}
	for i := range t.parts {
		p := &t.parts[i]
		if p.master() == "" {
			return fmt.Errorf("rocketmq4: topic %q is not deleted: broker %s, which has it, is down: %w", topic, p.broker, storage.ErrUnavailable)
		}
		for _, addr := range p.addrs {
			addrs[addr] = true
		}
	}
	for addr := range addrs {
		if err := l.client.DeleteTopicAt(ctx, addr, topic); err != nil {
			return l.failed(ctx, addr, err)
		}
	}
	if err := l.client.DeleteTopicAtNameServers(ctx, topic); err != nil {
		return explain(err)
	}
	if _, _, err := l.ids.renew(topic, t.id, true); err != nil {
		return fmt.Errorf("rocketmq4: topic %q is deleted, but that could not be saved: %w", topic, err)
	}
	l.meta.forget(topic)
	l.states.forget(topic)
	l.cursors.Forget(topic)
	l.queue.forget(topic)
	return nil
}

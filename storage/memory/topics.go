package memory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// topic is one topic. Its lock guards all of it but the fields set at birth;
// it is never held while something blocks.
type topic struct {
	name      string
	id        string
	retention time.Duration // 0: for ever
	gone      chan struct{} // closed when the topic is deleted
	lite      bool          // a parent of lite topics

	mu         sync.Mutex
	deleted    bool
	partitions []*partition
	byName     map[string]*partition
	keyless    uint64 // events without a key so far
	dedup      dedup
	lites      map[string]*topic // of a parent; each has one partition, named as itself
	awaits     map[*await]bool   // of a lite topic
}

// lookup finds a topic.
func (l *log) lookup(name string) (*topic, error) {
	l.mu.RLock()
	t := l.topics[name]
	l.mu.RUnlock()
	if t == nil {
		return nil, fmt.Errorf("memory: topic %q: %w", name, storage.ErrTopicNotFound)
	}
	return t, nil
}

// ensure finds a topic and makes it first where that is allowed.
func (l *log) ensure(name string) (*topic, error) {
	t, err := l.lookup(name)
	if err == nil {
		return t, nil
	}
	if l.opts.NoAutoCreate {
		return nil, fmt.Errorf("memory: topic %q is not made on first use, create it with CreateTopic: %w", name, storage.ErrTopicNotFound)
	}
	t, _, err = l.create(name, storage.TopicConfig{}, false)
	return t, err
}

// create makes a topic unless it is there; made tells which. lite: a parent of
// lite topics.
func (l *log) create(name string, cfg storage.TopicConfig, lite bool) (t *topic, made bool, err error) {
	if err := storage.CheckName("topic", name); err != nil {
		return nil, false, fmt.Errorf("memory: %w", err)
	}
	if cfg.Partitions < 0 || cfg.Partitions > MaxPartitions {
		return nil, false, fmt.Errorf("memory: topic %q: %d partitions, give 1 to %d, or 0 for the default: %w", name, cfg.Partitions, MaxPartitions, storage.ErrInvalid)
	}
	if cfg.Retention < 0 {
		return nil, false, fmt.Errorf("memory: topic %q: retention %v is below 0: %w", name, cfg.Retention, storage.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topics[name]; t != nil {
		return t, false, nil
	}
	// The name may be part of a buffer that the caller uses again.
	t = newTopic(strings.Clone(name), "m"+strconv.FormatInt(lastTopicID.Add(1), 10), cfg.Retention)
	if t.lite = lite; !lite {
		t.grow(cmp.Or(cfg.Partitions, l.opts.Partitions), l.opts.PartitionName)
	}
	l.topics[t.name] = t
	return t, true, nil
}

// newTopic makes a topic without partitions.
func newTopic(name, id string, retention time.Duration) *topic {
	return &topic{name: name, id: id, retention: retention, gone: make(chan struct{}), byName: map[string]*partition{}}
}

// grow adds partitions until there are n.
func (t *topic) grow(n int, name func(int) string) {
	for i := len(t.partitions); i < n; i++ {
		p := &partition{name: name(i), cursor: noCursor, saved: noCursor}
		t.partitions = append(t.partitions, p)
		t.byName[p.name] = p
	}
}

// describe makes the description of t.
func (t *topic) describe() storage.Topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := storage.Topic{Name: t.name, ID: t.id, Partitions: make([]string, len(t.partitions)), Lite: t.lite}
	for i, p := range t.partitions {
		d.Partitions[i] = p.name
	}
	return d
}

// with calls f with a partition under the topic's lock.
func (l *log) with(name, partition string, f func(*topic, *partition) error) error {
	t, err := l.lookup(name)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, err := t.partition(partition)
	if err != nil {
		return err
	}
	return f(t, p)
}

// partition finds a partition; the lock is held.
func (t *topic) partition(name string) (*partition, error) {
	p := t.byName[name]
	if p == nil {
		return nil, fmt.Errorf("memory: topic %q has no partition %q: %w", t.name, name, storage.ErrPartitionNotFound)
	}
	return p, nil
}

// Topic describes a topic.
func (b *Backend) Topic(_ context.Context, topic string) (storage.Topic, error) {
	return b.describe(topic, b.log.lookup)
}

// EnsureTopic describes a topic and makes it first where it is missing,
// unless Options.NoAutoCreate is set.
func (b *Backend) EnsureTopic(_ context.Context, topic string) (storage.Topic, error) {
	return b.describe(topic, b.log.ensure)
}

func (b *Backend) describe(name string, find func(string) (*topic, error)) (storage.Topic, error) {
	if err := b.enter(); err != nil {
		return storage.Topic{}, err
	}
	defer b.leave()
	t, err := find(name)
	if err != nil {
		return storage.Topic{}, err
	}
	return t.describe(), nil
}

// Topics describes all topics, in order of name.
func (b *Backend) Topics(context.Context) ([]storage.Topic, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	var list []storage.Topic
	for _, t := range b.log.all() {
		list = append(list, t.describe())
	}
	return list, nil
}

// CreateTopic makes a topic.
func (b *Backend) CreateTopic(_ context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
	if err := b.enter(); err != nil {
		return storage.Topic{}, err
	}
	defer b.leave()
	t, made, err := b.log.create(topic, cfg, false)
	switch {
	case err != nil:
		return storage.Topic{}, err
	case !made:
		return storage.Topic{}, fmt.Errorf("memory: topic %q: %w", topic, storage.ErrTopicExists)
	}
	return t.describe(), nil
}

// DeleteTopic removes a topic with its records and pull offsets. A Poll that
// waits on it fails with ErrTopicNotFound, or ErrTopicChanged when the topic
// has been made again.
func (b *Backend) DeleteTopic(_ context.Context, topic string) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	l := b.log
	l.mu.Lock()
	t := l.topics[topic]
	delete(l.topics, topic)
	l.mu.Unlock()
	if t == nil {
		return fmt.Errorf("memory: topic %q: %w", topic, storage.ErrTopicNotFound)
	}
	for _, part := range append(t.allLites(), t) {
		part.mu.Lock()
		part.deleted = true
		part.mu.Unlock()
		close(part.gone)
		part.arrived()
	}
	return nil
}

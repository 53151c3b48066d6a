package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// topicInfo is what is known of a topic. It never changes.
type topicInfo struct {
	name  string
	id    string
	parts []partInfo // in order of broker and queue
	at    time.Time  // when it was asked for
}

// partInfo is one queue.
type partInfo struct {
	name     string // broker:queue
	broker   string
	queue    int
	readable bool
	writable bool
	addrs    map[string]string // of the broker, by number; nil: it is down
}

func (p *partInfo) master() string { return p.addrs[remoting.MasterID] }

// describe makes the description of t.
func (t *topicInfo) describe() storage.Topic {
	d := storage.Topic{Name: t.name, ID: t.id, Partitions: make([]string, len(t.parts))}
	for i := range t.parts {
		d.Partitions[i] = t.parts[i].name
	}
	return d
}

// partition finds a queue by name.
func (t *topicInfo) partition(name string) (*partInfo, bool) {
	for i := range t.parts {
		if t.parts[i].name == name {
			return &t.parts[i], true
		}
	}
	return nil, false
}

// isPartition tells whether a queue may have the name: broker:queue.
func isPartition(name string) bool {
	at := strings.LastIndexByte(name, ':')
	if at < 1 {
		return false
	}
	n, err := strconv.Atoi(name[at+1:])
	return err == nil && n >= 0 && strconv.Itoa(n) == name[at+1:]
}

// metadata is what is known of the topics, and how to ask for more.
type metadata struct {
	opts   Options
	client *remoting.Client
	ids    *identities

	mu     sync.Mutex // guards topics
	topics map[string]*topicInfo
}

func newMetadata(opts Options, client *remoting.Client, ids *identities) *metadata {
	return &metadata{opts: opts, client: client, ids: ids, topics: map[string]*topicInfo{}}
}

// known returns what is known of a topic without asking; nil: nothing.
func (m *metadata) known(topic string) *topicInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[topic]
}

// topic returns what is known of a topic, and asks where nothing is, or what
// is older than since.
func (m *metadata) topic(ctx context.Context, name string, since time.Time) (*topicInfo, error) {
	if t := m.known(name); t != nil && t.at.After(since) && t.id == m.ids.current(name) {
		return t, nil
	}
	return m.ask(ctx, name)
}

// ask asks the name server for a topic.
func (m *metadata) ask(ctx context.Context, name string) (*topicInfo, error) {
	if err := checkTopic(name); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	asked := time.Now()
	route, err := m.client.Route(ctx, name)
	switch {
	case remoting.IsCode(err, remoting.CodeTopicNotExist):
		return nil, m.absent(ctx, name)
	case err != nil:
		return nil, explain(err)
	}
	return m.take(name, route, asked), nil
}

// take takes in a route. The queues of a broker that is down are not told any
// more; they are still there.
func (m *metadata) take(name string, route *remoting.Route, asked time.Time) *topicInfo {
	t := &topicInfo{name: name, id: m.ids.of(name), at: asked}
	told := map[string]bool{}
	for _, q := range route.Queues {
		told[q.Broker] = true
		b, _ := route.Broker(q.Broker) // one without an address is down
		t.add(q, b.Addrs)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.topics[name]
	if old != nil && old.id == t.id {
		for _, p := range old.parts {
			if !told[p.broker] {
				p.addrs = nil
				t.parts = append(t.parts, p)
			}
		}
	}
	slices.SortFunc(t.parts, func(a, b partInfo) int {
		if c := strings.Compare(a.broker, b.broker); c != 0 {
			return c
		}
		return a.queue - b.queue
	})
	if old == nil || old.id != t.id || old.at.Before(asked) {
		m.topics[name] = t
	}
	return t
}

// add adds a topic's share at one broker.
func (t *topicInfo) add(q remoting.QueueData, addrs map[string]string) {
	for n := range min(max(q.Read, 0), maxQueues) {
		t.parts = append(t.parts, partInfo{
			name: q.Broker + ":" + strconv.Itoa(n), broker: q.Broker, queue: n, addrs: addrs,
			readable: q.Perm&remoting.PermRead != 0, writable: q.Perm&remoting.PermWrite != 0 && n < q.Write,
		})
	}
}

// maxQueues bounds the queues of a topic at one broker that are believed.
const maxQueues = 1 << 16

// absent finds out what it means that the name server has no route of a topic:
// either the topic is missing, or brokers that have it are down. The brokers
// know.
func (m *metadata) absent(ctx context.Context, name string) error {
	old := m.known(name)
	queues, wasThere := m.ids.known(name)
	brokers, err := m.client.Cluster(ctx)
	if err != nil {
		return explain(err)
	}
	if len(brokers) == 0 {
		return fmt.Errorf("rocketmq4: topic %q: no broker is registered at the name server: %w", name, storage.ErrUnavailable)
	}
	addrs := map[string]string{}
	for _, b := range brokers {
		addrs[b.Name] = b.Master()
	}
	if old != nil {
		for _, p := range old.parts {
			queues = append(queues, p.name)
		}
	}
	for _, queue := range queues {
		if broker := queue[:max(strings.LastIndexByte(queue, ':'), 0)]; addrs[broker] == "" {
			return fmt.Errorf("rocketmq4: topic %q: broker %s is down: %w", name, broker, storage.ErrUnavailable)
		}
	}
	for broker, addr := range addrs {
		if addr == "" {
			continue // a master that is down, of a broker that nobody has known to have the topic
		}
		there, err := m.client.TopicExists(ctx, addr, name)
		if err != nil {
			return explain(err)
		}
		if there {
			return fmt.Errorf("rocketmq4: topic %q is at broker %s, but the name server has no route yet: %w", name, broker, storage.ErrUnavailable)
		}
	}
	if wasThere {
		m.gone(name)
	}
	return fmt.Errorf("rocketmq4: topic %q: %w", name, storage.ErrTopicNotFound)
}

// gone notes that a topic was deleted by somebody else: one that comes again is
// another one.
func (m *metadata) gone(name string) {
	if _, _, err := m.ids.renew(name, m.ids.current(name), true); err != nil {
		m.opts.Logger.Warn("rocketmq4: that a topic was deleted could not be saved", "topic", name, "error", err)
	}
	m.forget(name)
}

// forget drops what is known of a topic.
func (m *metadata) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, name)
}

// all asks for all topics but RocketMQ's own. Those that vanish meanwhile are
// left out.
func (m *metadata) all(ctx context.Context) (list []*topicInfo, err error) {
	names, err := m.client.Topics(ctx)
	if err != nil {
		return nil, explain(err)
	}
	brokers, err := m.client.Cluster(ctx)
	if err != nil {
		return nil, explain(err)
	}
	own := map[string]bool{} // brokers and clusters have topics of their names
	for _, b := range brokers {
		own[b.Name], own[b.Cluster] = true, true
	}
	names = slices.DeleteFunc(names, func(name string) bool { return own[name] || checkTopic(name) != nil })
	slices.Sort(names)
	names = slices.Compact(names)
	infos := make([]*topicInfo, len(names))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(routesAtOnce)
	for i, name := range names {
		group.Go(func() error {
			asked := time.Now()
			route, err := m.client.Route(inner, name)
			switch {
			case err == nil:
				infos[i] = m.take(name, route, asked)
			case !remoting.IsCode(err, remoting.CodeTopicNotExist):
				return explain(err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(infos, func(t *topicInfo) bool { return t == nil }), nil
}

// routesAtOnce is how many routes are asked for at the same time.
const routesAtOnce = 16

// place is a queue, and where it is to be found.
type place struct {
	topic   string
	topicID string
	partInfo
	state *partition
}

// String names the place in errors.
func (p *place) String() string { return fmt.Sprintf("topic %q partition %q", p.topic, p.name) }

func (p *place) q() remoting.Queue {
	return remoting.Queue{Topic: p.topic, ID: p.queue, Broker: p.broker}
}

// down says that the broker cannot be asked now.
func (p *place) down() error {
	return fmt.Errorf("rocketmq4: %v: broker %s has no master now: %w", p, p.broker, storage.ErrUnavailable)
}

// routeAge is how old what is known of a topic may be.
const routeAge = 30 * time.Second

// place finds a queue, with what is known already where that is younger than
// since. A queue that is not known is asked for.
func (l *Log) place(ctx context.Context, topic, name string, since time.Time) (*place, error) {
	t, err := l.meta.topic(ctx, topic, later(since, time.Now().Add(-routeAge)))
	if err != nil {
		return nil, l.notFound(topic, err)
	}
	p, ok := t.partition(name)
	if !ok && isPartition(name) {
		if t, err = l.meta.ask(ctx, topic); err != nil {
			return nil, l.notFound(topic, err)
		}
		p, ok = t.partition(name)
	}
	if !ok {
		return nil, fmt.Errorf("rocketmq4: topic %q has no partition %q, it has %q: %w", topic, name, t.describe().Partitions, storage.ErrPartitionNotFound)
	}
	return &place{topic: topic, topicID: t.id, partInfo: *p, state: l.states.of(topic, t.id, name, l.ids)}, nil
}

// notFound drops what is kept of a topic that is missing.
func (l *Log) notFound(topic string, err error) error {
	if errors.Is(err, storage.ErrTopicNotFound) {
		l.states.forget(topic)
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

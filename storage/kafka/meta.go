package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// topicInfo is what the brokers say of a topic. It never changes.
type topicInfo struct {
	name  string
	id    string // empty where the brokers have no identities
	uuid  sarama.Uuid
	parts []partInfo
	at    time.Time // when it was asked for
}

// partInfo is one partition; its number is its place.
type partInfo struct {
	leader string // address; empty: none now
	epoch  int32  // of the leader; -1: unknown
}

// describe makes the description of t.
func (t *topicInfo) describe() storage.Topic {
	d := storage.Topic{Name: t.name, ID: t.id, Partitions: make([]string, len(t.parts))}
	for i := range t.parts {
		d.Partitions[i] = strconv.Itoa(i)
	}
	return d
}

// partition finds a partition by name.
func (t *topicInfo) partition(name string) (int32, bool) {
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 || n >= len(t.parts) || strconv.Itoa(n) != name {
		return 0, false
	}
	return int32(n), true
}

// retiredKept bounds the old identities that are remembered of one topic.
const retiredKept = 16

// metadata is what is known of the cluster, and how to ask for more.
type metadata struct {
	opts  Options
	links *links

	mu         sync.Mutex // guards what follows
	brokers    map[int32]string
	controller string
	topics     map[string]*topicInfo
	// retired are identities that a topic had before. A broker that lags
	// behind may still tell one; it is not believed.
	retired map[string][]string
}

func newMetadata(opts Options, l *links) *metadata {
	return &metadata{opts: opts, links: l, brokers: map[int32]string{}, topics: map[string]*topicInfo{}, retired: map[string][]string{}}
}

// errLags is the answer of a broker that does not know yet what others do.
var errLags = errors.New("broker lags behind the others")

// known returns what is known of a topic without asking; nil: nothing.
func (m *metadata) known(topic string) *topicInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[topic]
}

// topic returns what is known of a topic, and asks where nothing is, or what
// is older than since.
func (m *metadata) topic(ctx context.Context, name string, since time.Time) (*topicInfo, error) {
	if t := m.known(name); t != nil && t.at.After(since) {
		return t, nil
	}
	return m.ask(ctx, name)
}

// ask asks the brokers, one after the other, for a topic.
func (m *metadata) ask(ctx context.Context, name string) (*topicInfo, error) {
	if err := checkTopic(name); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	var t *topicInfo
	err := m.anyBroker(ctx, func(addr string) (err error) {
		t, err = m.askAt(ctx, addr, name)
		return err
	})
	return t, err
}

// anyBroker calls f with the address of one broker after the other until one
// answers. What f says of a topic is an answer.
func (m *metadata) anyBroker(ctx context.Context, f func(addr string) error) error {
	var errs []error
	for _, addr := range m.addresses() {
		err := untilItKnows(ctx, func() error { return f(addr) })
		if err == nil || ctx.Err() != nil || !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// untilItKnows calls f again while the broker lags behind, for a moment. Of
// one that still does then it says that it is unavailable.
func untilItKnows(ctx context.Context, f func() error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := f()
		if !errors.Is(err, errLags) {
			return err
		}
		if pause > 200*time.Millisecond {
			return fmt.Errorf("kafka: %w: %w", storage.ErrUnavailable, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// addresses lists the brokers that are known, in random order, then those of
// the settings.
func (m *metadata) addresses() []string {
	m.mu.Lock()
	list := slices.Sorted(maps.Values(m.brokers))
	m.mu.Unlock()
	list = slices.Compact(list)
	rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	for _, addr := range m.opts.Brokers {
		if !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return list
}

// askAt asks one broker for a topic.
func (m *metadata) askAt(ctx context.Context, addr, name string) (*topicInfo, error) {
	asked := time.Now()
	res, err := m.request(ctx, addr, []string{name})
	if err != nil {
		return nil, err
	}
	for _, t := range res.Topics {
		if t.Name == name {
			return m.take(t, asked)
		}
	}
	return nil, fmt.Errorf("kafka: broker %s was asked for topic %q and told of another: %w", addr, name, storage.ErrUnavailable)
}

// request asks one broker; no topics: for all.
func (m *metadata) request(ctx context.Context, addr string, topics []string) (*sarama.MetadataResponse, error) {
	var res *sarama.MetadataResponse
	err := m.links.callWithin(ctx, addr, m.opts.RequestTimeout/2, func(b *sarama.Broker) (err error) {
		res, err = b.GetMetadata(sarama.NewMetadataRequest(sarama.MaxVersion, topics))
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(res.Brokers) == 0 {
		return nil, fmt.Errorf("kafka: broker %s knows no brokers yet: %w", addr, storage.ErrUnavailable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.brokers)
	for _, b := range res.Brokers {
		m.brokers[b.ID()] = b.Addr()
	}
	m.controller = m.brokers[res.ControllerID]
	return res, nil
}

// take takes in what a broker says of one topic.
func (m *metadata) take(t *sarama.TopicMetadata, asked time.Time) (*topicInfo, error) {
	if err := m.refused(t); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.info(t, asked)
	old := m.topics[t.Name]
	if slices.Contains(m.retired[t.Name], info.id) {
		return nil, errLags
	}
	if old != nil && old.id != info.id {
		m.replaced(old, info)
	}
	if old == nil || old.at.Before(asked) || old.id != info.id {
		m.topics[t.Name] = info
	}
	return info, nil
}

// replaced notes that a topic was made again; the lock is held.
func (m *metadata) replaced(old, now *topicInfo) {
	m.retire(old)
	m.opts.Logger.Warn("kafka: topic was deleted and created again", "topic", old.name, "old_id", old.id, "new_id", now.id)
	m.opts.Observe.TopicChanged(old.name, old.id, now.id)
}

// retire remembers an identity that will not come again; the lock is held.
func (m *metadata) retire(t *topicInfo) {
	if t.id == "" {
		return
	}
	list := m.retired[t.name]
	if len(list) >= retiredKept {
		list = slices.Clone(list[1:])
	}
	m.retired[t.name] = append(list, t.id)
}

// refused says what an error in the place of a topic means.
func (m *metadata) refused(t *sarama.TopicMetadata) error {
	switch {
	case t.Err == sarama.ErrNoError, t.Err == sarama.ErrLeaderNotAvailable && len(t.Partitions) > 0:
		return nil
	case t.Err == sarama.ErrUnknownTopicOrPartition, t.Err == sarama.ErrInvalidTopic:
		m.mu.Lock()
		delete(m.topics, t.Name)
		m.mu.Unlock()
		return fmt.Errorf("kafka: topic %q: %w", t.Name, storage.ErrTopicNotFound)
	}
	return explain(fmt.Sprintf("topic %q", t.Name), t.Err)
}

// info converts; the lock is held.
func (m *metadata) info(t *sarama.TopicMetadata, asked time.Time) *topicInfo {
	info := &topicInfo{name: t.Name, parts: make([]partInfo, len(t.Partitions)), at: asked}
	if t.Uuid != (sarama.Uuid{}) {
		info.id, info.uuid = t.Uuid.String(), t.Uuid
	}
	for _, p := range t.Partitions {
		if int(p.ID) >= len(info.parts) {
			continue // Kafka numbers them from 0 without gaps
		}
		part := partInfo{epoch: -1}
		if p.Err == sarama.ErrNoError || p.Err == sarama.ErrReplicaNotAvailable {
			part.leader = m.brokers[p.Leader]
		}
		if p.Version >= 7 {
			part.epoch = p.LeaderEpoch
		}
		info.parts[p.ID] = part
	}
	return info
}

// forget drops what is known of a topic that was deleted.
func (m *metadata) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.topics[name]; t != nil {
		m.retire(t)
		delete(m.topics, name)
	}
}

// all asks for all topics.
func (m *metadata) all(ctx context.Context) (list []*topicInfo, err error) {
	err = m.anyBroker(ctx, func(addr string) error {
		asked := time.Now()
		res, err := m.request(ctx, addr, nil)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, t := range res.Topics {
			if t.IsInternal {
				continue
			}
			info, err := m.take(t, asked)
			switch {
			case err == nil:
				list = append(list, info)
			case errors.Is(err, storage.ErrTopicNotFound): // deleted just now
			default:
				return err
			}
		}
		return nil
	})
	return list, err
}

package rocketmq5

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// OpenFake opens a log whose proxy is dialed with dial, and whose remoting port
// is a fakepop broker; nil: it has none.
func OpenFake(o Options, dial func(ctx context.Context, addr string) (net.Conn, error), br *fakepop.Broker) (storage.Backend, error) {
	o.Endpoints, o.dial = []string{"proxy:8081"}, dial
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if br == nil {
		return open(o, nil)
	}
	shared, _ := atBroker.LoadOrStore(br, &brokerGroups{made: map[string]groupConfig{}, placed: map[string]bool{}})
	l, err := open(o, &FakePort{br: br, be: br.Open(), brokerGroups: shared.(*brokerGroups)})
	if err != nil {
		return nil, err
	}
	return &Placed{Log: l}, nil
}

// PortOf is the fake port of a log.
func PortOf(b storage.Backend) *FakePort { return b.(*Placed).port.(*FakePort) }

// atBroker has the brokerGroups of each fakepop broker.
var atBroker sync.Map

// brokerGroups is what a broker knows of groups beside fakepop, which has no
// group without a place in every queue.
type brokerGroups struct {
	mu     sync.Mutex
	made   map[string]groupConfig
	placed map[string]bool // by group and partition
	refuse error
	away   string // the partition that no group can be placed in
}

// FakePort is what the remoting port does, of a fakepop broker.
type FakePort struct {
	*brokerGroups
	br *fakepop.Broker
	be *fakepop.Backend
}

// RefuseGroups makes the making of groups fail; nil heals.
func (p *FakePort) RefuseGroups(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = err
}

// FailPlace makes placing a group in a partition fail; "" heals.
func (p *FakePort) FailPlace(partition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = partition
}

func (p *FakePort) close() { _ = p.be.Close() }

func (p *FakePort) queues(ctx context.Context, topic string) (list []queue, err error) {
	t, err := p.be.Topic(ctx, topic)
	for _, name := range t.Partitions {
		broker, id, _ := splitPartition(name)
		list = append(list, queue{topic, broker, id})
	}
	return list, err
}

func (p *FakePort) topics(ctx context.Context) (names []string, err error) {
	list, err := p.be.Topics(ctx)
	for _, t := range list {
		names = append(names, t.Name)
	}
	return append(names, "%RETRY%EM-1_t", "rmq_sys_wheel_timer"), err
}

// findGroup knows the groups of any topic: the broker's groups are of no topic.
func (p *FakePort) findGroup(ctx context.Context, _, group string) (groupConfig, bool, error) {
	p.mu.Lock()
	cfg, ok := p.made[group]
	p.mu.Unlock()
	list, err := p.be.Topics(ctx)
	if err != nil {
		return cfg, false, err
	}
	for _, t := range list {
		if ordered, there := p.br.Kind(t.Name, group); there {
			return groupConfig{group, ordered, maxRetries}, true, nil
		}
	}
	return cfg, ok, nil
}

func (p *FakePort) makeGroup(_ context.Context, _ string, cfg groupConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.made[cfg.name] = cfg
	return nil
}

func (p *FakePort) removeGroup(ctx context.Context, _, topic, group string) error {
	p.mu.Lock()
	delete(p.made, group)
	for key := range p.placed {
		if strings.HasPrefix(key, group+"/") {
			delete(p.placed, key)
		}
	}
	p.mu.Unlock()
	return p.be.DeleteGroup(ctx, topic, group)
}

func (p *FakePort) offset(ctx context.Context, q queue, group string) (int64, bool, error) {
	p.mu.Lock()
	ok := p.placed[group+"/"+q.topic+"/"+q.partition()]
	p.mu.Unlock()
	if !ok {
		return 0, false, nil
	}
	list, err := p.be.GroupOffsets(ctx, q.topic, group)
	for _, o := range list {
		if o.Partition == q.partition() {
			return o.Next, true, err
		}
	}
	return 0, false, err
}

// place makes the group at the broker with its first queue.
func (p *FakePort) place(ctx context.Context, q queue, group string, next int64) error {
	p.mu.Lock()
	cfg := p.made[group]
	if q.partition() == p.away {
		p.mu.Unlock()
		return fmt.Errorf("broker of %s: %w", p.away, storage.ErrUnavailable)
	}
	p.placed[group+"/"+q.topic+"/"+q.partition()] = true
	p.mu.Unlock()
	_, err := p.be.OpenGroup(ctx, storage.GroupSpec{Topic: q.topic, Group: group, Ordered: cfg.ordered})
	if err != nil {
		return err
	}
	return p.br.Place(q.topic, group, q.partition(), next)
}

func (p *FakePort) bounds(ctx context.Context, q queue) (low, high int64, err error) {
	return p.be.Bounds(ctx, q.topic, q.partition())
}

func (p *FakePort) search(ctx context.Context, q queue, t time.Time) (int64, error) {
	return p.be.OffsetByTime(ctx, q.topic, q.partition(), t, storage.AtOrAfter)
}

func (p *FakePort) read(ctx context.Context, q queue, offset int64, most int) (list []stored, err error) {
	var b storage.Batch
	err = p.be.Poll(ctx, storage.PollRequest{Topic: q.topic, Partition: q.partition(), Start: offset, MaxRecords: most}, &b)
	for _, r := range b.Records {
		list = append(list, stored{id: p.br.ID(q.topic, q.partition(), r.Offset), offset: r.Offset, time: time.UnixMilli(r.Time), body: r.Frame})
	}
	return list, err
}

func (p *FakePort) byID(ctx context.Context, topic, id string) (list []stored, err error) {
	queues, err := p.queues(ctx, topic)
	for _, q := range queues {
		all, err := p.read(ctx, q, 0, 1000)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if s.id == id {
				list = append(list, s)
			}
		}
	}
	return list, err
}

// AppendFrame makes a frame of a message.
func AppendFrame(dst []byte, m *v2.Message) ([]byte, error) {
	out, _, err := appendFrame(dst, m)
	return out, err
}

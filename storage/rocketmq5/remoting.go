package rocketmq5

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Request codes that this file makes itself.
const (
	codeQueryMessage = 12
	codeDeleteTopic  = 215
)

const (
	// routeAge is how old a route may be that is used for the addresses of
	// brokers.
	routeAge = 5 * time.Second
	// maxQueues bounds the queues of a topic at one broker that are believed.
	maxQueues = 1 << 16
	// pullMost is how many messages one pull asks for.
	pullMost = 32
	// groupsAge is how old the list of a broker's groups may be in which one is
	// found. One that is not in it is looked for anew.
	groupsAge = 2 * time.Second
)

// remotingPort is the port that the options give; nil: none.
func (o Options) remotingPort() (port, error) {
	if len(o.NameServers) == 0 {
		return nil, nil
	}
	r := remoting.Options{NameServers: o.NameServers, TLS: o.TLS, RequestTimeout: o.RequestTimeout}
	if o.AccessKey != "" {
		r.Credentials = &remoting.Credentials{AccessKey: o.AccessKey, SecretKey: o.SecretKey}
	}
	c, err := remoting.New(r)
	if err != nil {
		return nil, fmt.Errorf("rocketmq5: %w: %w", err, storage.ErrInvalid)
	}
	return &remotingPort{c: c, routes: map[string]knownRoute{}, addrs: map[string]string{}, groups: map[string]knownGroups{}}, nil
}

// remotingPort is a port by the remoting protocol.
type remotingPort struct {
	c *remoting.Client

	mu     sync.Mutex
	routes map[string]knownRoute
	addrs  map[string]string // of masters, by broker
	groups map[string]knownGroups
}

// knownGroups are the groups at a broker as it told them.
type knownGroups struct {
	groups map[string]remoting.GroupConfig
	at     time.Time
}

type knownRoute struct {
	route *remoting.Route
	at    time.Time
}

func (p *remotingPort) close() { p.c.Close() }

func (p *remotingPort) route(ctx context.Context, topic string) (*remoting.Route, error) {
	p.mu.Lock()
	k := p.routes[topic]
	p.mu.Unlock()
	if k.route != nil && time.Since(k.at) < routeAge {
		return k.route, nil
	}
	route, err := p.c.Route(ctx, topic)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[topic] = knownRoute{route, time.Now()}
	for _, b := range route.Brokers {
		if addr := b.Master(); addr != "" {
			p.addrs[b.Name] = addr
		}
	}
	return route, nil
}

func (p *remotingPort) queues(ctx context.Context, topic string) (list []queue, err error) {
	route, err := p.route(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, q := range route.Queues {
		if q.Perm&remoting.PermRead == 0 {
			continue
		}
		for id := range min(q.Read, maxQueues) {
			list = append(list, queue{topic, q.Broker, id})
		}
	}
	return list, nil
}

func (p *remotingPort) topics(ctx context.Context) ([]string, error) { return p.c.Topics(ctx) }

// addr is the address of a broker's master as last told.
func (p *remotingPort) addr(broker string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr := p.addrs[broker]; addr != "" {
		return addr, nil
	}
	return "", fmt.Errorf("broker %s has no master that the name servers know: %w", broker, storage.ErrUnavailable)
}

// at is the address of a queue's broker.
func (p *remotingPort) at(ctx context.Context, q queue) (string, remoting.Queue, error) {
	if _, err := p.route(ctx, q.topic); err != nil {
		return "", remoting.Queue{}, err
	}
	addr, err := p.addr(q.broker)
	return addr, remoting.Queue{Topic: q.topic, ID: q.id, Broker: q.broker}, err
}

// findGroup asks for all groups: to ask for one makes it, where the broker makes
// groups by itself.
func (p *remotingPort) findGroup(ctx context.Context, broker, group string) (cfg groupConfig, ok bool, err error) {
	addr, err := p.addr(broker)
	if err != nil {
		return cfg, false, err
	}
	p.mu.Lock()
	known := p.groups[broker]
	p.mu.Unlock()
	have, ok := known.groups[group]
	if !ok || time.Since(known.at) > groupsAge {
		all, err := p.c.Groups(ctx, addr)
		if err != nil {
			return cfg, false, err
		}
		p.mu.Lock()
		p.groups[broker] = knownGroups{all, time.Now()}
		p.mu.Unlock()
		have, ok = all[group]
	}
	return groupConfig{have.Name, have.Orderly, have.MaxRetries}, ok, nil
}

// forgetGroups drops the list of a broker's groups, because it changes.
func (p *remotingPort) forgetGroups(broker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, broker)
}

func (p *remotingPort) makeGroup(ctx context.Context, broker string, cfg groupConfig) error {
	addr, err := p.addr(broker)
	if err != nil {
		return err
	}
	defer p.forgetGroups(broker)
	g := remoting.NewGroup(cfg.name)
	g.Orderly, g.MaxRetries = cfg.ordered, cfg.retries
	return p.c.CreateGroup(ctx, addr, g)
}

func (p *remotingPort) removeGroup(ctx context.Context, broker, topic, group string) error {
	addr, err := p.addr(broker)
	if err != nil {
		return err
	}
	defer p.forgetGroups(broker)
	if err := p.c.DeleteGroup(ctx, addr, group, true); err != nil && !remoting.IsCode(err, remoting.CodeGroupNotExist) {
		return err
	}
	for _, between := range []string{"_", "+"} { // both forms of the name of a group's retry topic
		retry := "%RETRY%" + group + between + topic
		res, err := p.c.Call(ctx, addr, &remoting.Command{Code: codeDeleteTopic, Fields: map[string]string{"topic": retry}}, 0)
		if err != nil {
			return err
		}
		if res.Code != remoting.CodeSuccess && res.Code != remoting.CodeTopicNotExist {
			return &remoting.Error{Op: fmt.Sprintf("delete topic %q", retry), Addr: addr, Code: res.Code, Remark: res.Remark}
		}
	}
	return nil
}

func (p *remotingPort) offset(ctx context.Context, q queue, group string) (next int64, ok bool, err error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return 0, false, err
	}
	return p.c.GroupOffset(ctx, addr, group, rq)
}

func (p *remotingPort) place(ctx context.Context, q queue, group string, next int64) error {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return err
	}
	_, err = p.c.ResetGroup(ctx, addr, remoting.Reset{Group: group, Queue: rq, Offset: next, HasOffset: true})
	return err
}

func (p *remotingPort) bounds(ctx context.Context, q queue) (low, high int64, err error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	if low, err = p.c.MinOffset(ctx, addr, rq); err != nil {
		return 0, 0, err
	}
	high, err = p.c.MaxOffset(ctx, addr, rq)
	return low, high, err
}

func (p *remotingPort) search(ctx context.Context, q queue, t time.Time) (int64, error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return 0, err
	}
	return p.c.SearchOffset(ctx, addr, rq, t)
}

func (p *remotingPort) read(ctx context.Context, q queue, offset int64, most int) ([]stored, error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return nil, err
	}
	res, err := p.c.Pull(ctx, addr, remoting.PullRequest{Queue: rq, Offset: offset, Max: min(most, pullMost)})
	if err != nil || res.Status != remoting.PullFound {
		return nil, err
	}
	return storedIn(res.Body)
}

// byID asks each broker of the topic for the id: it is in an index there a moment
// after the message was stored.
func (p *remotingPort) byID(ctx context.Context, topic, id string) (list []stored, err error) {
	route, err := p.route(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, b := range route.Brokers {
		if b.Master() == "" {
			continue
		}
		res, err := p.c.Call(ctx, b.Master(), &remoting.Command{Code: codeQueryMessage, Fields: map[string]string{
			"topic": topic, "key": id, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": strconv.FormatInt(1<<62, 10),
			"_UNIQUE_KEY_QUERY": "true", "bname": b.Name,
		}}, 0)
		if err != nil {
			return nil, err
		}
		if res.Code == remoting.CodeQueryNotFound {
			continue
		}
		if res.Code != remoting.CodeSuccess {
			return nil, &remoting.Error{Op: "message " + id, Addr: b.Master(), Code: res.Code, Remark: res.Remark}
		}
		found, err := storedIn(res.Body)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if m.id == id {
				list = append(list, m)
			}
		}
	}
	return list, nil
}

func storedIn(body []byte) (list []stored, err error) {
	msgs, err := remoting.DecodeMessages(body)
	if err != nil {
		return nil, err
	}
	return storedOf(msgs), nil
}

func storedOf(msgs []remoting.Message) (list []stored) {
	for i := range msgs {
		m := &msgs[i]
		s := stored{offset: m.QueueOffset, time: m.Stored(), born: time.UnixMilli(m.BornTime), body: m.Body}
		for name, val := range m.AllProperties() {
			switch {
			case name == remoting.PropUniqueKey:
				s.id = val
			case name == remoting.PropShardingKey:
				s.key = val
			case strings.ToUpper(name) != name: // RocketMQ's own have no small letters
				s.headers = append(s.headers, frame.Header{Name: name, Value: []byte(val)})
			}
		}
		list = append(list, s)
	}
	return list
}

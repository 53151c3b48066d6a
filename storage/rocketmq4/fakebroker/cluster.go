// Package fakebroker is a RocketMQ of name servers and brokers in this
// process, for tests: real frames over TCP, messages in memory, faults and a
// clock as the test wants them. Where RocketMQ 4.9.7 is odd it is as odd:
// bounds of what is missing are 0, the search by time gives the nearest
// message, a pull outside the bounds leaves a message in OFFSET_MOVED_EVENT,
// requests of one connection are served in no order, and a broker that is down
// has no route.
package fakebroker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Options of a Cluster. The zero value is ready for use: one name server, one
// broker called broker-a.
type Options struct {
	// Brokers are the names of the brokers.
	Brokers []string
	// NameServers is how many there are; 0: one.
	NameServers int
	// Clock tells the time that messages are stored at; nil: time.Now.
	Clock func() time.Time
	// Credentials are those of the one user; nil: everybody may do everything.
	Credentials *remoting.Credentials
	// TLS secures all listeners; nil: plain TCP.
	TLS *tls.Config
	// MaxMessage is the largest message and batch; 0: 4 MiB.
	MaxMessage int
	// PullMax is how many messages a pull gives at most; 0: 32.
	PullMax int
	// NoCreate makes brokers refuse to make topics.
	NoCreate bool
	// Pipes is the network; nil: TCP.
	Pipes *Pipes
	// Slaves gives each broker a slave, which has what its master has.
	Slaves bool
}

// Cluster is a running fake. All methods may be called concurrently.
type Cluster struct {
	opts  Options
	names []*listener

	mu      sync.Mutex // guards what follows, and all of topic and queue
	brokers map[string]*broker
	topics  map[string]*topic
	gone    map[string]map[string]bool // topics that name servers have forgotten, by broker: not told until registered anew
	faults  []*Fault
	counts  map[int]int
	moved   int
	lag     int64         // how many messages of each queue slaves do not have yet
	slow    int           // pulls that slaves have served
	changed chan struct{} // closed and replaced when there is something new
}

// broker is one of the cluster.
type broker struct {
	c     *Cluster
	name  string
	of    *broker // the master, of a slave
	slave *broker
	l     *listener
	up    bool
	// physical is where the next message lies in its log.
	physical int64
}

// topic is a topic with its queues at each broker.
type topic struct {
	queues map[string][]*queue // by broker
	perm   int
}

// queue holds messages; their offsets are base, base + 1, …
type queue struct {
	base     int64
	messages []remoting.Message
}

func (q *queue) max() int64 { return q.base + int64(len(q.messages)) }

// Start starts a cluster. Whoever calls it closes it.
func Start(opts Options) (*Cluster, error) {
	if len(opts.Brokers) == 0 {
		opts.Brokers = []string{"broker-a"}
	}
	opts.NameServers = max(opts.NameServers, 1)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.MaxMessage == 0 {
		opts.MaxMessage = 4 << 20
	}
	if opts.PullMax == 0 {
		opts.PullMax = 32
	}
	c := &Cluster{
		opts: opts, brokers: map[string]*broker{}, topics: map[string]*topic{}, counts: map[int]int{},
		gone: map[string]map[string]bool{}, changed: make(chan struct{}),
	}
	for range opts.NameServers {
		l, err := c.listen("127.0.0.1:0", c.serveNames)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.names = append(c.names, l)
	}
	for _, name := range opts.Brokers {
		b := &broker{c: c, name: name, up: true}
		if opts.Slaves {
			b.slave = &broker{c: c, name: name, up: true, of: b}
		}
		if err := b.listen("127.0.0.1:0"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.brokers[name] = b
	}
	return c, nil
}

// listen starts a broker, and its slave where it has one.
func (b *broker) listen(addr string) (err error) {
	if b.l, err = b.c.listen(addr, b.serve); err != nil || b.slave == nil {
		return err
	}
	return b.slave.listen("127.0.0.1:0")
}

// Close ends everything and waits for it.
func (c *Cluster) Close() error {
	c.mu.Lock()
	brokers := slices.Collect(maps.Values(c.brokers))
	c.faults = nil
	c.tell()
	c.mu.Unlock()
	var errs []error
	for _, b := range brokers {
		errs = append(errs, b.l.stop())
		if b.slave != nil {
			errs = append(errs, b.slave.l.stop())
		}
	}
	for _, l := range c.names {
		errs = append(errs, l.stop())
	}
	return errors.Join(errs...)
}

// tell wakes pulls that are held; the lock is held.
func (c *Cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// NameServers are the addresses for clients.
func (c *Cluster) NameServers() (list []string) {
	for _, l := range c.names {
		list = append(list, l.addr)
	}
	return list
}

// Addr is the address of a broker.
func (c *Cluster) Addr(broker string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brokers[broker].l.addr
}

// CreateTopic makes a topic, or changes its number of queues, at all brokers.
func (c *Cluster) CreateTopic(name string, queues int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.brokers {
		c.createAt(b, name, queues)
	}
	c.tell()
}

// createAt makes a topic at one broker; the lock is held.
func (c *Cluster) createAt(broker, name string, queues int) {
	t := c.topics[name]
	if t == nil {
		t = &topic{queues: map[string][]*queue{}, perm: remoting.PermRead | remoting.PermWrite}
		c.topics[name] = t
	}
	list := t.queues[broker]
	list = list[:min(len(list), queues)]
	for len(list) < queues {
		list = append(list, &queue{})
	}
	t.queues[broker] = list
	delete(c.gone[name], broker)
}

// DeleteTopic removes a topic from all brokers and name servers, as mqadmin
// does.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
	c.tell()
}

// queue finds a queue; the lock is held. nil: there is none.
func (c *Cluster) queue(broker, topic string, id int) *queue {
	t := c.topics[topic]
	if t == nil || id < 0 || id >= len(t.queues[broker]) {
		return nil
	}
	return t.queues[broker][id]
}

// Append stores messages in a queue, as they are but for their places and,
// where it is 0, their StoreTime. It returns the offset of the first.
func (c *Cluster) Append(broker, topic string, id int, messages ...remoting.Message) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue(broker, topic, id)
	if q == nil {
		return 0, fmt.Errorf("topic %q has no queue %d at %s", topic, id, broker)
	}
	return c.store(c.brokers[broker], topic, id, q, messages), nil
}

// store appends messages; the lock is held.
func (c *Cluster) store(b *broker, topic string, id int, q *queue, messages []remoting.Message) (first int64) {
	first = q.max()
	now := c.opts.Clock().UnixMilli()
	for _, m := range messages {
		m.Topic, m.QueueID, m.QueueOffset, m.PhysicalOffset = topic, id, q.max(), b.physical
		if m.StoreTime == 0 {
			m.StoreTime = now
		}
		m.StoreHost = []byte{127, 0, 0, 1, 0, 0, 0x2a, 0x9f}
		b.physical += int64(len(remoting.AppendMessage(nil, &m)))
		q.messages = append(q.messages, m)
		if m.SysFlag&remoting.SysInnerBatch != 0 { // takes as many offsets as it holds
			for range innerCount(&m) - 1 {
				q.messages = append(q.messages, remoting.Message{QueueOffset: -1})
			}
		}
	}
	c.tell()
	return first
}

// innerCount is how many messages a batch holds that is kept as one.
func innerCount(m *remoting.Message) int {
	list, err := remoting.DecodeBatch(m.Body)
	if err != nil {
		return 1
	}
	return len(list)
}

// Trim removes what is below an offset, as retention does.
func (c *Cluster) Trim(broker, topic string, id int, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue(broker, topic, id)
	if n := before - q.base; n > 0 && n <= int64(len(q.messages)) {
		q.messages = slices.Clone(q.messages[n:])
		q.base = before
	}
}

// Remove removes what is below an offset and leaves the minimum where it is, as
// 4.9.7 does where retention has removed all that a queue had.
func (c *Cluster) Remove(broker, topic string, id int, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue(broker, topic, id)
	for i := range q.messages {
		if q.base+int64(i) < before {
			q.messages[i] = remoting.Message{QueueOffset: -1}
		}
	}
}

// Lag makes slaves lack so many messages at the end of each queue.
func (c *Cluster) Lag(messages int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = messages
	c.tell()
}

// FromSlaves counts the pulls that slaves have served.
func (c *Cluster) FromSlaves() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}

// Truncate removes what is at an offset and above, as a broker does that has
// lost the end of its log.
func (c *Cluster) Truncate(broker, topic string, id int, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue(broker, topic, id)
	if n := at - q.base; n >= 0 && n < int64(len(q.messages)) {
		q.messages = slices.Clone(q.messages[:n])
	}
}

// Stop cuts a broker's connections and takes no more; its messages stay.
func (c *Cluster) Stop(broker string) error {
	c.mu.Lock()
	b := c.brokers[broker]
	b.up = false
	c.tell()
	c.mu.Unlock()
	return b.l.stop()
}

// Restart starts a broker that was stopped, at the same address.
func (c *Cluster) Restart(broker string) error {
	c.mu.Lock()
	b := c.brokers[broker]
	c.mu.Unlock()
	l, err := c.listen(b.l.addr, b.serve)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.l, b.up = l, true
	return nil
}

// Requests counts the requests of a code that were served.
func (c *Cluster) Requests(code int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[code]
}

// OffsetMoved counts the messages in OFFSET_MOVED_EVENT.
func (c *Cluster) OffsetMoved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

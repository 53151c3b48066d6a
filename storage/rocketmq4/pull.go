package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

const (
	// pullMax is how many messages a pull asks for; brokers give 32 unless they
	// are set otherwise.
	pullMax = 256
	// boundsAge is how old bounds may be before a pull. Pulls bring newer ones.
	boundsAge = time.Second
	// verifyTries bounds the anchors that are looked at to know a queue again.
	verifyTries = 3
)

// chunk is what a pull brought, or the rest of it.
type chunk struct {
	start int64 // where it begins
	msgs  []remoting.Message
	next  int64 // where reading goes on behind it: there is nothing in between
}

// errMoved is the answer of a broker that an offset is outside its bounds.
var errMoved = errors.New("the broker says that the offset is outside of what it holds")

// source is the address to read from: the broker that was suggested, the
// master, or any.
func (p *place) source() (addr string, isMaster bool) {
	master := p.master()
	if n := p.state.suggested(); n != 0 {
		if addr := p.addrs[strconv.FormatInt(n, 10)]; addr != "" {
			return addr, addr == master
		}
	}
	if master != "" {
		return master, true
	}
	for _, addr := range p.addrs {
		return addr, false
	}
	return "", false
}

// pull makes one pull; what a slave says is asked of the master where it may
// be wrong. It returns errMoved where the offset is outside the bounds.
func (l *Log) pull(ctx context.Context, at *place, offset int64, most int, wait time.Duration) (*chunk, error) {
	addr, isMaster := at.source()
	if addr == "" {
		return nil, at.down()
	}
	c, err := l.pullAt(ctx, at, addr, isMaster, offset, most, wait)
	if isMaster || err == nil && c.next > offset || ctx.Err() != nil {
		return c, err
	}
	at.state.suggest(0)
	if master := at.master(); master != "" {
		return l.pullAt(ctx, at, master, true, offset, most, wait)
	}
	if errors.Is(err, errMoved) {
		return nil, at.down() // a slave may lag behind
	}
	return c, err
}

func (l *Log) pullAt(ctx context.Context, at *place, addr string, isMaster bool, offset int64, most int, wait time.Duration) (*chunk, error) {
	r, err := l.client.Pull(ctx, addr, remoting.PullRequest{Queue: at.q(), Offset: offset, Max: most, Wait: wait})
	if err != nil {
		return nil, l.failed(ctx, addr, err)
	}
	at.state.suggest(r.Suggested)
	if r.Status == remoting.PullMoved {
		return nil, errMoved
	}
	if isMaster && r.Max >= offset {
		at.state.told(r.Min, r.Max)
	} else if !isMaster {
		at.state.reached(r.Max)
	}
	c := &chunk{start: offset, next: offset}
	if r.NextOffset > offset && (r.NextOffset <= r.Max || !isMaster) {
		c.next = r.NextOffset
	}
	if r.Status != remoting.PullFound {
		return c, nil
	}
	msgs, err := remoting.DecodeMessages(r.Body)
	if err != nil && len(msgs) == 0 {
		return nil, fmt.Errorf("rocketmq4: %v at %d, broker %s: %w: %w", at, offset, addr, storage.ErrCorrupt, err)
	}
	c.take(msgs)
	return c, nil
}

// take takes messages in up to the first gap among them. A broker that does not
// find a message it has goes on with the next file of its log, and does not say
// so: what it says of where to go on is not looked at.
func (c *chunk) take(msgs []remoting.Message) {
	for len(msgs) > 0 && msgs[0].QueueOffset < c.start {
		msgs = msgs[1:] // of a batch that began before
	}
	n := 0
	for n < len(msgs) && msgs[n].QueueOffset == msgs[0].QueueOffset+int64(n) {
		n++
	}
	if c.msgs = msgs[:n]; n > 0 {
		c.next = msgs[n-1].QueueOffset + 1
	}
}

// failed explains an error of a broker and counts it.
func (l *Log) failed(ctx context.Context, addr string, err error) error {
	err = explain(err)
	if ctx.Err() == nil {
		l.opts.Observe.BrokerFailed(addr, err)
	}
	return err
}

// checked reads from an offset on, and makes sure that what it brings is of
// the topic that was meant: the message before must be the one that was there,
// or else another one that is known. Without messages nothing is made sure of.
func (l *Log) checked(ctx context.Context, at *place, start int64) (*chunk, error) {
	before, known := at.state.before(start)
	c := &chunk{start: start, next: start}
	if known {
		var err error
		if c, known, err = l.behind(ctx, at, before); err != nil {
			return nil, err
		}
	}
	if len(c.msgs) == 0 && c.next == start && at.state.highest() > start {
		// The broker gave no more than the message before, or there is none.
		var err error
		if c, err = l.pull(ctx, at, start, pullMax, 0); err != nil || len(c.msgs) == 0 {
			return c, err
		}
		known = false
	}
	if len(c.msgs) == 0 {
		return c, nil
	}
	if !known {
		if err := l.verify(ctx, at); err != nil {
			return nil, err
		}
	}
	first, last := &c.msgs[0], &c.msgs[len(c.msgs)-1]
	if low, _, _ := at.state.bounds(); first.QueueOffset == low {
		at.state.note(anchor{Offset: low, Hash: hashOf(first), Low: true})
	}
	at.state.note(anchor{Offset: last.QueueOffset, Hash: hashOf(last)})
	l.ids.touch()
	return c, nil
}

// behind reads a message that is known and what follows it; known is false
// where it is not there any more.
func (l *Log) behind(ctx context.Context, at *place, before anchor) (c *chunk, known bool, err error) {
	start := before.Offset + 1
	c, err = l.pull(ctx, at, before.Offset, pullMax, 0)
	if err != nil {
		return nil, false, err
	}
	if len(c.msgs) > 0 && c.msgs[0].QueueOffset == before.Offset {
		if err := l.compare(at, &c.msgs[0], before); err != nil {
			return nil, false, err
		}
		c.msgs, known = c.msgs[1:], true
	}
	c.start, c.next = start, max(c.next, start)
	return c, known, nil
}

// before finds what is known of the message before an offset, where the queue
// still holds it.
func (p *partition) before(offset int64) (anchor, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset-1 < p.low {
		return anchor{}, false
	}
	return p.anchors.at(offset - 1)
}

func (p *partition) note(a anchor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.anchors.note(a)
}

// verify makes sure that a queue is the one that is known, by the highest
// message that is known of it and that it holds. Errors: ErrTopicChanged.
func (l *Log) verify(ctx context.Context, at *place) error {
	low, high, _ := at.state.bounds()
	at.state.mu.Lock()
	list := at.state.anchors.within(low, high)
	lowest, any := at.state.anchors.lowest()
	at.state.mu.Unlock()
	for _, a := range list[:min(len(list), verifyTries)] {
		m, err := l.message(ctx, at, a.Offset)
		if err != nil {
			return err
		}
		if m != nil {
			return l.compare(at, m, a)
		}
	}
	// It begins below where it began, and holds nothing that was ever seen.
	if any && lowest.Low && len(list) == 0 && high > 0 && low < lowest.Offset && high <= lowest.Offset {
		return l.changed(at)
	}
	return nil
}

func (l *Log) compare(at *place, m *remoting.Message, a anchor) error {
	if hashOf(m) != a.Hash {
		return l.changed(at)
	}
	at.state.recognize()
	return nil
}

// message reads the message at an offset; nil: there is none.
func (l *Log) message(ctx context.Context, at *place, offset int64) (*remoting.Message, error) {
	c, err := l.pull(ctx, at, offset, 1, 0)
	if errors.Is(err, errMoved) {
		return nil, nil
	}
	if err != nil || len(c.msgs) == 0 || c.msgs[0].QueueOffset != offset {
		return nil, err
	}
	return &c.msgs[0], nil
}

// changed gives a topic that was made again another identity, and says so.
func (l *Log) changed(at *place) error {
	id, renewed, err := l.ids.renew(at.topic, at.topicID, false)
	if renewed {
		l.states.forget(at.topic)
		l.meta.forget(at.topic)
		l.opts.Logger.Warn("rocketmq4: topic was deleted and created again", "topic", at.topic, "partition", at.name, "old_id", at.topicID, "new_id", id)
		l.opts.Observe.TopicChanged(at.topic, at.topicID, id)
	}
	if err != nil {
		l.opts.Logger.Warn("rocketmq4: that a topic was created again could not be saved", "topic", at.topic, "error", err)
	}
	return fmt.Errorf("rocketmq4: %w: topic %q has the identity %q, not %q", storage.ErrTopicChanged, at.topic, id, at.topicID)
}

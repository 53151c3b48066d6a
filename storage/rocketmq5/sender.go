package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"golang.org/x/sync/semaphore"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

const (
	// batchMost and batchBytes bound the messages of one call.
	batchMost  = 128
	batchBytes = 1 << 20
	// keyLanes is how many messages of FIFO, LITE and DELAY topics are under way
	// at once: a call is for one of them, because a batch goes to one queue
	// whatever its groups are, and to no lite topic.
	keyLanes = 32
	// typePatience is for how long a topic's type is asked for again when a
	// proxy says that a message does not fit it: its cache may be behind.
	typePatience = 5 * time.Second
)

// sender sends what was appended. Each topic has lanes: one for messages of type
// NORMAL, which go in batches, and some for the others, which go alone, by key.
// A lane sends one call at a time, so that its order stays.
type sender struct {
	l    *Log
	room *semaphore.Weighted // bytes
	seed maphash.Seed

	ctx    context.Context // of what is being sent
	cancel context.CancelFunc
	wg     sync.WaitGroup // lanes

	mu     sync.Mutex
	closed bool
	topics map[string]*topicLanes
}

// topicLanes is what waits for one topic. sender.mu guards it.
type topicLanes struct {
	name    string
	lanes   [1 + keyLanes]lane
	asking  bool    // for the topic's type
	waiting []*item // for that
	busy    int     // lanes at work
}

type lane struct {
	queue []*item
	busy  bool
}

func newSender(l *Log) *sender {
	s := &sender{l: l, room: semaphore.NewWeighted(l.opts.QueueBytes), seed: maphash.MakeSeed(), topics: map[string]*topicLanes{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// put takes a call; false: the sender is closed.
func (s *sender) put(c *call) bool {
	items := make([]*item, len(c.items))
	for i := range items {
		items[i] = &c.items[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	t := s.topics[c.topic]
	if t == nil {
		t = &topicLanes{name: c.topic}
		s.topics[c.topic] = t
	}
	t.waiting = append(t.waiting, items...)
	s.route(t)
	return true
}

// route has the items that wait put into lanes. mu is held.
func (s *sender) route(t *topicLanes) {
	if t.asking || len(t.waiting) == 0 {
		return
	}
	t.asking = true
	s.wg.Go(func() { s.distribute(t) })
}

// distribute finds out what a topic takes and puts what waits into lanes.
func (s *sender) distribute(t *topicLanes) {
	for {
		s.mu.Lock()
		items := t.waiting
		t.waiting = nil
		if len(items) == 0 {
			t.asking = false
			s.forget(t)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		route, err := s.routeFor(t.name, items[0])
		if err != nil {
			for _, it := range items {
				s.finish(it, "", 0, err)
			}
			continue
		}
		s.plan(t, items, route)
	}
}

// routeFor asks for a topic until it is known or the first item's time is over.
func (s *sender) routeFor(topic string, first *item) (*session.Route, error) {
	ctx, cancel := context.WithDeadline(s.ctx, first.until)
	defer cancel()
	var route *session.Route
	err := session.Retry(ctx, func(err error, _ time.Duration) bool { return session.IsTransient(err) }, func(ctx context.Context) (err error) {
		route, err = s.l.sess.Route(ctx, topic)
		return err
	})
	if err == nil {
		return route, nil
	}
	if errors.Is(err, storage.ErrTopicNotFound) || isNoTopic(err) {
		return nil, s.l.toCreate(topic, err)
	}
	return nil, s.late(fmt.Sprintf("append to topic %q", topic), err)
}

func isNoTopic(err error) bool {
	c := session.CodeOf(err)
	return c == v2.Code_TOPIC_NOT_FOUND || c == v2.Code_NOT_FOUND
}

// late explains an error that ended the tries: the time was over, or the log is
// being closed.
func (s *sender) late(what string, err error) error {
	if s.ctx.Err() != nil {
		return errClosed()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("rocketmq5: %s: no answer for %v: %w", what, s.l.opts.WriteTimeout, storage.ErrUnavailable)
	}
	return explain(what, err)
}

// plan puts items into the lanes of their messages.
func (s *sender) plan(t *topicLanes, items []*item, route *session.Route) {
	ready := items[:0]
	for _, it := range items {
		id := it.msg.ID
		if id == "" {
			id = s.l.ids.next(it.born)
		}
		var err error
		if it.call.lite != "" {
			it.typ, it.msg, err = s.l.planLite(t.name, it.call.lite, it.event, route, id, it.born)
		} else {
			it.typ, it.msg, err = s.l.plan(t.name, it.event, route, id, it.born)
		}
		if err != nil {
			s.finish(it, "", 0, err)
			continue
		}
		ready = append(ready, it)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range ready {
		n := 0
		switch it.typ {
		case v2.MessageType_NORMAL:
		case v2.MessageType_FIFO:
			n = 1 + int(maphash.String(s.seed, it.msg.Group)%keyLanes)
		case v2.MessageType_LITE:
			n = 1 + int(maphash.String(s.seed, it.msg.Lite)%keyLanes)
		default:
			n = 1 + int(maphash.String(s.seed, it.msg.ID)%keyLanes)
		}
		ln := &t.lanes[n]
		ln.queue = append(ln.queue, it)
		if !ln.busy {
			ln.busy = true
			t.busy++
			s.wg.Go(func() { s.work(t, ln) })
		}
	}
}

// work sends what is in a lane until it is empty.
func (s *sender) work(t *topicLanes, ln *lane) {
	for {
		s.mu.Lock()
		items := ln.take()
		if len(items) == 0 {
			ln.busy = false
			t.busy--
			s.forget(t)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.deliver(t, items)
	}
}

// take takes what goes in one call. sender.mu is held.
func (ln *lane) take() []*item {
	n, size := 0, 0
	for n < len(ln.queue) && n < batchMost {
		it := ln.queue[n]
		if size += len(it.event.Frame) + recordOverhead; n > 0 && size > batchBytes {
			break
		}
		n++
		if it.typ != v2.MessageType_NORMAL {
			break
		}
	}
	items := ln.queue[:n:n]
	if ln.queue = ln.queue[n:]; len(ln.queue) == 0 {
		ln.queue = nil
	}
	return items
}

// forget drops a topic for which nothing waits. mu is held.
func (s *sender) forget(t *topicLanes) {
	if t.busy == 0 && !t.asking && len(t.waiting) == 0 {
		delete(s.topics, t.name)
	}
}

// stop refuses what comes, and waits for what was taken: it is sent, or fails
// after grace.
func (s *sender) stop(grace time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	late := time.AfterFunc(grace, s.cancel)
	s.wg.Wait()
	late.Stop()
	s.cancel()
}

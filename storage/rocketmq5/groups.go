package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// maxRetries is how often a group may hand out a message before the broker puts
// it into a dead letter topic of its own: so often that it never does.
const maxRetries = 100_000

type groupKey struct{ topic, group string }

// group is what this process has of a group: its client, what it receives and
// what it holds.
type group struct {
	l   *Log
	key groupKey

	mu        sync.Mutex
	removed   bool              // not one of Log.groups any more: it gets no client
	consumer  *session.Consumer // nil: nobody pops
	receivers map[time.Duration]*session.Receiver
	held      map[string]place // where messages that are not acked were appended, by id
	high      map[string]int64 // the highest offset handed out + 1, by partition
}

// place is where a message was appended.
type place struct {
	partition string
	offset    int64
	until     time.Time // when its receipt runs out
}

func (l *Log) newGroup(key groupKey) *group {
	return &group{l: l, key: key, receivers: map[time.Duration]*session.Receiver{}, held: map[string]place{}, high: map[string]int64{}}
}

// allReceivers lists the receivers. mu is held.
func (g *group) allReceivers() []*session.Receiver {
	return slices.Collect(maps.Values(g.receivers))
}

// opened is what is known of a group that was opened here; nil: none.
func (l *Log) opened(key groupKey) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[key]
}

// open makes a group known here.
func (l *Log) open(key groupKey) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		g = l.newGroup(key)
		l.groups[key] = g
	}
	return g
}

func (l *Log) allGroups() (list []*group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		list = append(list, g)
	}
	return list
}

// forgetGroup drops what is known here of a group.
func (l *Log) forgetGroup(key groupKey) {
	l.mu.Lock()
	g := l.groups[key]
	delete(l.groups, key)
	l.mu.Unlock()
	if g == nil {
		return
	}
	g.mu.Lock()
	g.removed = true
	g.mu.Unlock()
	g.shut()
}

// client is the group's client, which is made where there is none. Of a group
// that was removed and is there again it is that of the new one: receipts may
// still be good.
func (g *group) client() (*session.Consumer, error) {
	if now := g.l.opened(g.key); now != nil {
		g = now
	}
	return g.ownClient()
}

func (g *group) ownClient() (*session.Consumer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clientLocked()
}

func (g *group) clientLocked() (c *session.Consumer, err error) {
	if g.removed {
		return nil, fmt.Errorf("group %s of topic %q was removed: %w", g.key.group, g.key.topic, storage.ErrUnavailable)
	}
	if g.consumer == nil {
		g.consumer, err = g.l.sess.NewConsumer(g.key.topic, g.key.group)
	}
	return g.consumer, err
}

// receiver is what pops for an invisible time.
func (g *group) receiver(invisible time.Duration) (*session.Receiver, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.receivers[invisible]; r != nil {
		return r, nil
	}
	c, err := g.clientLocked()
	if err != nil {
		return nil, err
	}
	r := c.NewReceiver(invisible)
	g.receivers[invisible] = r
	return r, nil
}

// rest closes the client if nobody has popped since and nothing is held that is
// to be renewed.
func (g *group) rest(since time.Time) {
	g.mu.Lock()
	for _, r := range g.receivers {
		if r.Used().After(since) {
			g.mu.Unlock()
			return
		}
	}
	for _, p := range g.held {
		if p.until.After(since) {
			g.mu.Unlock()
			return
		}
	}
	g.mu.Unlock()
	g.shut()
}

// shut closes the client. It is made again when it is needed.
func (g *group) shut() {
	g.mu.Lock()
	c := g.consumer
	g.consumer = nil
	clear(g.receivers)
	g.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// OpenGroup implements storage.Popper. With name servers a group is new when it
// has no offset in any queue of the topic, even if somebody has made it before;
// it is made with a retry limit that is never reached, and placed in every queue
// before anybody pops. Without them it is made by the broker, if that does so,
// where the broker likes: each first call of a process says so, because nobody
// can tell whether it was there.
func (l *Log) OpenGroup(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return storage.Group{}, err
	}
	defer leave()
	var out storage.Group
	if _, err = l.sess.Route(inner, spec.Topic); err == nil {
		if l.port != nil {
			out, err = l.placeGroup(inner, spec)
		} else {
			out, err = l.findGroup(inner, spec)
		}
	}
	if err != nil {
		if isNoTopic(err) {
			err = l.toCreate(spec.Topic, err)
		}
		return storage.Group{}, l.outcome(ctx, explain(fmt.Sprintf("group %s of topic %q", spec.Group, spec.Topic), err))
	}
	return out, nil
}

// findGroup connects for a group and looks at its kind, which is all that can be
// done through a proxy.
func (l *Log) findGroup(ctx context.Context, spec storage.GroupSpec) (out storage.Group, err error) {
	key := groupKey{spec.Topic, spec.Group}
	if spec.Start.At != storage.GroupDefault {
		return out, errNoPort("to say where a group starts")
	}
	known := l.opened(key)
	g := known
	if g == nil {
		g = l.newGroup(key)
	}
	c, err := g.ownClient()
	if err != nil {
		return out, err
	}
	settings, err := c.Ready(ctx)
	if err == nil && settings.Ordered != spec.Ordered {
		err = l.wrongKind(spec, settings.Ordered)
	}
	if err != nil {
		if known == nil {
			c.Close()
		}
		return out, err
	}
	if known != nil {
		return out, nil
	}
	l.mu.Lock()
	if l.groups[key] == nil {
		l.groups[key], g = g, nil
	}
	l.mu.Unlock()
	if g != nil { // somebody was quicker
		c.Close()
		return out, nil
	}
	out.Created, out.StartOpen = true, true
	out.Note = "where a new group starts is up to the broker, and an old one goes on where it was: set rocketmq5.nameservers to choose"
	if settings.MaxAttempts > 0 && settings.MaxAttempts < maxRetries {
		out.Note += fmt.Sprintf("; the broker gives up a message after handing it out %d times: %s", settings.MaxAttempts, l.createCommand(spec))
	}
	return out, nil
}

func (l *Log) wrongKind(spec storage.GroupSpec, ordered bool) error {
	if spec.Ordered && l.port == nil {
		return fmt.Errorf("group %s is not there, or not an orderly one, and cannot be made through the proxies' gRPC: set rocketmq5.nameservers, or make it: %s: %w",
			spec.Group, l.createCommand(spec), storage.ErrUnsupported)
	}
	return fmt.Errorf("group %s is orderly: %v, not %v; that cannot change: %w", spec.Group, ordered, spec.Ordered, storage.ErrGroupKind)
}

// createCommand is how an operator makes a group.
func (l *Log) createCommand(spec storage.GroupSpec) string {
	cmd := fmt.Sprintf("mqadmin updateSubGroup -n '%s' -c CLUSTER -g %s -r %d", l.opts.nameServerArg(), spec.Group, maxRetries)
	if spec.Ordered {
		cmd += " -o true"
	}
	return cmd
}

// placeGroup finds or makes a group at every broker of a topic, and places it
// where it is new.
func (l *Log) placeGroup(ctx context.Context, spec storage.GroupSpec) (out storage.Group, err error) {
	queues, err := l.port.queues(ctx, spec.Topic)
	if err != nil {
		return out, err
	}
	for _, broker := range brokersOf(queues) {
		if err := l.makeGroup(ctx, broker, spec); err != nil {
			return out, err
		}
	}
	var fresh []queue
	for _, q := range queues {
		_, ok, err := l.port.offset(ctx, q, spec.Group)
		if err != nil {
			return out, err
		}
		if !ok {
			fresh = append(fresh, q)
		}
	}
	key, start := groupKey{spec.Topic, spec.Group}, spec.Start
	if out.Created = l.beginPlacing(key, len(fresh) == len(queues)); !out.Created {
		start.At = storage.GroupEarliest // queues that were added since begin at their minimum
	}
	for _, q := range fresh {
		if err := l.placeFresh(ctx, q, spec.Group, start); err != nil {
			return out, err
		}
	}
	l.endPlacing(key)
	l.open(key)
	return out, nil
}

// beginPlacing tells whether a group is new: it is, or it was when this process
// began to place it, and an error kept it from going through with that.
func (l *Log) beginPlacing(key groupKey, fresh bool) (created bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh {
		l.placing[key] = true
	}
	return l.placing[key]
}

// endPlacing notes that a group is placed in every queue, or is no more.
func (l *Log) endPlacing(key groupKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.placing, key)
}

// placeFresh places a group in a queue, unless somebody has done so meanwhile.
func (l *Log) placeFresh(ctx context.Context, q queue, group string, start storage.GroupStart) error {
	m, err := l.moveIn(ctx, q, start)
	if err != nil {
		return err
	}
	if _, ok, err := l.port.offset(ctx, q, group); ok || err != nil {
		return err
	}
	return l.port.place(ctx, q, group, m.To)
}

// makeGroup sees to it that a broker has a group, of the right kind and with a
// retry limit that is never reached.
func (l *Log) makeGroup(ctx context.Context, broker string, spec storage.GroupSpec) error {
	have, ok, err := l.port.findGroup(ctx, broker, spec.Group)
	if err != nil {
		return err
	}
	if ok && have.ordered != spec.Ordered {
		return l.wrongKind(spec, have.ordered)
	}
	if ok && have.retries >= maxRetries {
		return nil
	}
	err = l.port.makeGroup(ctx, broker, groupConfig{name: spec.Group, ordered: spec.Ordered, retries: maxRetries})
	switch {
	case err == nil:
		return nil
	case isAway(err):
		return err
	case ok: // it works, but not for ever
		l.opts.Logger.Warn("the retry limit of a group could not be raised: the broker gives up a message after so many deliveries",
			"group", spec.Group, "broker", broker, "deliveries", have.retries+1, "command", l.createCommand(spec), "error", err)
		return nil
	}
	return fmt.Errorf("group %s could not be made at broker %s; make it: %s: %w: %w", spec.Group, broker, l.createCommand(spec), storage.ErrUnsupported, err)
}

// isAway tells an answer that may be another one soon.
func isAway(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(explain("", err), storage.ErrUnavailable) ||
		errors.Is(explain("", err), storage.ErrClosed)
}

package dispatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// LiteSubscription asks for lite topics of one parent, checked.
type LiteSubscription struct {
	Parent     string
	Subscriber offsetstore.Subscriber
	Settings   Settings // Lite is set
	Topics     []LiteTopic
}

// LiteTopic is one of them. ID is that of the subscription that it becomes.
type LiteTopic struct {
	ID   uint32
	Name string
}

// LiteSubscribed is what became of one lite topic: a subscription that stands,
// or why not.
type LiteSubscribed struct {
	*Subscribed
	Err error
}

// litesAtOnce is how many positions one transaction of SubscribeLite makes
// durable.
const litesAtOnce = 256

// SubscribeLite adds lite topics to a stream, each a subscription of its own,
// and returns once their positions are durable: a client that is new in a lite
// topic begins at the first event that the log holds. What befalls one lite topic
// is told of it alone; an error is of the parent, and then there is nothing
// else. Nothing is delivered before Activate. Calls for one stream must not be
// concurrent.
func (d *Dispatcher) SubscribeLite(ctx context.Context, s *Stream, spec LiteSubscription) ([]LiteSubscribed, error) {
	log, err := d.liteLog()
	if err != nil {
		return nil, err
	}
	info, err := log.LiteParent(ctx, spec.Parent)
	if err != nil {
		return nil, err
	}
	if err := d.ensureDeadLetters(ctx, spec.Parent); err != nil {
		return nil, err
	}
	out := make([]LiteSubscribed, len(spec.Topics))
	for i, lt := range spec.Topics {
		if s.binding(lt.ID) != nil {
			out[i].Err = ErrSubscriptionExists
			continue
		}
		out[i].Subscribed, out[i].Err = d.openLite(ctx, s, info, spec, lt)
	}
	for part := range slices.Chunk(out, litesAtOnce) {
		d.placeLites(ctx, part)
	}
	return out, nil
}

// openLite makes a binding for one lite topic and gives it the loop that serves
// it.
func (d *Dispatcher) openLite(ctx context.Context, s *Stream, info storage.Topic, spec LiteSubscription, lt LiteTopic) (*Subscribed, error) {
	if err := d.lites.EnsureLite(ctx, spec.Parent, lt.Name); err != nil {
		return nil, err
	}
	t, err := d.acquireAs(ctx, info)
	if err != nil {
		return nil, err
	}
	b := &binding{s: s, id: lt.ID, limit: -1, share: 1}
	if err := t.join(ctx, b, spec.Subscriber, spec.Settings, nil); err != nil {
		t.release()
		return nil, err
	}
	if b.lite, err = t.liteLoop(ctx, lt.Name); err != nil {
		t.leave(b)
		t.release()
		return nil, err
	}
	return &Subscribed{b: b, loops: []*loop{b.lite}}, nil
}

// placeLites makes the positions of subscriptions durable, all in one
// transaction, and with that the subscriptions stand.
func (d *Dispatcher) placeLites(ctx context.Context, list []LiteSubscribed) {
	var t *topic
	var sub *subscriber
	var loops []*loop
	for _, one := range list {
		if one.Err == nil {
			t, sub = one.b.topic, one.b.sub
			loops = append(loops, one.b.lite)
		}
	}
	if len(loops) == 0 {
		return
	}
	_, err := d.position(ctx, t, sub, loops, &Place{At: Earliest}, nil)
	for i := range list {
		one := &list[i]
		if one.Err != nil {
			continue
		}
		b := one.b
		if err != nil {
			*one = LiteSubscribed{Err: err}
			t.leave(b)
			t.release()
			continue
		}
		key := offsetstore.Key{Topic: t.name, Subscriber: sub.key, Partition: b.lite.partition}
		if v, ok, err := d.store.Get(key); err == nil && ok {
			one.Positions = append(one.Positions, durablePosition(key, v).export())
		}
		b.s.mu.Lock()
		b.s.bindings[b.id] = b
		b.s.mu.Unlock()
	}
}

// liteLoop refers to the loop of a lite topic, which is started if there is none;
// leaveLite must follow. It waits for an earlier life of it to end.
func (t *topic) liteLoop(ctx context.Context, name string) (*loop, error) {
	for {
		t.mu.Lock()
		l := t.byName[name]
		if l == nil {
			l = t.addLite(name)
		} else if l.lite.refs == 0 {
			t.mu.Unlock()
			select {
			case <-l.done:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("lite topic %q of %q is being closed here: %w", name, t.name, ctx.Err())
			}
		}
		l.lite.refs++
		t.mu.Unlock()
		return l, nil
	}
}

// addLite begins the loop of a lite topic. t.mu is held.
func (t *topic) addLite(name string) *loop {
	l := newLoop(t, name)
	l.topicID = t.id
	l.lite = &liteFeed{l: l, log: t.d.lites, saved: -1}
	l.proof.printer = litePrinter{t.d.lites} // one that has expired may have begun anew, and grown
	t.byName[name] = l
	t.d.wg.Add(1) // until its end
	t.d.Metrics.LiteTopics.Add(1)
	return l
}

// leaveLite ends a reference to the loop of a lite topic; with the last it
// commits what it knows and ends.
func (t *topic) leaveLite(l *loop) {
	t.mu.Lock()
	l.lite.refs--
	last := l.lite.refs == 0
	t.mu.Unlock()
	if last {
		l.stop()
	}
}

// forgetLite takes an ended loop off the topic.
func (t *topic) forgetLite(l *loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[l.partition] == l {
		delete(t.byName, l.partition)
	}
	t.d.Metrics.LiteTopics.Add(-1)
}

package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// enter gives a binding the loops that serve it, with positions that are
// durable.
func (d *Dispatcher) enter(ctx context.Context, t *topic, b *binding, spec Subscription) (*Subscribed, error) {
	if d.pop == nil {
		return d.placeAll(ctx, t, b, spec)
	}
	if err := t.enterFeed(ctx, b); err != nil {
		return nil, err
	}
	note, err := d.openGroup(ctx, t, b.sub, spec.Start)
	return &Subscribed{b: b, loops: []*loop{b.feed}, note: note}, err
}

// enterFeed refers to the feed of the binding's subscriber; exit must follow.
// It waits for an earlier life of it to end.
func (t *topic) enterFeed(ctx context.Context, b *binding) error {
	for {
		t.mu.Lock()
		l := t.feeds[b.sub.key]
		if l == nil {
			l = t.addFeed(b.sub.key)
		} else if l.pop.refs == 0 {
			t.mu.Unlock()
			select {
			case <-l.done:
				t.forgetFeed(b.sub.key, l)
				continue
			case <-ctx.Done():
				return fmt.Errorf("subscriber %s of topic %q is being closed here: %w", b.sub.key, t.name, ctx.Err())
			}
		}
		l.pop.refs++
		b.feed = l
		t.mu.Unlock()
		return nil
	}
}

// addFeed starts the loop of a subscriber. t.mu is held.
func (t *topic) addFeed(sub offsetstore.Subscriber) *loop {
	l := newLoop(t, popPartition)
	l.topicID = t.id
	l.pop = newFeed(l, sub)
	if t.feeds == nil {
		t.feeds = map[offsetstore.Subscriber]*loop{}
	}
	t.feeds[sub] = l
	t.loops = append(t.loops, l)
	t.d.wg.Add(1)
	go func() {
		defer t.d.wg.Done()
		l.run()
		t.forgetFeed(sub, l)
	}()
	return l
}

// forgetFeed takes an ended feed off the topic.
func (t *topic) forgetFeed(sub offsetstore.Subscriber, l *loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.feeds[sub] == l {
		delete(t.feeds, sub)
	}
	t.loops = slices.DeleteFunc(t.loops, func(o *loop) bool { return o == l })
}

// exit ends the binding's reference to its feed; with the last the feed gives
// back what it holds and ends.
func (t *topic) exit(b *binding) {
	if b.feed == nil {
		return
	}
	t.mu.Lock()
	b.feed.pop.refs--
	last := b.feed.pop.refs == 0
	t.mu.Unlock()
	if last {
		b.feed.pop.stop()
	}
}

// loops are those that may serve the binding.
func (b *binding) loops() []*loop {
	if b.feed != nil {
		return []*loop{b.feed}
	}
	if b.lite != nil {
		return []*loop{b.lite}
	}
	return b.topic.allLoops()
}

// openGroup sees to it that the subscriber has its group at the broker, placed
// if it is new, and a value here, before Opened is sent.
func (d *Dispatcher) openGroup(ctx context.Context, t *topic, sub *subscriber, start Place) (note string, err error) {
	if err := sub.lock(ctx); err != nil {
		return "", err
	}
	defer sub.unlock()
	known, err := d.knownBefore(t, sub)
	if err != nil {
		return "", err
	}
	if known.Mode != 0 && known.Ordered != sub.settings.Ordered {
		return "", fmt.Errorf("subscriber %s of topic %q is ordered: %v, not %v: its group at the broker cannot change; delete the subscriber, or use another name: %w",
			sub.key, t.name, known.Ordered, sub.settings.Ordered, ErrKindFixed)
	}
	g, err := d.pop.OpenGroup(ctx, d.groupSpec(t.name, sub.key, sub.settings, &start, known.Mode != 0))
	if err != nil {
		return "", fmt.Errorf("group %s of subscriber %s in topic %q: %w", GroupName(t.name, sub.key), sub.key, t.name, err)
	}
	if g.Created && g.StartOpen {
		note = g.Note
	}
	return note, d.popValue(ctx, t, sub, known)
}

// groupSpec describes the group of a subscriber. One that is known here and has
// none at the broker any more begins at the minimum: nothing may be skipped.
func (d *Dispatcher) groupSpec(topic string, key offsetstore.Subscriber, set Settings, start *Place, known bool) storage.GroupSpec {
	spec := storage.GroupSpec{Topic: topic, Group: GroupName(topic, key), Ordered: set.Ordered}
	switch {
	case known && d.pop.admin != nil:
		spec.Start.At = storage.GroupEarliest
	case !known && start != nil:
		spec.Start = groupStart(*start)
	}
	return spec
}

func groupStart(p Place) storage.GroupStart {
	s := storage.GroupStart{Offset: p.Offset, Time: p.Time, Match: p.Match}
	switch p.At {
	case Earliest:
		s.At = storage.GroupEarliest
	case AtOffset:
		s.At = storage.GroupOffsetAt
	case AtTime:
		s.At = storage.GroupTimeAt
	default:
		if p.Given {
			s.At = storage.GroupLatest
		}
	}
	return s
}

// popValue makes the settings and the value of a subscriber durable, anew if the
// topic was deleted and made again since.
func (d *Dispatcher) popValue(ctx context.Context, t *topic, sub *subscriber, known Settings) error {
	txn := &offsetstore.Txn{}
	if known != sub.settings {
		raw, err := json.Marshal(sub.settings)
		if err != nil {
			return err
		}
		txn.Sets = append(txn.Sets, offsetstore.Record{Space: subscribersSpace, Key: recordKey(t.name, sub.key), Value: raw})
	}
	key := offsetstore.Key{Topic: t.name, Subscriber: sub.key, Partition: popPartition}
	id := t.identity()
	v, ok, err := d.store.Get(key)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		txn.Puts = []offsetstore.Put{{Key: key, Value: offsetstore.Value{Log: offsetstore.LogID{TopicID: id}}}}
	case v.Log.TopicID != id && v.Log.TopicID != "":
		d.Metrics.Corrected.Add(1)
		d.warn("topic was deleted and created again: what was known of its messages goes", "topic", t.name, "subscriber", sub.key.String())
		next := offsetstore.Value{Epoch: v.Epoch + 1, Log: offsetstore.LogID{TopicID: id}}
		txn.Puts = []offsetstore.Put{{Key: key, Value: next}}
		if err := d.unsetEntries(ctx, t.name, sub.key); err != nil {
			return err
		}
	}
	if len(txn.Puts)+len(txn.Sets) == 0 {
		return nil
	}
	return offsetstore.Commit(ctx, d.store, txn)
}

// recreatedAs begins anew after the topic was deleted and made again. It may be
// called from anywhere.
func (f *feed) recreatedAs(topicID string) {
	f.l.post(event{kind: evCall, call: func() {
		f.l.topicID = topicID
		p := f.l.parts[f.sub]
		if p == nil || p.log.TopicID == topicID {
			return
		}
		from := p.m.Position()
		ids := slices.Collect(maps.Keys(f.known))
		f.startOver(p, p.m.Epoch()+1, topicID)
		f.forgetIDs(ids)
		f.l.corrected(p, from, f.seq, "the topic was deleted and created again")
	}})
}

// startOver drops all that is known of messages and begins a new epoch. What was
// held is returned. The entries on disk are the caller's to remove.
func (f *feed) startOver(p *part, epoch uint64, topicID string) (held []*popped) {
	for _, q := range f.open {
		if f.at[q.off] == q {
			f.discard(q)
			held = append(held, q)
		}
	}
	f.open, f.queue, f.queueB, f.changes = nil, nil, 0, nil
	f.recent = nil
	clear(f.byID) // what is handed out anew is none of those that wait for their broker ack
	f.known, f.unset = map[string]popEntry{}, nil
	f.alone = false
	f.l.restart(p, epoch, f.seq, topicID)
	f.opened(p)
	return held
}

// forgetPop removes what a subscriber has at the broker and its entries.
func (d *Dispatcher) forgetPop(ctx context.Context, topic string, key offsetstore.Subscriber) error {
	if d.pop == nil {
		return nil
	}
	if d.pop.admin != nil {
		err := d.pop.admin.DeleteGroup(ctx, topic, GroupName(topic, key))
		if err != nil && !errors.Is(err, storage.ErrTopicNotFound) && !errors.Is(err, storage.ErrUnsupported) {
			return fmt.Errorf("group %s at the broker: %w", GroupName(topic, key), err)
		}
	}
	return d.unsetEntries(ctx, topic, key)
}

// awaitIdle calls fn on the loop when no pop is under way; one that waits at
// the broker is ended.
func (f *feed) awaitIdle(fn func()) {
	if !f.l.tail.busy {
		fn()
		return
	}
	f.idle = append(f.idle, fn)
	f.unpopNow()
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// errLoopEnded: the partition is not served any more.
var errLoopEnded = errors.New("partition is not served any more")

// DeadLetterSuffix makes a topic the one of another's dead letters.
const DeadLetterSuffix = "_DLQ"

// topic is a topic that streams are subscribed to: a loop for each partition.
// It lives as long as something refers to it, and a little longer, until its
// loops have committed what they know.
type topic struct {
	d            *Dispatcher
	name         string
	protoOptions frame.ProtoOptions
	done         chan struct{} // closed when all loops have ended
	changedCh    chan struct{} // the topic may have been made anew

	mu     sync.Mutex
	id     string
	loops  []*loop
	byName map[string]*loop
	subs   map[offsetstore.Subscriber]*subscriber
	bound  map[*binding]bool                // bindings whose positions are durable
	fresh  []*loop                          // not taken up yet by all of them; refresh's own
	lite   bool                             // a parent: byName has the lite topics in use, loops is empty
	feeds  map[offsetstore.Subscriber]*loop // of a log that hands records out

	// Guarded by Dispatcher.mu.
	refs   int
	ending bool
}

// acquire refers to a topic; release must follow. It makes the topic where the
// backend may, and waits for an earlier life of it to end.
func (d *Dispatcher) acquire(ctx context.Context, name string) (*topic, error) {
	info, err := d.backend.EnsureTopic(ctx, name)
	if err == nil && info.Lite {
		err = errIsParent(name)
	}
	if err != nil {
		return nil, err
	}
	return d.acquireAs(ctx, info)
}

// acquireKnown is acquire for a topic that may be a parent of lite topics.
func (d *Dispatcher) acquireKnown(ctx context.Context, name string) (*topic, error) {
	info, err := d.backend.EnsureTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.acquireAs(ctx, info)
}

// acquireAs is acquire for a topic that was described.
func (d *Dispatcher) acquireAs(ctx context.Context, info storage.Topic) (*topic, error) {
	for {
		t, wait := d.tryAcquire(info)
		switch {
		case wait == nil && t.lite != info.Lite:
			t.release()
			return nil, fmt.Errorf("topic %q was of another type and is in use as such: %w", info.Name, storage.ErrTopicChanged)
		case wait == nil:
			return t, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("topic %q is being closed here: %w", info.Name, ctx.Err())
		}
	}
}

func (d *Dispatcher) tryAcquire(info storage.Topic) (t *topic, wait chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t = d.topics[info.Name]
	if t != nil && t.ending {
		return nil, t.done
	}
	if t == nil {
		t = d.newTopic(info)
		d.topics[info.Name] = t
	}
	t.refs++
	return t, nil
}

func (d *Dispatcher) newTopic(info storage.Topic) *topic {
	t := &topic{
		d: d, name: info.Name, id: info.ID, lite: info.Lite,
		done: make(chan struct{}), changedCh: make(chan struct{}, 1),
		byName: map[string]*loop{}, subs: map[offsetstore.Subscriber]*subscriber{}, bound: map[*binding]bool{},
	}
	t.protoOptions.KeepReserved = strings.HasSuffix(info.Name, DeadLetterSuffix)
	for _, name := range d.readByPosition(info) {
		t.addLoop(name)
	}
	return t
}

// addLoop starts a loop. t.mu is held, or t is not shared yet.
func (t *topic) addLoop(partition string) *loop {
	l := newLoop(t, partition)
	l.topicID = t.id
	t.loops = append(t.loops, l)
	t.byName[partition] = l
	t.d.wg.Add(1)
	go func() {
		defer t.d.wg.Done()
		l.run()
	}()
	return l
}

// release ends one reference; with the last the loops commit and end.
func (t *topic) release() {
	d := t.d
	d.mu.Lock()
	t.refs--
	last := t.refs == 0
	if last {
		t.ending = true
		d.wg.Add(1)
	}
	d.mu.Unlock()
	if last {
		go t.end()
	}
}

// end stops the loops, waits for them and forgets the topic.
func (t *topic) end() {
	defer t.d.wg.Done()
	loops := t.allLoops()
	for _, l := range loops {
		l.stop()
	}
	for _, l := range loops {
		<-l.done
	}
	t.d.mu.Lock()
	delete(t.d.topics, t.name)
	t.d.mu.Unlock()
	close(t.done)
}

func (t *topic) allLoops() []*loop {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lite {
		return slices.Collect(maps.Values(t.byName))
	}
	return append([]*loop(nil), t.loops...)
}

func (t *topic) identity() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// changed asks for the topic to be looked at soon: a read found another one
// under its name.
func (t *topic) changed() { t.d.lookSoon() }

// lookSoon makes refresh look at all topics now.
func (d *Dispatcher) lookSoon() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}

// refresh looks at the topics in use from time to time: new partitions, topics
// that were made anew.
func (d *Dispatcher) refresh() {
	defer d.wg.Done()
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-d.stopCtx.Done():
			return
		case <-tick.C:
		case <-d.look:
		}
		for _, t := range d.topicsInUse() {
			d.refreshTopic(d.stopCtx, t)
			t.release()
		}
	}
}

// topicsInUse lists the topics, each with a reference more.
func (d *Dispatcher) topicsInUse() []*topic {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*topic
	for _, t := range d.topics {
		if !t.ending {
			t.refs++
			list = append(list, t)
		}
	}
	return list
}

func (d *Dispatcher) refreshTopic(ctx context.Context, t *topic) {
	info, err := d.backend.Topic(ctx, t.name)
	if err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, storage.ErrClosed) {
			d.warn("topic could not be looked at", "topic", t.name, "error", err)
		}
		return
	}
	if info.Lite != t.lite {
		d.warn("topic was made again as one of another type: end the streams on it", "topic", t.name, "lite", info.Lite)
		return
	}
	t.mu.Lock()
	anew := info.ID != t.id
	t.id = info.ID
	for _, name := range d.readByPosition(info) {
		if t.byName[name] == nil {
			t.fresh = append(t.fresh, t.addLoop(name))
		}
	}
	t.mu.Unlock()
	if anew {
		t.recreated(ctx, info)
	}
	if len(t.fresh) > 0 && d.adopt(ctx, t, t.fresh) {
		t.fresh = nil
	}
}

// recreated restarts every subscriber at the minimum of the new topic.
func (t *topic) recreated(ctx context.Context, info storage.Topic) {
	for _, l := range t.allLoops() {
		if l.pop != nil {
			l.pop.recreatedAs(info.ID)
			continue
		}
		low, _, err := t.bounds(ctx, l.partition)
		if err != nil {
			t.d.warn("bounds of a topic made anew are not known", "topic", t.name, "partition", l.partition, "error", err)
		}
		l.post(event{kind: evCall, call: func() {
			l.topicID = info.ID
			l.recreate(info.ID, low)
		}})
	}
}

// adopt attaches the streams that are on a topic to partitions it has got since.
// It tells whether all could be: else it is to be called again. Those that join
// later find the partitions themselves.
func (d *Dispatcher) adopt(ctx context.Context, t *topic, fresh []*loop) bool {
	t.mu.Lock()
	bound := make([]*binding, 0, len(t.bound))
	for b := range t.bound {
		bound = append(bound, b)
	}
	t.mu.Unlock()
	all := true
	for _, b := range bound {
		if _, err := d.position(ctx, t, b.sub, fresh, nil, nil); err != nil {
			d.warn("new partitions could not be taken up, trying again", "topic", t.name, "subscriber", b.sub.key.String(), "error", err)
			all = false
			continue
		}
		if !t.keepFor(b, fresh) {
			for _, l := range fresh {
				l.attach(b)
			}
		}
	}
	return all
}

// keepFor leaves partitions to Activate, if the binding is not active yet.
func (t *topic) keepFor(b *binding, fresh []*loop) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !b.active {
		b.later = append(b.later, fresh...)
	}
	return !b.active
}

// activate makes the binding active and returns the partitions that were left to
// it meanwhile.
func (t *topic) activate(b *binding) []*loop {
	t.mu.Lock()
	defer t.mu.Unlock()
	later := b.later
	b.active, b.later = true, nil
	return later
}

// bind notes that the binding's positions in loops are durable. If the topic has
// got others since it returns those instead.
func (t *topic) bind(b *binding, loops []*loop) (others []*loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.loops {
		if !slices.Contains(loops, l) {
			others = append(others, l)
		}
	}
	if len(others) == 0 {
		t.bound[b] = true
	}
	return others
}

// bounds of a partition, where the backend knows them.
func (d *Dispatcher) bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	b, ok := storage.As[storage.Bounder](d.backend)
	if !ok {
		return 0, 0, fmt.Errorf("backend %s does not know the bounds of partitions: %w", d.backend.Name(), storage.ErrUnknown)
	}
	return b.Bounds(ctx, topic, partition)
}

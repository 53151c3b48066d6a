package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// NoticeKind says what a stream is told, with the numbers of the wire.
type NoticeKind uint8

// The kinds of Notice.
const (
	NoticeDraining NoticeKind = 1 + iota
	NoticeSuperseded
	NoticeEvicted
	NoticePositionCorrected
	NoticeReset
	NoticeReassigned
	NoticeShareDefault
)

// Notice is something that a client should know.
type Notice struct {
	Kind         NoticeKind
	Detail       string
	Subscription uint32
	Positions    []Position
	GoTo         *Instance // nil: nowhere in particular
}

// Instance is one that a client may connect to.
type Instance struct {
	ID, URL string
	Score   float64
}

// Position says how far a subscriber is in a partition, durably.
type Position struct {
	Topic, Subscriber, Partition string
	Next                         int64
	Ahead                        []OffsetRange
	Epoch                        uint64
}

// OffsetRange is a range of offsets, both ends included.
type OffsetRange struct{ First, Last int64 }

func (p position) export() Position {
	out := Position{Topic: p.topic, Subscriber: p.subscriber, Partition: p.partition, Next: p.next, Epoch: p.epoch}
	for _, r := range p.ahead {
		out.Ahead = append(out.Ahead, OffsetRange(r))
	}
	return out
}

// Errors of streams and subscriptions.
var (
	// ErrDraining: the instance takes no new streams.
	ErrDraining = errors.New("instance is drained or shutting down: connect to another one or later")
	// ErrSubscriptionExists: the stream has a subscription of that id.
	ErrSubscriptionExists = errors.New("subscription id is in use on this stream")
	// ErrNoSubscription: the stream has no subscription of that id.
	ErrNoSubscription = errors.New("no such subscription on this stream")
	// ErrSuperseded ends a stream none of whose subscriptions is left.
	ErrSuperseded = errors.New("superseded by a newer stream of the same client")
	// ErrStopping ends the streams of an instance that shuts down.
	ErrStopping = errors.New("instance is drained or shutting down: reconnect")
)

// Subscription is what a client asks for, checked.
type Subscription struct {
	ID          uint32
	Topic       string
	Subscriber  offsetstore.Subscriber
	Settings    Settings
	Filter      Filter // of Settings.Filter; nil: all
	Start       Place
	MaxInFlight int // -1: the stream's
	Resume      map[offsetstore.Key]Resume
}

// Subscribed is a subscription that stands: its positions are durable. Nothing
// is delivered before Activate.
type Subscribed struct {
	Positions []Position
	b         *binding
	loops     []*loop
	note      string     // told with a Notice after Opened; empty: none
	anew      []position // told with note
}

// NewStream begins a stream. Start must be called for it, and End at last.
func (d *Dispatcher) NewStream(cfg StreamConfig) (*Stream, error) {
	s := &Stream{
		id: delivery.StreamID(d.nextStream.Add(1)), d: d, Since: time.Now(), cfg: cfg,
		done: make(chan struct{}), answered: make(chan struct{}, 1),
		evicted: make(chan struct{}), extended: make(chan struct{}, 1),
		bindings: map[uint32]*binding{}, ids: idBlock{source: d.ids}, lateCheck: maxLate, compactAt: minCompact,
	}
	s.writer.Store(writerAgain) // until Start
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return nil, ErrDraining
	}
	d.streams[s.id] = s
	d.Metrics.StreamsOpened.Add(1)
	d.Metrics.StreamsLive.Add(1)
	return s, nil
}

// Subscribe adds a subscription to a stream. It returns once its positions are
// durable in every partition. Calls for one stream must not be concurrent.
func (d *Dispatcher) Subscribe(ctx context.Context, s *Stream, spec Subscription) (*Subscribed, error) {
	if s.binding(spec.ID) != nil {
		return nil, ErrSubscriptionExists
	}
	t, err := d.acquire(ctx, spec.Topic)
	if err != nil {
		return nil, err
	}
	if err := d.ensureDeadLetters(ctx, spec.Topic); err != nil {
		t.release()
		return nil, err
	}
	b := &binding{s: s, id: spec.ID, limit: spec.MaxInFlight, share: 1}
	if err := t.join(ctx, b, spec.Subscriber, spec.Settings, spec.Filter); err != nil {
		t.release()
		return nil, err
	}
	out, err := d.enter(ctx, t, b, spec)
	if err != nil {
		t.leave(b)
		t.release()
		return nil, err
	}
	b.share = len(out.loops)
	for _, l := range out.loops {
		if l.pop != nil {
			break // the broker's position counts
		}
		key := offsetstore.Key{Topic: t.name, Subscriber: b.sub.key, Partition: l.partition}
		if v, ok, err := d.store.Get(key); err == nil && ok {
			out.Positions = append(out.Positions, durablePosition(key, v).export())
		}
	}
	s.mu.Lock()
	s.bindings[b.id] = b
	s.mu.Unlock()
	return out, nil
}

// placeAll makes the positions of a binding durable in all partitions.
func (d *Dispatcher) placeAll(ctx context.Context, t *topic, b *binding, spec Subscription) (*Subscribed, error) {
	start, out := &spec.Start, &Subscribed{b: b}
	for more := t.allLoops(); ; start = nil { // what has appeared since begins at its minimum
		anew, err := d.position(ctx, t, b.sub, more, start, spec.Resume)
		if err != nil {
			return nil, err
		}
		if out.anew = append(out.anew, anew...); len(out.anew) > 0 {
			out.note = "the topic was deleted and created again: delivery starts at its minimum"
		}
		out.loops = append(out.loops, more...)
		if more = t.bind(b, out.loops); len(more) == 0 {
			return out, nil
		}
	}
}

// Activate begins delivery, after Opened or Changed was queued. Another stream
// of the client on the same subscription loses it.
func (d *Dispatcher) Activate(sub *Subscribed) {
	b := sub.b
	key := b.ownerKey()
	d.mu.Lock()
	old := d.owners[key]
	if old != nil && old.s.id > b.s.id { // overtaken while it was opened
		d.mu.Unlock()
		d.supersede(b)
		return
	}
	d.owners[key] = b
	d.mu.Unlock()
	if old != nil {
		d.supersede(old)
	}
	if b.isGone() { // the stream has ended meanwhile
		d.disown(key, b)
		return
	}
	if sub.note != "" {
		b.s.notice(NoticePositionCorrected, sub.note, b.id, sub.anew...)
	}
	for _, l := range append(sub.loops, b.topic.activate(b)...) {
		l.attach(b)
	}
}

// supersede takes a subscription from an older stream of the same client.
func (d *Dispatcher) supersede(old *binding) {
	d.Metrics.Superseded.Add(1)
	old.s.notice(NoticeSuperseded, "a newer stream of this client took the subscription", old.id)
	if !d.detach(old, true) {
		return
	}
	if old.s.bindingCount() == 0 {
		old.s.finish(ErrSuperseded)
	}
}

// attach adds a binding to the loop's part of its subscriber.
func (l *loop) attach(b *binding) {
	l.post(event{kind: evCall, call: func() { l.attachNow(b) }})
}

func (l *loop) attachNow(b *binding) {
	if b.isGone() {
		return
	}
	p := l.parts[b.sub.key]
	if p != nil && p.sub != b.sub { // it lingers from before
		if p.sub.settings != b.sub.settings {
			l.attach(b) // again, once it is gone
			return
		}
		p.sub = b.sub
	}
	if p == nil {
		var err error
		if p, err = l.open(b.sub); err != nil { // the client is to try again
			l.d.warn("position of a subscriber could not be read: its stream ends", "topic", l.t.name, "partition", l.partition, "subscriber", b.sub.name, "error", err)
			b.s.finish(err)
			return
		}
	}
	if p.attachmentOf(b.s) != nil {
		return
	}
	p.absentAt, p.left, p.lost = 0, false, false
	p.m.Attach(b.s.id, b.s.cfg.AckTimeout)
	p.atts = append(p.atts, &attachment{b: b, p: p})
	l.touch(p)
	l.enlist(p)
}

// open makes the part of a subscriber out of its stored value.
func (l *loop) open(sub *subscriber) (*part, error) {
	key := offsetstore.Key{Topic: l.t.name, Subscriber: sub.key, Partition: l.partition}
	v, ok, err := l.d.store.Get(key)
	var marker offsetstore.Marker
	dated := v.Absent
	if err == nil && ok {
		marker, err = l.d.store.Marker(key)
	}
	if err == nil && ok && l.pop != nil {
		v, err = l.pop.begin(key, v)
	}
	if err == nil && !ok {
		err = storage.ErrUnavailable // removed since the stream was opened
	}
	if err != nil {
		return nil, fmt.Errorf("position of subscriber %s in topic %q partition %q: %w", sub.key, l.t.name, l.partition, err)
	}
	p := &part{
		l: l, sub: sub, key: key, marker: marker, marked: v.High, log: v.Log, dated: dated,
		m:    delivery.New(sub.settings.retry(l.d.cfg.Delivery), v, time.Now(), l.d.newRand()),
		told: durablePosition(key, v), counts: l.d.counts.of(key.Topic, key.Subscriber),
	}
	if err := l.findIntents(p); err != nil {
		return nil, err
	}
	l.pop.opened(p)
	l.parts[sub.key] = p
	l.proof.opened(p, time.Now())
	l.touch(p)
	return p, nil
}

// detach takes a binding off its partitions: what it holds is given back at
// once. It tells whether it was attached still.
func (d *Dispatcher) detach(b *binding, broken bool) bool {
	s := b.s
	s.mu.Lock()
	if b.gone {
		s.mu.Unlock()
		return false
	}
	b.gone = true
	b.endPace()
	delete(s.bindings, b.id)
	s.mu.Unlock()
	d.disown(b.ownerKey(), b)
	for _, l := range b.loops() {
		l.post(event{kind: evCall, call: func() { l.detachNow(b, broken) }})
	}
	s.forget(b, nil)
	b.topic.leave(b)
	b.topic.release()
	return true
}

// ownerKey is the place that the binding has, or wants.
func (b *binding) ownerKey() ownerKey {
	key := ownerKey{topic: b.topic.name, sub: b.sub.key, client: b.s.cfg.ClientID}
	if b.lite != nil {
		key.lite = b.lite.partition
	}
	return key
}

// disown takes a binding off the owners, if it is one.
func (d *Dispatcher) disown(key ownerKey, b *binding) {
	d.mu.Lock()
	if d.owners[key] == b {
		delete(d.owners, key)
	}
	d.mu.Unlock()
}

func (b *binding) isGone() bool {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.gone
}

func (l *loop) detachNow(b *binding, broken bool) {
	p := l.parts[b.sub.key]
	if p == nil {
		return
	}
	i := slices.IndexFunc(p.atts, func(a *attachment) bool { return a.b == b })
	if i < 0 {
		return
	}
	p.atts = slices.Delete(p.atts, i, i+1)
	p.m.Detach(time.Now(), b.s.id, broken)
	if p.left = len(p.atts) == 0; p.left {
		p.leftAt = time.Now()
		p.m.Disarm()
	}
	l.touch(p)
	l.enlist(p)
}

// Unsubscribe ends one subscription of a stream.
func (d *Dispatcher) Unsubscribe(s *Stream, id uint32) error {
	b := s.binding(id)
	if b == nil || !d.detach(b, false) {
		return ErrNoSubscription
	}
	return nil
}

// Pause stops or resumes one subscription of a stream.
func (d *Dispatcher) Pause(s *Stream, id uint32, paused bool) error {
	b := s.binding(id)
	if b == nil {
		return ErrNoSubscription
	}
	s.mu.Lock()
	b.paused = paused
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
	return nil
}

// End ends a stream: it gives back what the stream holds, waits up to grace for
// acks under way to be answered, and makes the writer end with err. broken: it costs
// what the stream holds an attempt.
func (d *Dispatcher) End(s *Stream, broken bool, grace time.Duration, err error) {
	s.stop()
	for _, b := range s.allBindings() {
		d.detach(b, broken)
	}
	if grace > 0 {
		s.awaitAnswers(grace)
	}
	s.finish(err)
}

// Forget removes a stream whose Write has returned.
func (d *Dispatcher) Forget(s *Stream) {
	d.mu.Lock()
	if d.streams[s.id] == s {
		delete(d.streams, s.id)
		d.Metrics.StreamsLive.Add(-1)
	}
	d.mu.Unlock()
}

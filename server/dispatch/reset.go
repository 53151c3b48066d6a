package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// resetFlush is how long a reset waits for a stream to finish the write that it
// is in; a stream that takes longer is ended.
const resetFlush = 5 * time.Second

// freeze holds a subscriber still in one partition: no deliveries, no commits;
// what clients answer waits.
type freeze struct {
	deferred []event
	waiting  chan struct{} // closed when no commit is under way
	isDone   bool
}

func (f *freeze) settled() {
	if !f.isDone {
		f.isDone = true
		close(f.waiting)
	}
}

// Moved says what a reset did, or would do, in one partition.
type Moved struct {
	Partition string
	From, To  int64
	Epoch     uint64
	Min, Max  int64
	// Warning tells of a correction into the log's bounds; empty: none.
	Warning string

	log offsetstore.LogID // what the new position rests on
}

// ResetRequest moves a subscriber on purpose.
type ResetRequest struct {
	Topic      string
	Subscriber offsetstore.Subscriber
	Partition  string // empty: all
	To         Place
	DryRun     bool
}

// Reset moves a subscriber's position. When it returns nil the new position is
// durable, no frame of the old epoch is written any more, and acks of the old
// epoch are STALE. Live streams go on.
func (d *Dispatcher) Reset(ctx context.Context, req ResetRequest) ([]Moved, error) {
	info, err := d.backend.Topic(ctx, req.Topic)
	if err != nil {
		return nil, err
	}
	t, err := d.acquireKnown(ctx, req.Topic)
	if err != nil {
		return nil, err
	}
	defer t.release()
	sub, err := t.hold(d, req.Subscriber)
	if err != nil {
		return nil, err
	}
	defer t.letGo(sub)
	if err := sub.lock(ctx); err != nil {
		return nil, err
	}
	defer sub.unlock()
	if d.pop != nil && !t.lite {
		return d.resetPop(ctx, t, sub, req)
	}
	loops, done, err := d.resetLoops(ctx, t, req.Subscriber, req)
	defer done()
	if err != nil {
		return nil, err
	}
	moved, err := d.planReset(ctx, t, req, loops)
	if err != nil || req.DryRun {
		return moved, err
	}
	if err := d.groundReset(ctx, t, info.ID, moved); err != nil {
		return nil, err
	}
	return moved, d.applyReset(ctx, t, sub, loops, moved)
}

// hold keeps a known subscriber in being, so that it is not opened meanwhile.
func (t *topic) hold(d *Dispatcher, key offsetstore.Subscriber) (*subscriber, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub := t.subs[key]
	if sub == nil {
		sub = &subscriber{key: key, name: key.String(), topic: t.name, locks: &d.locks}
		known, err := d.knownBefore(t, sub)
		if err != nil {
			return nil, err
		}
		if known.Mode == 0 {
			return nil, fmt.Errorf("subscriber %s has no progress on topic %q: %w", key, t.name, offsetstore.ErrNotFound)
		}
		sub.settings = known
		t.subs[key] = sub
	}
	sub.live++
	return sub, nil
}

func (t *topic) letGo(sub *subscriber) {
	t.mu.Lock()
	if sub.live--; sub.live == 0 {
		delete(t.subs, sub.key)
	}
	t.mu.Unlock()
}

func (t *topic) loopsFor(partition string) ([]*loop, error) {
	if partition == "" {
		return t.allLoops(), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.byName[partition]; l != nil {
		return []*loop{l}, nil
	}
	return nil, fmt.Errorf("topic %q has no partition %q: %w", t.name, partition, storage.ErrPartitionNotFound)
}

// planReset resolves where to in every partition.
func (d *Dispatcher) planReset(ctx context.Context, t *topic, req ResetRequest, loops []*loop) ([]Moved, error) {
	var moved []Moved
	for _, l := range loops {
		key := offsetstore.Key{Topic: t.name, Subscriber: req.Subscriber, Partition: l.partition}
		v, ok, err := d.store.Get(key)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // it appeared a moment ago and is taken up at its minimum
		}
		m := Moved{Partition: l.partition, From: v.Position, Epoch: v.Epoch + 1}
		m.Min, m.Max, err = t.bounds(ctx, l.partition)
		if req.Partition == "" && errors.Is(err, storage.ErrPartitionNotFound) {
			continue // the topic was made anew with fewer
		}
		if err != nil {
			return nil, err
		}
		if m.To, err = d.resolve(ctx, key, req.To, m.Min, m.Max); err != nil {
			return nil, err
		}
		if req.To.At == AtOffset && m.To != req.To.Offset {
			m.Warning = fmt.Sprintf("offset %d is outside what the log holds (%d to %d): corrected to %d", req.To.Offset, m.Min, m.Max, m.To)
		}
		moved = append(moved, m)
	}
	return moved, nil
}

// groundReset notes what the new positions rest on: the log as it is now, not the
// one that the old positions were counted in.
func (d *Dispatcher) groundReset(ctx context.Context, t *topic, topicID string, moved []Moved) error {
	if topicID != t.identity() {
		d.lookSoon()
		return fmt.Errorf("topic %q was made anew a moment ago: try again: %w", t.name, storage.ErrTopicChanged)
	}
	for i := range moved {
		m := &moved[i]
		m.log.TopicID = topicID
		if t.lite || m.To <= m.Min {
			continue
		}
		before, err := d.printBefore(ctx, t.name, m.Partition, m.To)
		if err != nil {
			return err
		}
		m.log.Floor, m.log.Top = before, before
	}
	return nil
}

// applyReset makes the plan durable in one transaction, with the subscriber held
// still, and then the machines follow.
func (d *Dispatcher) applyReset(ctx context.Context, t *topic, sub *subscriber, loops []*loop, moved []Moved) error {
	frozen := make([]*freeze, len(loops))
	defer func() {
		for i, l := range loops {
			if frozen[i] != nil {
				l.thaw(sub.key)
			}
		}
	}()
	for i, l := range loops {
		f := &freeze{waiting: make(chan struct{})}
		frozen[i] = f // even if ctx ends first: the loop does it later
		if err := l.call(ctx, func() { l.hold(sub.key, f) }); err != nil {
			return err
		}
	}
	for _, f := range frozen {
		select {
		case <-f.waiting:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// From here on there is no way back: with its fate open the machines might go
	// on in an epoch that is over, and acks would be lost.
	ctx = context.WithoutCancel(ctx)
	if err := d.commitReset(ctx, t, sub, moved); err != nil {
		return err
	}
	return d.followReset(ctx, t, sub, loops, moved)
}

func (d *Dispatcher) commitReset(ctx context.Context, t *topic, sub *subscriber, moved []Moved) error {
	txn := &offsetstore.Txn{}
	for i := range moved {
		m := &moved[i]
		key := offsetstore.Key{Topic: t.name, Subscriber: sub.key, Partition: m.Partition}
		v, ok, err := d.store.Get(key) // it may have moved since the plan
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("subscriber %s topic %q partition %q: %w", sub.key, t.name, m.Partition, offsetstore.ErrNotFound)
		}
		m.From, m.Epoch = v.Position, v.Epoch+1
		txn.Puts = append(txn.Puts, offsetstore.Put{Key: key, Value: offsetstore.Value{
			Epoch: m.Epoch, Position: m.To, High: m.To, Log: m.log, Absent: v.Absent,
		}})
	}
	return offsetstore.Commit(ctx, d.store, txn)
}

// followReset resets the live machines and waits until no frame of the old epoch
// is being written.
func (d *Dispatcher) followReset(ctx context.Context, t *topic, sub *subscriber, loops []*loop, moved []Moved) error {
	var streams []*Stream
	for _, m := range moved {
		for _, l := range loops {
			if l.partition != m.Partition {
				continue
			}
			err := l.call(ctx, func() { streams = append(streams, l.resetTo(sub.key, m)...) })
			if err != nil && !errors.Is(err, errLoopEnded) {
				return err
			}
		}
	}
	for _, s := range streams {
		s.flushed(ctx, resetFlush)
	}
	return nil
}

// hold freezes a subscriber; f.waiting is closed once no commit is under way.
func (l *loop) hold(key offsetstore.Subscriber, f *freeze) {
	l.frozen[key] = f
	if p := l.parts[key]; p == nil || !p.committing {
		f.settled()
	}
}

// thaw ends a freeze and takes up what was deferred.
func (l *loop) thaw(key offsetstore.Subscriber) {
	l.post(event{kind: evCall, call: func() {
		f := l.frozen[key]
		delete(l.frozen, key)
		if f == nil {
			return
		}
		now := time.Now()
		for _, ev := range f.deferred {
			l.answered(ev, now)
		}
		if p := l.parts[key]; p != nil {
			l.touch(p)
			l.enlist(p)
		}
	}})
}

// resetTo puts the machine of a subscriber into the new epoch and returns the
// streams that had the old one.
func (l *loop) resetTo(key offsetstore.Subscriber, m Moved) []*Stream {
	p := l.parts[key]
	if p == nil || p.m.Epoch() >= m.Epoch {
		return nil
	}
	l.restart(p, m.Epoch, m.To, m.log.TopicID)
	p.log = m.log
	pos := position{topic: p.key.Topic, subscriber: p.key.Subscriber.String(), partition: p.key.Partition, next: m.To, epoch: m.Epoch}
	p.told = pos
	var streams []*Stream
	for _, a := range p.atts {
		a.b.s.notice(NoticeReset, fmt.Sprintf("position of partition %q was set from %d to %d", m.Partition, m.From, m.To), a.b.id, pos)
		streams = append(streams, a.b.s)
	}
	return streams
}

// flushed waits until what the writer has in hand is written. A stream whose
// client does not read it in time is ended.
func (s *Stream) flushed(ctx context.Context, patience time.Duration) {
	s.mu.Lock()
	if !s.inHand {
		s.mu.Unlock()
		return
	}
	writing := make(chan struct{})
	s.onWritten = append(s.onWritten, writing)
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-writing:
	case <-s.done:
	case <-timer.C:
		s.evict("a position was reset and the client did not read what was sent before")
	case <-ctx.Done():
		s.evict("a position was reset and the client did not read what was sent before")
	}
}

// ErrEvicted ends a stream that the server wants to be rid of. ErrSentAway is an
// ErrEvicted by an operator: its client is not to come back by itself.
var (
	ErrEvicted  = errors.New("evicted")
	ErrSentAway = fmt.Errorf("%w by an operator", ErrEvicted)
)

// evict ends a stream without waiting for its writer.
func (s *Stream) evict(why string) { s.evictFor(ErrEvicted, why) }

func (s *Stream) evictFor(err error, why string) {
	s.notice(NoticeEvicted, why, 0)
	s.abort(fmt.Errorf("%w: %s", err, why))
}

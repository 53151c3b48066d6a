package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Bounds implements storage.Bounder. The maximum is the master's. One of 0 of
// a queue that was longer is not believed: then, and while the broker has no
// master, the answer is ErrUnknown.
func (l *Log) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		low, high, err = l.boundsNow(ctx, at, 0)
		return err
	})
	return low, high, err
}

// visit calls f with a queue that was known again. What cannot be reached is
// not known.
func (l *Log) visit(ctx context.Context, topic, partition string, f func(context.Context, *place) error) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	patience := time.Now().Add(l.opts.RequestTimeout / 2)
	for since := (time.Time{}); ; since = time.Now() {
		err = l.visitOnce(inner, topic, partition, since, f)
		again := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrTopicChanged) || errors.Is(err, errMoved)
		if !again || time.Until(patience) < unavailablePause {
			break
		}
		if err = sleep(inner, unavailablePause); err != nil {
			break
		}
	}
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, errMoved) {
		err = fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	return l.outcome(ctx, err)
}

func (l *Log) visitOnce(ctx context.Context, topic, partition string, since time.Time, f func(context.Context, *place) error) error {
	at, err := l.place(ctx, topic, partition, since)
	if err != nil {
		return err
	}
	if err := l.ready(ctx, at); err != nil {
		return err
	}
	return f(ctx, at)
}

// boundsNow asks the master for the bounds, and keeps the messages by which
// the queue is known within them. reached is how far the caller knows the queue
// to have been. A maximum of 0 that cannot be true is asked for again for a
// moment: a message that was just stored is not visible at once.
func (l *Log) boundsNow(ctx context.Context, at *place, reached int64) (low, high int64, err error) {
	until := time.Now().Add(l.opts.unknownWait)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if low, high, err = l.askBounds(ctx, at); err != nil {
			return 0, 0, err
		}
		seen := max(reached, at.state.wasSeen())
		if high > 0 || seen == 0 {
			break
		}
		if time.Until(until) < pause {
			return 0, 0, fmt.Errorf("rocketmq4: %v: the broker says that it is empty and always was, but it has been seen to reach %d: %w", at, seen, storage.ErrUnknown)
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, 0, err
		}
	}
	low = at.state.told(low, high)
	if low == high {
		return low, high, nil
	}
	return low, high, l.anchorLow(ctx, at, low)
}

func (l *Log) askBounds(ctx context.Context, at *place) (low, high int64, err error) {
	addr := at.master()
	if addr == "" {
		return 0, 0, at.down()
	}
	// The minimum first: it is not above the maximum that is asked for then.
	if low, err = l.client.MinOffset(ctx, addr, at.q()); err != nil {
		return 0, 0, l.failed(ctx, addr, err)
	}
	if high, err = l.client.MaxOffset(ctx, addr, at.q()); err != nil {
		return 0, 0, l.failed(ctx, addr, err)
	}
	return min(low, high), high, nil
}

// findLow finds the lowest message that a queue still holds. RocketMQ 4 does
// not move a queue's minimum up where retention has removed all of its messages.
func (l *Log) findLow(ctx context.Context, at *place) error {
	low, high, _ := at.state.bounds()
	first := low
	for first < high {
		c, err := l.pull(ctx, at, first, 1, 0)
		if err != nil {
			return err
		}
		if len(c.msgs) > 0 {
			first = c.msgs[0].QueueOffset
			break
		}
		if c.next == first {
			break
		}
		first = c.next
	}
	if first > low {
		at.state.remove(first)
	}
	return nil
}

// anchorLow sees to it that the lowest message of a queue is known, as the one
// by which the queue is known again whatever becomes of it.
func (l *Log) anchorLow(ctx context.Context, at *place, low int64) error {
	at.state.mu.Lock()
	lowest, ok := at.state.anchors.lowest()
	at.state.mu.Unlock()
	if ok && lowest.Low && lowest.Offset >= low {
		return nil
	}
	if ok && lowest.Offset < low { // retention has passed it: the others must fit first
		if err := l.verify(ctx, at); err != nil {
			return err
		}
	}
	m, err := l.message(ctx, at, low)
	if err != nil {
		return err
	}
	at.state.mu.Lock()
	at.state.anchors.lift(low)
	if m != nil {
		at.state.anchors.note(anchor{Offset: m.QueueOffset, Hash: hashOf(m), Low: true})
	}
	at.state.mu.Unlock()
	l.ids.touch()
	return nil
}

// ready makes sure, once after the log was opened, that a topic is the one
// that was known before, by all of its queues that can be asked.
func (l *Log) ready(ctx context.Context, at *place) error {
	if !l.ids.toCheck(at.topic) {
		return nil
	}
	t := l.meta.known(at.topic)
	if t == nil || t.id != at.topicID {
		return nil // it was found to be another one just now
	}
	return l.recheck(ctx, t)
}

// recheck makes sure that a topic is the one that is known.
func (l *Log) recheck(ctx context.Context, t *topicInfo) error {
	for i := range t.parts {
		p := &place{topic: t.name, topicID: t.id, partInfo: t.parts[i], state: l.states.of(t.name, t.id, t.parts[i].name, l.ids)}
		if p.master() == "" {
			continue // its messages are verified when they are read
		}
		_, _, err := l.boundsNow(ctx, p, 0)
		if err == nil {
			err = l.verify(ctx, p)
		}
		if err != nil && !errors.Is(err, storage.ErrUnknown) {
			return err
		}
	}
	l.ids.wasChecked(t.name)
	return nil
}

// OffsetByTime implements storage.Bounder. It looks for the first message by
// halves, so times that the broker set back and forth may hide one from it.
func (l *Log) OffsetByTime(ctx context.Context, topic, partition string, t time.Time, m storage.TimeMatch) (offset int64, err error) {
	if m != storage.Nearest && m != storage.AtOrAfter {
		return 0, fmt.Errorf("rocketmq4: time match %d, give Nearest or AtOrAfter: %w", m, storage.ErrInvalid)
	}
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		offset, err = l.offsetByTime(ctx, at, t, m)
		return err
	})
	return offset, err
}

func (l *Log) offsetByTime(ctx context.Context, at *place, t time.Time, m storage.TimeMatch) (int64, error) {
	low, high, err := l.boundsNow(ctx, at, 0)
	if err != nil {
		return 0, err
	}
	after, afterTime, err := l.firstFrom(ctx, at, low, high, t)
	if err != nil || m == storage.AtOrAfter || after >= high || after <= low {
		return after, err
	}
	_, before, err := l.timeAt(ctx, at, after-1, high)
	if err != nil || afterTime.Sub(t) < t.Sub(before) || afterTime.Equal(t) {
		return after, err
	}
	// The one before is as near: the first of its time.
	first, _, err := l.firstFrom(ctx, at, low, after, before)
	return first, err
}

// firstFrom finds the first message of a time or later, and its time; high:
// there is none.
func (l *Log) firstFrom(ctx context.Context, at *place, low, high int64, t time.Time) (offset int64, when time.Time, err error) {
	end := high
	for low < high {
		middle := low + (high-low)/2
		_, then, err := l.timeAt(ctx, at, middle, end)
		if err != nil {
			return 0, when, err
		}
		if then.Before(t) {
			low = middle + 1
		} else {
			high, when = middle, then
		}
	}
	return high, when, nil
}

// timeAt is when the first message at an offset or above was stored. There is
// one below end, but it may be too new to be visible.
func (l *Log) timeAt(ctx context.Context, at *place, offset, end int64) (int64, time.Time, error) {
	for offset < end {
		c, err := l.pull(ctx, at, offset, 1, 0)
		switch {
		case err != nil:
			return 0, time.Time{}, err
		case c.first() == offset && len(c.msgs) > 0, len(c.msgs) > 0 && at.state.isGap(offset):
			return c.msgs[0].QueueOffset, c.msgs[0].Stored(), nil
		case c.next == offset || !at.state.isGap(offset):
			return 0, time.Time{}, notVisible(at, offset)
		}
		offset = c.next
	}
	return end, time.Now(), nil
}

func notVisible(at *place, offset int64) error {
	return fmt.Errorf("rocketmq4: %v: the message at %d cannot be read now: %w", at, offset, storage.ErrUnavailable)
}

// Fingerprint implements storage.Fingerprinter. RocketMQ has no leader epochs.
func (l *Log) Fingerprint(ctx context.Context, topic, partition string, next int64) (f storage.Fingerprint, ok bool, err error) {
	err = l.visit(ctx, topic, partition, func(ctx context.Context, at *place) error {
		low, high, err := l.boundsNow(ctx, at, 0)
		if err != nil {
			return err
		}
		m, err := l.lastBelow(ctx, at, low, min(next, high))
		if err != nil || m == nil {
			return err
		}
		text, _, err := appendFrame(nil, m)
		if err != nil {
			return err
		}
		rec := record(m, text)
		f, ok = rec.Fingerprint(), true
		return nil
	})
	return f, ok, err
}

// lastBelow finds the message at the highest offset below next; nil: there is
// none.
func (l *Log) lastBelow(ctx context.Context, at *place, low, next int64) (last *remoting.Message, err error) {
	for step, until := int64(1), next; until > low; step *= 8 {
		from := max(until-step, low)
		for offset := from; offset < until; {
			c, err := l.pull(ctx, at, offset, pullMax, 0)
			if err != nil {
				return nil, err
			}
			for i := range c.msgs {
				if c.msgs[i].QueueOffset < until {
					last = &c.msgs[i]
				}
			}
			if c.next == offset || c.first() != offset && !at.state.isGap(offset) {
				return nil, notVisible(at, offset)
			}
			offset = c.next
		}
		if last != nil {
			return last, nil
		}
		until = from
	}
	return nil, nil
}

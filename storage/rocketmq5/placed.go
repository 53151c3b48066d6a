package rocketmq5

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Placed is a Log whose brokers can be reached through the remoting port: a
// storage.GroupAdmin, a storage.Bounder and a storage.Liter too.
type Placed struct{ *Log }

var (
	_ storage.Backend    = (*Placed)(nil)
	_ storage.Popper     = (*Placed)(nil)
	_ storage.Acker      = (*Placed)(nil)
	_ storage.GroupAdmin = (*Placed)(nil)
	_ storage.Bounder    = (*Placed)(nil)

	_ storage.Liter        = (*Placed)(nil)
	_ storage.Checkpointer = (*Placed)(nil)
)

// with calls f in a call, and explains its error.
func (l *Log) with(ctx context.Context, what string, f func(ctx context.Context) error) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return l.outcome(ctx, explain(what, f(inner)))
}

// Bounds implements storage.Bounder.
func (p *Placed) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	err = p.with(ctx, fmt.Sprintf("bounds of topic %q partition %q", topic, partition), func(ctx context.Context) error {
		q, err := p.queueOf(ctx, topic, partition)
		if err != nil {
			return err
		}
		low, high, err = p.port.bounds(ctx, q)
		return err
	})
	return low, high, err
}

// OffsetByTime implements storage.Bounder.
func (p *Placed) OffsetByTime(ctx context.Context, topic, partition string, t time.Time, m storage.TimeMatch) (off int64, err error) {
	err = p.with(ctx, fmt.Sprintf("offset by time in topic %q partition %q", topic, partition), func(ctx context.Context) error {
		q, err := p.queueOf(ctx, topic, partition)
		if err != nil {
			return err
		}
		low, high, err := p.port.bounds(ctx, q)
		if err != nil {
			return err
		}
		off, err = p.byTime(ctx, q, low, high, t, m)
		return err
	})
	return off, err
}

// byTime finds the offset that a time means.
func (l *Log) byTime(ctx context.Context, q queue, low, high int64, t time.Time, m storage.TimeMatch) (int64, error) {
	off, err := l.port.search(ctx, q, t)
	if err != nil {
		return 0, err
	}
	off = min(max(off, low), high)
	at, ok, err := l.timeOf(ctx, q, off, high)
	if err != nil {
		return 0, err
	}
	if ok && at.Before(t) { // after the last one some brokers give the last one
		off++
	}
	if m == storage.AtOrAfter || off <= low || off >= high {
		return min(off, high), nil
	}
	before, okBefore, err := l.timeOf(ctx, q, off-1, high)
	if err != nil {
		return 0, err
	}
	after, okAfter, err := l.timeOf(ctx, q, off, high)
	if err != nil {
		return 0, err
	}
	if okBefore && okAfter && t.Sub(before) <= after.Sub(t) {
		return l.firstOf(ctx, q, low, off-1, before)
	}
	return off, nil
}

// firstOf is the first offset of those up to off that were stored at the same
// time.
func (l *Log) firstOf(ctx context.Context, q queue, low, off int64, at time.Time) (int64, error) {
	first, err := l.port.search(ctx, q, at)
	if err != nil || first > off || first < low {
		return off, err
	}
	return first, nil
}

// timeOf is when the record at an offset was stored.
func (l *Log) timeOf(ctx context.Context, q queue, off, high int64) (at time.Time, ok bool, err error) {
	if off >= high {
		return at, false, nil
	}
	list, err := l.port.read(ctx, q, off, 1)
	if err != nil || len(list) == 0 {
		return at, false, err
	}
	return list[0].time, true, nil
}

// queueOf finds the queue that a partition's name means.
func (l *Log) queueOf(ctx context.Context, topic, partition string) (queue, error) {
	list, err := l.port.queues(ctx, topic)
	if err != nil {
		return queue{}, err
	}
	for _, q := range list {
		if q.partition() == partition {
			return q, nil
		}
	}
	return queue{}, fmt.Errorf("topic %q has no partition %q: %w", topic, partition, storage.ErrPartitionNotFound)
}

// moveIn resolves a place in a queue. From is not set.
func (l *Log) moveIn(ctx context.Context, q queue, to storage.GroupStart) (m storage.GroupMove, err error) {
	m.Partition = q.partition()
	if m.Min, m.Max, err = l.port.bounds(ctx, q); err != nil {
		return m, err
	}
	m.To = m.Max
	switch to.At {
	case storage.GroupEarliest:
		m.To = m.Min
	case storage.GroupOffsetAt:
		m.To = min(max(to.Offset, m.Min), m.Max)
	case storage.GroupTimeAt:
		m.To, err = l.byTime(ctx, q, m.Min, m.Max, to.Time, to.Match)
	}
	return m, err
}

// MoveGroup implements storage.GroupAdmin. Brokers keep the new offset of each
// queue and use it with the next pop. What was received here and not popped yet
// is acked: what of it lies ahead is handed out anew.
func (p *Placed) MoveGroup(ctx context.Context, topic, name string, to storage.GroupStart, dryRun bool) (moves []storage.GroupMove, err error) {
	err = p.with(ctx, fmt.Sprintf("move group %s of topic %q", name, topic), func(ctx context.Context) error {
		queues, err := p.port.queues(ctx, topic)
		if err != nil {
			return err
		}
		if err := p.mustHave(ctx, queues, name); err != nil {
			return err
		}
		for _, q := range queues {
			m, err := p.moveIn(ctx, q, to)
			if err != nil {
				return err
			}
			o, _, err := p.groupOffset(ctx, q, name)
			if err != nil {
				return err
			}
			m.From = o.Next
			moves = append(moves, m)
		}
		if dryRun {
			return nil
		}
		return p.moveTo(ctx, queues, name, moves)
	})
	if err != nil {
		return nil, err
	}
	return moves, nil
}

func (p *Placed) moveTo(ctx context.Context, queues []queue, name string, moves []storage.GroupMove) error {
	key := groupKey{queues[0].topic, name}
	early := p.opened(key).takeReady()
	for i, q := range queues {
		if err := p.port.place(ctx, q, name, moves[i].To); err != nil {
			return err
		}
	}
	p.opened(key).moved()
	if len(early) > 0 {
		if _, err := p.Ack(ctx, early); err != nil {
			p.opts.Logger.Warn("records popped before a group was moved could not be acked: they come again", "group", name, "records", len(early), "error", err)
		}
	}
	return nil
}

// takeReady takes what was received and not popped yet.
func (g *group) takeReady() (handles []any) {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	receivers := g.allReceivers()
	g.mu.Unlock()
	for _, r := range receivers {
		for _, m := range r.Take() {
			if rc, err := g.receive(m); err == nil {
				handles = append(handles, rc)
			}
		}
	}
	return handles
}

// moved forgets what was handed out before.
func (g *group) moved() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.held)
	clear(g.high)
}

// mustHave fails where a broker has no such group.
func (p *Placed) mustHave(ctx context.Context, queues []queue, name string) error {
	for _, broker := range brokersOf(queues) {
		_, ok, err := p.port.findGroup(ctx, broker, name)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("broker %s has no group %s: %w", broker, name, storage.ErrGroupNotFound)
		}
	}
	return nil
}

// GroupOffsets implements storage.GroupAdmin. Brokers note how far they have
// handed out; what is held by this process and not acked is taken off that.
func (p *Placed) GroupOffsets(ctx context.Context, topic, name string) (list []storage.GroupOffset, err error) {
	err = p.with(ctx, fmt.Sprintf("offsets of group %s in topic %q", name, topic), func(ctx context.Context) error {
		queues, err := p.port.queues(ctx, topic)
		if err != nil {
			return err
		}
		known := false
		for _, q := range queues {
			o, ok, err := p.groupOffset(ctx, q, name)
			if err != nil {
				return err
			}
			known = known || ok
			list = append(list, o)
		}
		if !known { // it was not placed, or is not there
			return p.mustHave(ctx, queues, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// groupOffset is how far a group is in a queue; ok is false where the broker has
// no offset of it.
func (p *Placed) groupOffset(ctx context.Context, q queue, name string) (o storage.GroupOffset, ok bool, err error) {
	o.Partition = q.partition()
	if o.Min, o.Max, err = p.port.bounds(ctx, q); err != nil {
		return o, false, err
	}
	next, ok, err := p.port.offset(ctx, q, name)
	if err != nil {
		return o, false, err
	}
	if !ok {
		next = o.Min
	}
	o.Next, o.Acked = max(next, o.Min), max(next, o.Min)
	if g := p.opened(groupKey{q.topic, name}); g != nil {
		low, held, high := g.lowest(o.Partition)
		o.Next = min(max(o.Next, high), o.Max)
		if held {
			o.Acked = max(min(o.Acked, low), o.Min)
		}
	}
	return o, ok, nil
}

// DeleteGroup implements storage.GroupAdmin: at every broker of the topic, with
// its offsets and what waits there to be handed out again.
func (p *Placed) DeleteGroup(ctx context.Context, topic, name string) error {
	return p.with(ctx, fmt.Sprintf("delete group %s of topic %q", name, topic), func(ctx context.Context) error {
		p.forgetGroup(groupKey{topic, name})
		p.endPlacing(groupKey{topic, name})
		queues, err := p.port.queues(ctx, topic)
		if err != nil {
			return err
		}
		for _, broker := range brokersOf(queues) {
			if err := p.port.removeGroup(ctx, broker, topic, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// splitPartition reads a partition's name: broker and queue.
func splitPartition(name string) (broker string, id int, ok bool) {
	i := strings.LastIndexByte(name, ':')
	if i < 1 {
		return "", 0, false
	}
	id, err := strconv.Atoi(name[i+1:])
	return name[:i], id, err == nil && id >= 0
}

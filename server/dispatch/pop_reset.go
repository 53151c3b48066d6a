package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// resetPop moves a subscriber's group at the broker, and begins a new epoch
// here. What was popped before is acked at the broker once all is durable: what
// of it lies ahead of the new place is handed out anew. The caller holds the
// subscriber's lock.
func (d *Dispatcher) resetPop(ctx context.Context, t *topic, sub *subscriber, req ResetRequest) ([]Moved, error) {
	if d.pop.admin == nil {
		return nil, fmt.Errorf("backend %s cannot move a group, so a position cannot be reset there: %w", d.backend.Name(), storage.ErrUnsupported)
	}
	if req.Partition != "" {
		return nil, fmt.Errorf("backend %s moves a group in all partitions at once: leave partition empty: %w", d.backend.Name(), storage.ErrInvalid)
	}
	to := groupStart(req.To)
	if to.At == storage.GroupDefault {
		to.At = storage.GroupLatest
	}
	group := GroupName(t.name, sub.key)
	if req.DryRun {
		moves, err := d.pop.admin.MoveGroup(ctx, t.name, group, to, true)
		return movedOf(moves, req.To, 0), err
	}
	t.mu.Lock()
	l := t.feeds[sub.key]
	t.mu.Unlock()
	if l != nil {
		f := &freeze{waiting: make(chan struct{})}
		err := l.pop.holdStill(ctx, f)
		defer l.thaw(sub.key)
		if err != nil && !errors.Is(err, errLoopEnded) {
			return nil, err
		}
	}
	// From here on there is no way back, as with applyReset: with the group moved
	// and the epoch not raised, what is to come again would be taken for finished.
	ctx = context.WithoutCancel(ctx)
	moves, err := d.pop.admin.MoveGroup(ctx, t.name, group, to, false)
	if err != nil {
		return nil, err
	}
	epoch, err := d.commitPopReset(ctx, t, sub)
	if err != nil {
		return nil, err
	}
	if l != nil {
		err = l.pop.follow(ctx, epoch, moves)
	}
	return movedOf(moves, req.To, epoch), err
}

// movedOf tells what a reset did in each partition.
func movedOf(moves []storage.GroupMove, to Place, epoch uint64) []Moved {
	var out []Moved
	for _, m := range moves {
		x := Moved{Partition: m.Partition, From: m.From, To: m.To, Epoch: epoch, Min: m.Min, Max: m.Max}
		if to.At == AtOffset && m.To != to.Offset {
			x.Warning = fmt.Sprintf("offset %d is outside what the log holds (%d to %d): corrected to %d", to.Offset, m.Min, m.Max, m.To)
		}
		out = append(out, x)
	}
	return out
}

// holdStill freezes the feed and waits until neither a commit nor a pop is
// under way.
func (f *feed) holdStill(ctx context.Context, fr *freeze) error {
	l := f.l
	quiet := make(chan struct{})
	err := l.call(ctx, func() {
		l.hold(f.sub, fr)
		f.awaitIdle(func() { close(quiet) })
	})
	if err != nil {
		return err
	}
	for _, ch := range []chan struct{}{fr.waiting, quiet} {
		select {
		case <-ch:
		case <-l.done:
			return errLoopEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// commitPopReset makes the new epoch durable and forgets every message: first
// that, since what is known of messages must not outlive the old epoch.
func (d *Dispatcher) commitPopReset(ctx context.Context, t *topic, sub *subscriber) (epoch uint64, err error) {
	key := offsetstore.Key{Topic: t.name, Subscriber: sub.key, Partition: popPartition}
	v, ok, err := d.store.Get(key)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("subscriber %s topic %q: %w", sub.key, t.name, offsetstore.ErrNotFound)
	}
	base := max(v.High, v.Position)
	txn := &offsetstore.Txn{Puts: []offsetstore.Put{{Key: key, Value: offsetstore.Value{
		Epoch: v.Epoch + 1, Position: base, High: base, Log: v.Log, Absent: v.Absent,
	}}}}
	if err := d.unsetEntries(ctx, t.name, sub.key); err != nil {
		return 0, err
	}
	return v.Epoch + 1, offsetstore.Commit(ctx, d.store, txn)
}

// follow puts the live part into the new epoch and waits until no frame of the
// old one is being written.
func (f *feed) follow(ctx context.Context, epoch uint64, moves []storage.GroupMove) error {
	var streams []*Stream
	err := f.l.call(ctx, func() {
		p := f.l.parts[f.sub]
		if p == nil || p.m.Epoch() >= epoch {
			return
		}
		for _, q := range f.startOver(p, epoch, p.log.TopicID) {
			q.silent = true
			f.toAck(q)
		}
		for _, a := range p.atts {
			pos := make([]position, 0, len(moves))
			for _, m := range moves {
				pos = append(pos, position{topic: f.l.t.name, subscriber: f.sub.String(), partition: m.Partition, next: m.To, epoch: epoch})
			}
			a.b.s.notice(NoticeReset, fmt.Sprintf("the position was reset in %d partitions", len(moves)), a.b.id, pos...)
			streams = append(streams, a.b.s)
		}
	})
	if err != nil && !errors.Is(err, errLoopEnded) {
		return err
	}
	for _, s := range streams {
		s.flushed(ctx, resetFlush)
	}
	return nil
}

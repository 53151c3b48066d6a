package fakepop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// ErrRefused is a status other than OK for one entry of a call.
var ErrRefused = errors.New("the broker refused it")

// groupOf finds a group. br.mu is held.
func (br *Broker) groupOf(topic, name string) (*group, error) {
	g := br.groups[groupKey{topic, name}]
	if g == nil {
		return nil, fmt.Errorf("fakepop: group %q of topic %q: %w", name, topic, storage.ErrGroupNotFound)
	}
	return g, nil
}

func (br *Broker) hasGroup(spec storage.GroupSpec) bool {
	br.mu.Lock()
	defer br.mu.Unlock()
	return br.groups[groupKey{spec.Topic, spec.Group}] != nil
}

// locked calls f under the broker's lock unless b is closed or the broker
// stopped.
func (b *Backend) locked(f func(br *Broker) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	b.br.mu.Lock()
	defer b.br.mu.Unlock()
	if err := cmpErr(b.reachable(), b.br.unavailable()); err != nil {
		return err
	}
	return f(b.br)
}

// reachable is nil until the client is cut off.
func (b *Backend) reachable() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return fmt.Errorf("fakepop: the client is cut off: %w", storage.ErrUnavailable)
	}
	return nil
}

// OpenGroup finds or makes a group.
func (b *Backend) OpenGroup(ctx context.Context, spec storage.GroupSpec) (out storage.Group, err error) {
	err = b.locked(func(br *Broker) error {
		br.count(groupKey{spec.Topic, spec.Group}).Opens++
		g := br.groups[groupKey{spec.Topic, spec.Group}]
		if g == nil {
			out.Created = true
			_, err := br.open(ctx, spec)
			return err
		}
		if g.ordered != spec.Ordered {
			return fmt.Errorf("fakepop: group %q is ordered: %v, not %v: %w", spec.Group, g.ordered, spec.Ordered, storage.ErrGroupKind)
		}
		return nil
	})
	if err != nil {
		return storage.Group{}, err
	}
	return out, nil
}

// Pop hands out records.
func (b *Backend) Pop(ctx context.Context, req storage.PopRequest, batch *storage.Batch) error {
	batch.Reset()
	if req.Max < 1 || req.Invisible < MinInvisible || req.Invisible > MaxInvisible {
		return fmt.Errorf("fakepop: pop of %d records for %v: at least 1, and %v to %v, are allowed: %w", req.Max, req.Invisible, MinInvisible, MaxInvisible, storage.ErrInvalid)
	}
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	end := time.NewTimer(req.Wait)
	defer end.Stop()
	for {
		wake, next, err := b.tryPop(ctx, req, batch)
		if err != nil {
			batch.Reset()
			return err
		}
		if len(batch.Records) > 0 || req.Wait <= 0 {
			return nil
		}
		if timeUp, err := b.await(ctx, wake, next, end.C); timeUp || err != nil {
			return err
		}
	}
}

// await waits until something may be visible.
func (b *Backend) await(ctx context.Context, wake <-chan struct{}, next time.Duration, end <-chan time.Time) (timeUp bool, err error) {
	again := time.NewTimer(next)
	defer again.Stop()
	select {
	case <-wake:
	case <-again.C:
	case <-end:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-b.done:
		return false, fmt.Errorf("fakepop: %w", storage.ErrClosed)
	}
	return false, nil
}

// tryPop looks once. wake is closed when there may be more, next is when
// something becomes visible.
func (b *Backend) tryPop(ctx context.Context, req storage.PopRequest, batch *storage.Batch) (wake <-chan struct{}, next time.Duration, err error) {
	br := b.br
	br.mu.Lock()
	defer br.mu.Unlock()
	if err := cmpErr(ctx.Err(), b.reachable(), br.unavailable()); err != nil {
		return nil, 0, err
	}
	g, err := br.groupOf(req.Topic, req.Group)
	if err != nil {
		return nil, 0, err
	}
	now := br.opts.Clock()
	if err := br.take(ctx, g, req, now, batch); err != nil {
		return nil, 0, err
	}
	next = time.Hour
	for _, f := range g.flights {
		if f.receipt != "" {
			next = min(next, max(f.until.Sub(now), time.Millisecond))
		}
	}
	return br.wake, next, nil
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// good finds the flight that a handle is the receipt of, if it still is. mu is
// held.
func (br *Broker) good(handle any, now time.Time) (f *flight, good bool) {
	text, ok := handle.(string)
	if !ok {
		return nil, false
	}
	f = br.receipts[text].f
	return f, f != nil && !f.done && f.receipt == text && f.until.After(now)
}

// Renew gives new receipts.
func (b *Backend) Renew(_ context.Context, handles []any, invisible time.Duration) (out []storage.Renewed, err error) {
	err = b.locked(func(br *Broker) error {
		if br.renewErr != nil {
			return br.renewErr
		}
		now := br.opts.Clock()
		for _, h := range handles {
			if br.renewals > 0 {
				br.renewals--
				out = append(out, storage.Renewed{Handle: h})
				continue
			}
			f, good := br.good(h, now)
			if !good {
				out = append(out, storage.Renewed{})
				continue
			}
			f.until = now.Add(invisible)
			br.give(f, now, invisible)
			br.count(f.g.key).Renewed++
			out = append(out, storage.Renewed{Handle: f.receipt, OK: true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Release makes records visible again at once.
func (b *Backend) Release(_ context.Context, handles []any) error {
	return b.locked(func(br *Broker) error {
		now := br.opts.Clock()
		for _, h := range handles {
			if f, good := br.good(h, now); good {
				br.count(f.g.key).Released++
				br.comeAgain(f.g, f)
			}
		}
		br.wakeAll()
		return nil
	})
}

// Ack finishes records. A receipt that was replaced is answered with true and
// has no effect, as a real broker does it.
func (b *Backend) Ack(ctx context.Context, handles []any) (known []bool, err error) {
	if err := b.awaitAcks(ctx); err != nil {
		return nil, err
	}
	known = make([]bool, len(handles))
	err = b.locked(func(br *Broker) error {
		if br.ackErr != nil {
			return br.ackErr
		}
		var refused error
		for i, h := range handles {
			ok, err := br.ackOne(h)
			known[i] = ok
			refused = cmpErr(refused, err)
		}
		br.wakeAll()
		return refused
	})
	return known, err
}

func (br *Broker) ackOne(h any) (known bool, err error) {
	f, good := br.good(h, br.opts.Clock())
	if f == nil {
		return false, nil
	}
	c := br.count(f.g.key)
	c.AckCalls[f.id]++
	switch {
	case br.refuse > 0:
		br.refuse--
		c.Refused++
		return false, fmt.Errorf("fakepop: ack of %s: %w", f.id, ErrRefused)
	case !good:
		c.Stale++
		// Replaced by a renewal: answered with OK. Handed out again: not known.
		return !f.done && f.receipt != "" && f.receipt != h && br.receipts[h.(string)].count == f.count, nil
	}
	c.Acks[f.id]++
	f.g.ack(f)
	return true, nil
}

// awaitAcks waits while acks are held.
func (b *Backend) awaitAcks(ctx context.Context) error {
	b.br.mu.Lock()
	held := b.br.holdAcks
	b.br.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.done:
		return fmt.Errorf("fakepop: %w", storage.ErrClosed)
	}
}

// MoveGroup sets where a group goes on. What it has popped is forgotten, what
// it has not acked of that comes again only if it lies ahead.
func (b *Backend) MoveGroup(ctx context.Context, topic, name string, to storage.GroupStart, dryRun bool) (out []storage.GroupMove, err error) {
	err = b.locked(func(br *Broker) error {
		g, err := br.groupOf(topic, name)
		if err != nil {
			return err
		}
		t, err := br.log.Topic(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range t.Partitions {
			m, err := place(ctx, br.log, topic, p, to)
			if err != nil {
				return err
			}
			m.From = max(g.next[p], m.Min)
			out = append(out, m)
		}
		if dryRun {
			return nil
		}
		br.count(g.key).Moves++
		for _, m := range out {
			g.next[m.Partition] = m.To
		}
		br.wakeAll()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// GroupOffsets tells how far a group is.
func (b *Backend) GroupOffsets(ctx context.Context, topic, name string) (out []storage.GroupOffset, err error) {
	err = b.locked(func(br *Broker) error {
		g, err := br.groupOf(topic, name)
		if err != nil {
			return err
		}
		t, err := br.log.Topic(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range t.Partitions {
			low, high, err := br.log.Bounds(ctx, topic, p)
			if err != nil {
				return err
			}
			o := storage.GroupOffset{Partition: p, Next: max(g.next[p], low), Acked: max(g.next[p], low), Min: low, Max: high}
			for _, f := range g.flights {
				if f.home == p && !f.acked {
					o.Acked = min(o.Acked, f.homeAt)
				}
			}
			out = append(out, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// DeleteGroup removes a group.
func (b *Backend) DeleteGroup(_ context.Context, topic, name string) error {
	return b.locked(func(br *Broker) error {
		delete(br.groups, groupKey{topic, name})
		return nil
	})
}

// Place sets where a group goes on in one partition, as a broker's operator
// does.
func (br *Broker) Place(topic, name, partition string, next int64) error {
	br.mu.Lock()
	defer br.mu.Unlock()
	g, err := br.groupOf(topic, name)
	if err != nil {
		return err
	}
	g.next[partition] = next
	br.wakeAll()
	return nil
}

// Kind tells whether a group is there, and whether it is ordered.
func (br *Broker) Kind(topic, name string) (ordered, ok bool) {
	br.mu.Lock()
	defer br.mu.Unlock()
	g, err := br.groupOf(topic, name)
	if err != nil {
		return false, false
	}
	return g.ordered, true
}

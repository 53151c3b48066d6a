package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// settleLeft ends what is still under way in the partitions for a subscriber that
// has no stream any more. The subscriber is locked.
func (d *Dispatcher) settleLeft(ctx context.Context, topic string, key offsetstore.Subscriber) error {
	d.mu.Lock()
	t := d.topics[topic]
	d.mu.Unlock()
	if t == nil {
		return nil
	}
	for _, l := range t.allLoops() {
		if err := l.settleLeft(ctx, key); err != nil && !errors.Is(err, errLoopEnded) {
			return err
		}
	}
	return nil
}

func (l *loop) settleLeft(ctx context.Context, key offsetstore.Subscriber) error {
	if l.pop != nil {
		return l.pop.awaitEnd(ctx, key)
	}
	f := &freeze{waiting: make(chan struct{})}
	defer l.thaw(key)
	if err := l.call(ctx, func() { l.hold(key, f) }); err != nil {
		return err
	}
	select {
	case <-f.waiting:
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.call(ctx, func() {
		if p := l.parts[key]; p != nil && len(p.atts) == 0 {
			delete(l.parts, key)
			l.leaveTurn(p, time.Now())
		}
	})
}

// awaitEnd waits for the end of the subscriber's feed, which no stream has any
// more.
func (f *feed) awaitEnd(ctx context.Context, key offsetstore.Subscriber) error {
	if f.sub != key {
		return nil
	}
	select {
	case <-f.l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// Bounds of what a subscriber's position is in: a partition or a lite topic.
// Errors: those of storage.Bounder; storage.ErrUnknown where the log cannot tell.
func (d *Dispatcher) Bounds(ctx context.Context, key offsetstore.Key) (low, high int64, err error) {
	lite, err := d.readsLites(key.Topic, key.Subscriber)
	switch {
	case err != nil:
		return 0, 0, err
	case lite:
		return d.lites.LiteBounds(ctx, key.Topic, key.Partition)
	}
	return d.bounds(ctx, key.Topic, key.Partition)
}

// PopsFor tells whether the log hands records out, instead of being read by
// position, to a subscriber of a topic.
func (d *Dispatcher) PopsFor(topic string, sub offsetstore.Subscriber) (bool, error) {
	if d.pop == nil {
		return false, nil
	}
	lite, err := d.readsLites(topic, sub)
	return !lite, err
}

// resetLoops are the loops of what a reset moves; done must be called.
func (d *Dispatcher) resetLoops(ctx context.Context, t *topic, sub offsetstore.Subscriber, req ResetRequest) (loops []*loop, done func(), err error) {
	if !t.lite {
		loops, err = t.loopsFor(req.Partition)
		return loops, func() {}, err
	}
	done = func() {
		for _, l := range loops {
			t.leaveLite(l)
		}
	}
	if req.To.At == AtTime {
		return nil, done, fmt.Errorf("a lite topic is not searched by time, give EARLIEST, LATEST or an offset: %w", storage.ErrUnsupported)
	}
	names, err := d.litesOf(t.name, sub)
	if err != nil {
		return nil, done, err
	}
	if req.Partition != "" {
		if !slices.Contains(names, req.Partition) {
			return nil, done, fmt.Errorf("subscriber %s has no progress in lite topic %q of %q: %w", sub, req.Partition, t.name, offsetstore.ErrNotFound)
		}
		names = []string{req.Partition}
	}
	for _, name := range names {
		l, err := t.liteLoop(ctx, name)
		if err != nil {
			return nil, done, err
		}
		loops = append(loops, l)
	}
	return loops, done, nil
}

// litesOf lists the lite topics in which a subscriber has progress.
func (d *Dispatcher) litesOf(parent string, sub offsetstore.Subscriber) (names []string, err error) {
	err = d.store.Scan(parent, func(k offsetstore.Key, _ offsetstore.Value) bool {
		if k.Subscriber == sub {
			names = append(names, k.Partition)
		}
		return true
	})
	return names, err
}

// expireLites removes what a subscriber has in lite topics that it left longer
// ago than Expiry, while it reads others: they are many, and few live long.
// Those that a crash has left without a date get one.
func (d *Dispatcher) expireLites(ctx context.Context, info SubscriberInfo, now time.Time, ahead time.Duration) error {
	if err := d.locks.lock(ctx, info.Topic, info.Subscriber); err != nil {
		return err
	}
	defer d.locks.unlock(info.Topic, info.Subscriber)
	txn := &offsetstore.Txn{}
	err := d.store.Scan(info.Topic, func(k offsetstore.Key, v offsetstore.Value) bool {
		switch {
		case k.Subscriber != info.Subscriber || d.served(k):
		case v.Absent == 0:
			v.Absent = now.UnixMilli()
			txn.Puts = append(txn.Puts, offsetstore.Put{Key: k, Value: v})
		case now.Sub(time.UnixMilli(v.Absent))-ahead > d.cfg.Expiry:
			txn.Deletes = append(txn.Deletes, k)
		}
		return true
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(txn.Puts, litesAtOnce) {
		if err := offsetstore.Commit(ctx, d.store, &offsetstore.Txn{Puts: part}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(txn.Deletes, litesAtOnce) {
		if err := offsetstore.Commit(ctx, d.store, &offsetstore.Txn{Deletes: part}); err != nil {
			return err
		}
	}
	return d.forgetLites(txn.Deletes)
}

// served tells whether a partition or lite topic has a loop.
func (d *Dispatcher) served(k offsetstore.Key) bool {
	d.mu.Lock()
	t := d.topics[k.Topic]
	d.mu.Unlock()
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[k.Partition] != nil
}

// forgetLites drops the pull offsets of lite topics in which nobody has progress
// any more. All keys are of one parent, and removed.
func (d *Dispatcher) forgetLites(removed []offsetstore.Key) error {
	if len(removed) == 0 || d.lites == nil {
		return nil
	}
	kept := map[string]bool{}
	err := d.store.Scan(removed[0].Topic, func(k offsetstore.Key, _ offsetstore.Value) bool {
		kept[k.Partition] = true
		return true
	})
	if err != nil {
		return err
	}
	for _, k := range removed {
		if !kept[k.Partition] {
			d.lites.ForgetLite(k.Topic, k.Partition)
		}
	}
	return nil
}

// deleteFromLites removes a subscriber of lite topics, of which there may be more
// than one transaction takes: the subscriber itself goes last.
func (d *Dispatcher) deleteFromLites(ctx context.Context, txn *offsetstore.Txn) error {
	for part := range slices.Chunk(txn.Deletes, litesAtOnce) {
		if err := offsetstore.Commit(ctx, d.store, &offsetstore.Txn{Deletes: part}); err != nil {
			return err
		}
	}
	if err := offsetstore.Commit(ctx, d.store, &offsetstore.Txn{Unsets: txn.Unsets}); err != nil {
		return err
	}
	return d.forgetLites(txn.Deletes)
}

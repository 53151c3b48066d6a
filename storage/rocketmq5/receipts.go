package rocketmq5

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

const (
	// ackBatch is how many receipts one call acks; ackCalls and changeCalls are
	// how many calls of one Ack, one Renew are under way at once.
	ackBatch    = 32
	ackCalls    = 4
	changeCalls = 32
	// changeTries is how often a change of the invisible time is tried.
	changeTries = 4
)

// receipt is a popped message; it is what storage.Record.Handle holds.
type receipt struct {
	group  *group
	id     string
	text   string
	broker string
	queue  int
	offset int64
	retry  bool
	spent  atomic.Bool // acked, released or replaced: it has no effect any more
}

func (r *receipt) entry() session.Entry { return session.Entry{MessageID: r.id, Receipt: r.text} }

// ours are the receipts among handles that are still good, with their places.
func ours(handles []any) (list []*receipt, at []int) {
	for i, h := range handles {
		if r, ok := h.(*receipt); ok && r != nil && !r.spent.Load() {
			list, at = append(list, r), append(at, i)
		}
	}
	return list, at
}

// Ack implements storage.Acker. A receipt that was acked, released or renewed
// before is known no more, and is not sent: a proxy would answer OK and do
// nothing. One that has run out is not known either.
func (l *Log) Ack(ctx context.Context, handles []any) (known []bool, err error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	known = make([]bool, len(handles))
	list, at := ours(handles)
	var mu sync.Mutex
	var failed error
	eachPart(byGroup(list, at), ackCalls, func(p part) {
		ok, err := l.ackPart(inner, p.receipts)
		mu.Lock()
		defer mu.Unlock()
		for i, k := range ok {
			known[p.at[i]] = k
		}
		if failed == nil {
			failed = err
		}
	})
	return known, l.outcome(ctx, explain("ack", failed))
}

// part is what goes in one call: receipts of one group, with their places.
type part struct {
	receipts []*receipt
	at       []int
}

// byGroup cuts receipts into parts.
func byGroup(list []*receipt, at []int) (parts []part) {
	open := map[*group]int{} // the part that is not full
	for i, r := range list {
		n, ok := open[r.group]
		if !ok || len(parts[n].receipts) == ackBatch {
			n = len(parts)
			open[r.group], parts = n, append(parts, part{})
		}
		parts[n].receipts, parts[n].at = append(parts[n].receipts, r), append(parts[n].at, at[i])
	}
	return parts
}

// eachPart calls f for each, some at once, and waits.
func eachPart[P any](parts []P, most int, f func(P)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, most)
	for _, p := range parts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(p)
		})
	}
	wg.Wait()
}

// ackPart makes one call. What may be tried again is an error.
func (l *Log) ackPart(ctx context.Context, list []*receipt) (known []bool, err error) {
	entries := make([]session.Entry, len(list))
	for i, r := range list {
		entries[i] = r.entry()
	}
	key := list[0].group.key
	answers, err := l.sess.Ack(ctx, key.topic, key.group, entries)
	if err != nil {
		return nil, err
	}
	known = make([]bool, len(list))
	for i, answer := range answers {
		switch r := list[i]; {
		case answer == nil:
			known[i] = !r.spent.Swap(true) // of two acks at once one counts
			r.group.done(r.id)
		case session.IsGone(answer):
			r.spent.Store(true)
		default:
			err = answer
		}
	}
	return known, err
}

// Renew implements storage.Popper. Each receipt needs a call of its own; some are
// under way at once, and one that fails in passing is tried again.
func (l *Log) Renew(ctx context.Context, handles []any, invisible time.Duration) ([]storage.Renewed, error) {
	if invisible < MinInvisible || invisible > MaxInvisible {
		return nil, fmt.Errorf("rocketmq5: renewal for %v: %v to %v are allowed: %w", invisible, MinInvisible, MaxInvisible, storage.ErrInvalid)
	}
	out := make([]storage.Renewed, len(handles))
	list, at := ours(handles)
	if len(list) == 0 {
		return out, nil
	}
	anew, failed, err := l.change(ctx, list, invisible)
	if err != nil && !slices.ContainsFunc(anew, func(r *receipt) bool { return r != nil }) {
		return nil, err
	}
	// Where some were renewed their new receipts must not be lost.
	for i, r := range anew {
		switch {
		case r != nil:
			out[at[i]] = storage.Renewed{Handle: r, OK: true}
			r.group.hold(r, invisible)
		case failed[i]:
			out[at[i]].Handle = handles[at[i]]
		}
	}
	return out, nil
}

// Release implements storage.Popper: messages are visible again after a second
// or a few, as soon as the broker looks.
func (l *Log) Release(ctx context.Context, handles []any) error {
	list, _ := ours(handles)
	if len(list) == 0 {
		return nil
	}
	_, _, err := l.change(ctx, list, session.Nack)
	for _, r := range list {
		r.group.done(r.id)
	}
	return err
}

// change changes the invisible time of each, and returns the receipts that
// replace the old ones; nil: none does. The error is one of those that failed and
// may be tried again.
func (l *Log) change(ctx context.Context, list []*receipt, d time.Duration) (anew []*receipt, failed []bool, err error) {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	anew, failed = make([]*receipt, len(list)), make([]bool, len(list))
	var mu sync.Mutex
	var why error
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	eachPart(places, changeCalls, func(i int) {
		r, err := changeOne(inner, list[i], d)
		mu.Lock()
		defer mu.Unlock()
		anew[i], failed[i] = r, err != nil
		if why == nil {
			why = err
		}
	})
	return anew, failed, l.outcome(ctx, explain("change of the invisible time", why))
}

func changeOne(ctx context.Context, r *receipt, d time.Duration) (*receipt, error) {
	c, err := r.group.client()
	if err != nil {
		return nil, err
	}
	var text string
	tries := 0
	err = session.Retry(ctx, func(err error, _ time.Duration) bool {
		tries++
		return tries < changeTries && session.IsTransient(err) && !session.IsGone(err)
	}, func(ctx context.Context) (err error) {
		text, err = c.ChangeInvisible(ctx, r.entry(), d)
		return err
	})
	switch {
	case session.IsGone(err):
		r.spent.Store(true)
		return nil, nil
	case err != nil:
		return nil, err
	}
	if r.spent.Swap(true) {
		return nil, nil // acked meanwhile
	}
	next := &receipt{group: r.group, id: r.id, text: text, broker: r.broker, queue: r.queue, offset: r.offset, retry: r.retry}
	if text == "" { // an old proxy: the receipt stays good
		next.text = r.text
	}
	return next, nil
}

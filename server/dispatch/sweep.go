package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/internal/wallclock"
	"github.com/ackmesh/ackmesh/offsetstore"
)

const (
	// stallLooks is how many looks fall into one stall timeout.
	stallLooks = 10
	// expiryEvery is how often absent subscribers are looked for, at least.
	expiryEvery = time.Hour
	// datesAtOnce is how many values a transaction dates: a store takes no more of
	// large ones.
	datesAtOnce = 16
)

// sweep looks from time to time for streams that stall and for subscribers that
// have been absent too long.
func (d *Dispatcher) sweep() {
	defer d.wg.Done()
	every := max(d.cfg.StallTimeout/stallLooks, 10*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	begun := time.Now()
	expiry := newExpiry(d.cfg.Expiry, begun)
	for {
		select {
		case <-d.stopCtx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, s := range d.allStreams() {
			if s.stalled(now, d.cfg.StallTimeout) {
				d.Metrics.Stalled.Add(1)
				d.warn("stream evicted: it holds deliveries and neither reads nor answers", "client", s.cfg.ClientID, "address", s.cfg.Address, "for", d.cfg.StallTimeout)
				s.evict(fmt.Sprintf("deliveries were neither read nor answered for %v", d.cfg.StallTimeout))
			}
		}
		if due, ahead := expiry.look(now, now.Sub(begun)); due {
			if err := d.expire(d.stopCtx, now, ahead); err != nil && !errors.Is(err, context.Canceled) {
				d.warn("absent subscribers could not be removed", "error", err)
			}
		}
	}
}

// expiry tells when to look for subscribers that have been absent too long: every
// so often, and as soon as the clock was set ahead, since an instance that ends
// does not hand on by how much.
type expiry struct {
	limit, every, next time.Duration
	steps              wallclock.Steps
	ahead              time.Duration
}

func newExpiry(limit time.Duration, now time.Time) *expiry {
	x := &expiry{limit: limit, every: min(expiryEvery, max(limit/10, time.Second))}
	x.next = x.every
	x.steps.Look(now, 0)
	return x
}

// look notes what both clocks say now and tells whether to look, and by how much
// the clock was set ahead.
func (x *expiry) look(now time.Time, since time.Duration) (due bool, ahead time.Duration) {
	x.steps.Look(now, since)
	was := x.ahead
	x.ahead = x.steps.Ahead(x.limit)
	if since < x.next && x.ahead <= was {
		return false, x.ahead
	}
	x.next = since + x.every
	return true, x.ahead
}

// stalled tells whether the client has neither read nor answered for too long.
func (s *Stream) stalled(now time.Time, limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inHand && now.Sub(s.handSince) > limit && now.Sub(s.lastAnswer) > limit
}

// expire removes subscribers without streams whose last stream ended longer ago
// than Expiry. Those that a crash has left without a date get one now. By as much
// as the clock was set ahead meanwhile an absence may be shorter than it looks:
// then its date is set ahead too.
func (d *Dispatcher) expire(ctx context.Context, now time.Time, ahead time.Duration) error {
	list, err := d.Subscribers("")
	if err != nil {
		return err
	}
	var first error
	more := 0
	for _, info := range list {
		err = nil
		age := now.Sub(time.UnixMilli(info.Absent))
		switch {
		case info.Streams > 0 && info.Settings.Lite:
			err = d.expireLites(ctx, info, now, ahead)
		case info.Streams > 0:
		case info.Absent == 0:
			err = d.dateAbsence(ctx, info, func(absent int64) int64 { return cmp.Or(absent, now.UnixMilli()) })
		case age <= d.cfg.Expiry:
		case age-ahead <= d.cfg.Expiry:
			err = d.dateAbsence(ctx, info, func(absent int64) int64 { return min(absent+ahead.Milliseconds(), now.UnixMilli()) })
		default:
			err = d.removeAbsent(ctx, info)
		}
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, offsetstore.ErrNotFound) {
			if first == nil {
				first = err
			} else {
				more++
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if more > 0 {
		return fmt.Errorf("%w (and %d more)", first, more)
	}
	return first
}

// whileAbsent calls fn unless the subscriber has a stream. Nobody comes meanwhile.
func (d *Dispatcher) whileAbsent(ctx context.Context, info SubscriberInfo, fn func() error) error {
	if err := d.locks.lock(ctx, info.Topic, info.Subscriber); err != nil {
		return err
	}
	defer d.locks.unlock(info.Topic, info.Subscriber)
	if d.streamsOf(info.Topic, info.Subscriber) > 0 {
		return nil
	}
	return fn()
}

// removeAbsent removes a subscriber that is absent as long as it was when it was
// listed: it may have been here meanwhile.
func (d *Dispatcher) removeAbsent(ctx context.Context, info SubscriberInfo) error {
	return d.whileAbsent(ctx, info, func() error {
		if err := d.settleLeft(ctx, info.Topic, info.Subscriber); err != nil {
			return err
		}
		same := true
		err := d.store.Scan(info.Topic, func(k offsetstore.Key, v offsetstore.Value) bool {
			if k.Subscriber == info.Subscriber {
				same = same && v.Absent != 0 && v.Absent <= info.Absent
			}
			return same
		})
		if err != nil || !same {
			return err
		}
		if err := d.deleteLocked(ctx, info.Topic, info.Subscriber); err != nil {
			return err
		}
		d.Metrics.ExpiredSubscribers.Add(1)
		d.cfg.Logger.Info("subscriber removed: it was absent too long", "topic", info.Topic, "subscriber", info.Subscriber.String(), "since", time.UnixMilli(info.Absent))
		return nil
	})
}

// dateAbsence notes since when a subscriber is absent. A subscriber that comes back
// clears it.
func (d *Dispatcher) dateAbsence(ctx context.Context, info SubscriberInfo, date func(absent int64) int64) error {
	return d.whileAbsent(ctx, info, func() error {
		txn := &offsetstore.Txn{}
		err := d.store.Scan(info.Topic, func(k offsetstore.Key, v offsetstore.Value) bool {
			if at := date(v.Absent); k.Subscriber == info.Subscriber && v.Absent != at {
				v.Absent = at
				txn.Puts = append(txn.Puts, offsetstore.Put{Key: k, Value: v})
			}
			return true
		})
		if err != nil {
			return err
		}
		for puts := range slices.Chunk(txn.Puts, datesAtOnce) {
			if err := offsetstore.Commit(ctx, d.store, &offsetstore.Txn{Puts: puts}); err != nil {
				return err
			}
		}
		return nil
	})
}

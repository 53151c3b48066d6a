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
	expiry := min(expiryEvery, max(d.cfg.Expiry/10, time.Second))
	begun := time.Now()
	next := begun.Add(expiry)
	var steps wallclock.Steps
	for {
		select {
		case <-d.stopCtx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		steps.Look(now, now.Sub(begun))
		for _, s := range d.allStreams() {
			if s.stalled(now, d.cfg.StallTimeout) {
				d.Metrics.Stalled.Add(1)
				d.warn("stream evicted: it holds deliveries and neither reads nor answers", "client", s.cfg.ClientID, "address", s.cfg.Address, "for", d.cfg.StallTimeout)
				s.evict(fmt.Sprintf("deliveries were neither read nor answered for %v", d.cfg.StallTimeout))
			}
		}
		if !now.Before(next) {
			next = now.Add(expiry)
			if err := d.expire(d.stopCtx, now, steps.Ahead(d.cfg.Expiry)); err != nil && !errors.Is(err, context.Canceled) {
				d.warn("absent subscribers could not be removed", "error", err)
			}
		}
	}
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
			if err = d.DeleteSubscriber(ctx, info.Topic, info.Subscriber); err == nil {
				d.Metrics.ExpiredSubscribers.Add(1)
				d.cfg.Logger.Info("subscriber removed: it was absent too long", "topic", info.Topic, "subscriber", info.Subscriber.String(), "since", time.UnixMilli(info.Absent))
			}
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

// dateAbsence notes since when a subscriber is absent. A subscriber that comes back
// clears it.
func (d *Dispatcher) dateAbsence(ctx context.Context, info SubscriberInfo, date func(absent int64) int64) error {
	if err := d.locks.lock(ctx, info.Topic, info.Subscriber); err != nil {
		return err
	}
	defer d.locks.unlock(info.Topic, info.Subscriber)
	if d.streamsOf(info.Topic, info.Subscriber) > 0 {
		return nil
	}
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
}

// Package ratelimit bounds how fast events are published and delivered: the
// rules that operators set, which are kept beside the offsets, and what was
// taken under each. Time is an argument.
//
// All rules that hold for a topic and a client bound it together: its own, those
// of the topic, those of the client, and those of everything. Each lets a quiet
// second's worth through at once.
package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// MaxRules is how many rules an instance keeps.
const MaxRules = 1000

// space holds the rules.
const space = "ratelimits"

// ErrTooMany: there are MaxRules already.
var ErrTooMany = errors.New("too many rate limits")

// Error says that something came faster than a rule allows.
type Error struct {
	Rule Rule
	// What was too many: events or bytes.
	What string
	// Limit is how many a second are allowed.
	Limit float64
	// RetryAfter is how long to wait before the next try.
	RetryAfter time.Duration
}

// Error names the rule and when to try again.
func (e *Error) Error() string {
	return fmt.Sprintf("more than %g %s a second (%s limit of %s): try again in %v",
		e.Limit, e.What, e.Rule.Direction, e.Rule.Scope, e.RetryAfter.Round(time.Millisecond))
}

// Limits are the rules of one instance. Methods may be called concurrently and,
// but for Set, do not block. A nil Limits bounds nothing.
type Limits struct {
	store offsetstore.Store
	turn  chan struct{} // held by who changes a rule

	// Refused and Paused count what the rules kept back since the start:
	// events of publish requests, and turns of deliveries.
	Refused, Paused atomic.Int64

	any     [Deliver + 1]atomic.Int32 // rules, by direction
	mu      sync.Mutex
	buckets map[Scope]*bucket
}

// bucket is a rule and what was taken under it. It is guarded by Limits.mu.
type bucket struct {
	rule          Rule
	events, bytes meter
}

// Open reads the rules that a store keeps. The store stays the caller's.
func Open(store offsetstore.Store) (*Limits, error) {
	l := &Limits{store: store, turn: make(chan struct{}, 1), buckets: map[Scope]*bucket{}}
	var bad error
	err := store.ScanRecords(space, "", "", func(key string, value []byte) bool {
		var r Rule
		if bad = json.Unmarshal(value, &r); bad == nil {
			bad = r.check()
		}
		if bad != nil {
			bad = fmt.Errorf("rate limit %q: %w (%w)", key, offsetstore.ErrCorrupt, bad)
			return false
		}
		l.apply(r)
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	return l, nil
}

// Set makes a rule durable and has it hold from then on; one without a bound
// removes what there was. storage.ErrInvalid: it cannot be kept; ErrTooMany.
// When ctx ends first the fate of the change is open.
func (l *Limits) Set(ctx context.Context, r Rule) error {
	if err := r.check(); err != nil {
		return err
	}
	txn, err := change(r)
	if err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.admit(r); err != nil {
		<-l.turn
		return err
	}
	done := make(chan error, 1)
	l.store.Submit(txn, func(err error) {
		if err == nil {
			l.apply(r)
		}
		<-l.turn
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change is the transaction that keeps a rule or ends it.
func change(r Rule) (*offsetstore.Txn, error) {
	rec := offsetstore.Record{Space: space, Key: fmt.Sprintf("%d:%d:%s%s", r.Direction, len(r.Topic), r.Topic, r.Client)}
	if r.none() {
		return &offsetstore.Txn{Unsets: []offsetstore.Record{rec}}, nil
	}
	var err error
	if rec.Value, err = json.Marshal(r); err != nil {
		return nil, err
	}
	return &offsetstore.Txn{Sets: []offsetstore.Record{rec}}, nil
}

// admit tells whether there is room for a rule. The caller has the turn.
func (l *Limits) admit(r Rule) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets[r.Scope] == nil && !r.none() && len(l.buckets) >= MaxRules {
		return fmt.Errorf("%w: at most %d are kept: remove some", ErrTooMany, MaxRules)
	}
	return nil
}

// apply has a rule hold. What was taken under one of the same rate still counts.
func (l *Limits) apply(r Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.buckets[r.Scope]
	switch {
	case old != nil && old.rule == r:
		return
	case r.none() && old != nil:
		delete(l.buckets, r.Scope)
		l.any[r.Direction].Add(-1)
	case r.none():
	default:
		b := &bucket{rule: r, events: newMeter(r.Events), bytes: newMeter(r.Bytes)}
		if old == nil {
			l.any[r.Direction].Add(1)
		} else {
			b.events.follow(old.events)
			b.bytes.follow(old.bytes)
		}
		l.buckets[r.Scope] = b
	}
}

// Rules lists the rules by direction, topic and client.
func (l *Limits) Rules() []Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Rule, 0, len(l.buckets))
	for _, scope := range slices.SortedFunc(maps.Keys(l.buckets), Scope.compare) {
		out = append(out, l.buckets[scope].rule)
	}
	return out
}

// matching are the buckets that hold for a topic and a client; nil: none. l.mu
// is held.
func (l *Limits) matching(d Direction, topic, client string) (found [4]*bucket) {
	found[0] = l.buckets[Scope{d, topic, client}]
	if client != "" {
		found[1] = l.buckets[Scope{d, topic, ""}]
	}
	if topic != "" {
		found[2] = l.buckets[Scope{d, "", client}]
	}
	if topic != "" && client != "" {
		found[3] = l.buckets[Scope{d, "", ""}]
	}
	return found
}

func (l *Limits) idle(d Direction) bool { return l == nil || l.any[d].Load() == 0 }

// Publish takes n events of so many bytes together, which who publishes to a
// topic, or none of them: *Error.
func (l *Limits) Publish(topic, who string, n int, bytes int64, now time.Time) error {
	if l.idle(Publish) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.matching(Publish, topic, who)
	if e := slowest(found, now); e != nil {
		l.Refused.Add(int64(n))
		return e
	}
	take(found, n, bytes, now)
	return nil
}

// Room is how many of up to n deliveries of a topic may go to a client now; 0:
// none before wait has passed.
func (l *Limits) Room(topic, client string, n int, now time.Time) (room int, wait time.Duration) {
	if l.idle(Deliver) {
		return n, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.matching(Deliver, topic, client)
	if e := slowest(found, now); e != nil {
		l.Paused.Add(1)
		return 0, e.RetryAfter
	}
	for _, b := range found {
		if b != nil {
			n = b.events.room(now, n)
		}
	}
	return n, 0
}

// Delivered takes n deliveries of so many bytes together.
func (l *Limits) Delivered(topic, client string, n int, bytes int64, now time.Time) {
	if l.idle(Deliver) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	take(l.matching(Deliver, topic, client), n, bytes, now)
}

// slowest is the bound that must be waited for longest; nil: none.
func slowest(found [4]*bucket, now time.Time) (e *Error) {
	for _, b := range found {
		if b == nil {
			continue
		}
		if wait := b.events.wait(now); wait > 0 && (e == nil || wait > e.RetryAfter) {
			e = &Error{b.rule, "events", b.rule.Events, wait}
		}
		if wait := b.bytes.wait(now); wait > 0 && (e == nil || wait > e.RetryAfter) {
			e = &Error{b.rule, "bytes", b.rule.Bytes, wait}
		}
	}
	return e
}

func take(found [4]*bucket, n int, bytes int64, now time.Time) {
	for _, b := range found {
		if b != nil {
			b.events.take(now, float64(n))
			b.bytes.take(now, float64(bytes))
		}
	}
}

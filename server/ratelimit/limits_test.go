package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/memory"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/storage"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func open(t *testing.T, store offsetstore.Store) *ratelimit.Limits {
	t.Helper()
	l, err := ratelimit.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func fresh(t *testing.T) *ratelimit.Limits {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	return open(t, store)
}

func set(t *testing.T, l *ratelimit.Limits, r ratelimit.Rule) {
	t.Helper()
	if err := l.Set(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

func publishing(topic, client string, events, bytes float64) ratelimit.Rule {
	return ratelimit.Rule{Scope: ratelimit.Scope{Direction: ratelimit.Publish, Topic: topic, Client: client}, Events: events, Bytes: bytes}
}

// TestRateHolds: whatever the sizes of the requests, what is let through in any
// time stays within the rate, a second's burst and one request; and who always
// waits as told gets the whole rate.
func TestRateHolds(t *testing.T) {
	for _, largest := range []int{1, 7, 500} {
		t.Run(fmt.Sprint(largest), func(t *testing.T) {
			l := fresh(t)
			set(t, l, publishing("t", "", 100, 0))
			rnd := rand.New(rand.NewPCG(1, uint64(largest)))
			type taken struct {
				at time.Duration
				n  int
			}
			var all []taken
			now := time.Duration(0)
			for now < time.Minute {
				n := 1 + rnd.IntN(largest)
				err := l.Publish("t", "", n, 0, begin.Add(now))
				var e *ratelimit.Error
				switch {
				case err == nil:
					all = append(all, taken{now, n})
				case errors.As(err, &e) && e.RetryAfter > 0 && e.What == "events":
					now += e.RetryAfter
				default:
					t.Fatal(err)
				}
			}
			for i := range all {
				sum := 0
				for _, next := range all[i:] {
					sum += next.n
					if most := 100*(next.at-all[i].at+time.Second).Seconds() + float64(largest); float64(sum) > most {
						t.Fatalf("%d events in %v, at most %v are allowed", sum, next.at-all[i].at, most)
					}
				}
			}
			sum := 0
			for _, one := range all {
				sum += one.n
			}
			if sum < 60*100 {
				t.Errorf("%d events in a minute at 100 a second", sum)
			}
		})
	}
}

// TestQuietSecondComesAtOnce: a burst of one second, and not a saved-up minute.
func TestQuietSecondComesAtOnce(t *testing.T) {
	l := fresh(t)
	set(t, l, publishing("t", "", 10, 0))
	through := func(now time.Time) (n int) {
		for l.Publish("t", "", 1, 0, now) == nil {
			n++
		}
		return n
	}
	for i, at := range []time.Duration{0, time.Hour, time.Hour + time.Second} {
		if n := through(begin.Add(at)); n != 10 {
			t.Errorf("burst %d: %d events, want 10", i, n)
		}
	}
}

// TestAllOrNothing: of several bounds that hold together the tightest decides,
// and what one refuses is taken from none.
func TestAllOrNothing(t *testing.T) {
	l := fresh(t)
	set(t, l, publishing("", "", 1000, 0))
	set(t, l, publishing("t", "", 0, 100))
	set(t, l, publishing("t", "a", 5, 0))
	for range 5 {
		if err := l.Publish("t", "a", 1, 10, begin); err != nil {
			t.Fatal(err)
		}
	}
	var e *ratelimit.Error
	if err := l.Publish("t", "a", 1, 10, begin); !errors.As(err, &e) || e.Rule.Client != "a" || e.Limit != 5 {
		t.Fatalf("the client's own bound: %v", err)
	}
	if err := l.Publish("t", "b", 1, 50, begin); err != nil {
		t.Fatalf("another client, 50 of 100 bytes taken: %v", err)
	}
	if err := l.Publish("t", "b", 1, 1, begin); !errors.As(err, &e) || e.What != "bytes" {
		t.Fatalf("the topic's bytes: %v", err)
	}
	if err := l.Publish("other", "b", 900, 1, begin); err != nil {
		t.Fatalf("another topic: %v", err)
	}
	if n := l.Refused.Load(); n != 2 {
		t.Errorf("%d events were refused, want 2", n)
	}
	for range 94 { // 6 of the 1,000 were taken before, and 900
		if err := l.Publish("other", "c", 1, 1, begin); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Publish("other", "c", 1, 1, begin); !errors.As(err, &e) || e.Rule.Topic != "" || e.Rule.Client != "" {
		t.Fatalf("all together: %v", err)
	}
}

// TestDeliveries: room says how many may go, and what was delivered counts.
func TestDeliveries(t *testing.T) {
	l := fresh(t)
	if n, _ := l.Room("t", "c", 64, begin); n != 64 {
		t.Fatalf("room for %d without a bound", n)
	}
	set(t, l, ratelimit.Rule{Scope: ratelimit.Scope{Direction: ratelimit.Deliver, Client: "c"}, Events: 10, Bytes: 1000})
	if n, _ := l.Room("t", "c", 64, begin); n != 10 {
		t.Fatalf("room for %d, want 10", n)
	}
	l.Delivered("t", "c", 4, 400, begin)
	if n, _ := l.Room("u", "c", 64, begin); n != 6 {
		t.Fatalf("room for %d, want 6", n)
	}
	l.Delivered("u", "c", 2, 2600, begin) // one large one
	if n, wait := l.Room("t", "c", 64, begin); n != 0 || wait != 2*time.Second {
		t.Fatalf("room for %d, or after %v: want none for 2 s", n, wait)
	}
	if n, _ := l.Room("t", "other", 64, begin); n != 64 {
		t.Fatalf("another client has room for %d", n)
	}
	if n, _ := l.Room("t", "c", 64, begin.Add(2001*time.Millisecond)); n == 0 {
		t.Fatal("no room after the wait")
	}
}

// TestRulesLast: rules come through a restart, change and end.
func TestRulesLast(t *testing.T) {
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	l := open(t, store)
	rules := []ratelimit.Rule{publishing("", "", 5, 0), publishing("a#b:c/d", "e", 1, 2), publishing("t", "", 0.5, 1e9)}
	for _, r := range rules {
		set(t, l, r)
	}
	set(t, l, publishing("gone", "", 1, 1))
	set(t, l, publishing("gone", "", 0, 0))
	set(t, l, publishing("never was", "", 0, 0))
	for i, from := range []*ratelimit.Limits{l, open(t, store)} {
		got := from.Rules()
		if len(got) != len(rules) {
			t.Fatalf("%d: %v", i, got)
		}
		for k := range rules {
			if got[k] != rules[k] {
				t.Errorf("%d: rule %d is %v, want %v", i, k, got[k], rules[k])
			}
		}
		if from.Publish("x", "", 5, 0, begin) != nil || from.Publish("x", "", 1, 0, begin) == nil {
			t.Errorf("%d: the bound of all does not hold", i)
		}
	}
	set(t, l, publishing("", "", 0, 0))
	if err := l.Publish("x", "", 1e6, 0, begin); err != nil {
		t.Errorf("a bound that was removed holds: %v", err)
	}
}

// TestChangeKeepsWhatWasTaken: changing one bound of a rule does not forgive what
// was taken under the other.
func TestChangeKeepsWhatWasTaken(t *testing.T) {
	l := fresh(t)
	set(t, l, publishing("t", "", 10, 0))
	if err := l.Publish("t", "", 100, 100, begin); err != nil {
		t.Fatal(err)
	}
	set(t, l, publishing("t", "", 10, 1000))
	if err := l.Publish("t", "", 1, 1, begin); err == nil {
		t.Error("a new bound of bytes has forgiven the events")
	}
	if err := l.Publish("t", "", 1, 1, begin.Add(9*time.Second)); err == nil {
		t.Error("100 events at 10 a second are done with after 9 s")
	}
	set(t, l, publishing("t", "", 20, 1000))
	if err := l.Publish("t", "", 1, 1, begin); err != nil {
		t.Errorf("a new rate begins anew: %v", err)
	}
}

// TestRulesAreChecked: what makes no sense is refused, and there is an end to them.
func TestRulesAreChecked(t *testing.T) {
	l := fresh(t)
	for _, r := range []ratelimit.Rule{
		{Events: 1},
		publishing("t", "", -1, 0), publishing("t", "", 0, math.NaN()), publishing("t", "", math.Inf(1), 0),
		publishing("t", "", 0.001, 0), publishing("t", "", 0, 0.5), publishing("t\x00", "", 1, 0), publishing("t", "c\n", 1, 0),
	} {
		if err := l.Set(context.Background(), r); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", r, err)
		}
	}
	for i := range ratelimit.MaxRules {
		set(t, l, publishing(fmt.Sprint(i), "", 1, 0))
	}
	if err := l.Set(context.Background(), publishing("one more", "", 1, 0)); !errors.Is(err, ratelimit.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	set(t, l, publishing("7", "", 2, 0))
	set(t, l, publishing("8", "", 0, 0))
	set(t, l, publishing("one more", "", 1, 0))
}

// TestStoreRefuses: a rule that could not be kept does not hold.
func TestStoreRefuses(t *testing.T) {
	store := memory.New()
	l := open(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Set(context.Background(), publishing("t", "", 1, 0)); !errors.Is(err, offsetstore.ErrClosed) {
		t.Fatalf("set: %v", err)
	}
	if len(l.Rules()) != 0 || l.Publish("t", "", 1e6, 0, begin) != nil {
		t.Error("the rule holds")
	}
}

// TestNilBoundsNothing: no Limits at all is fine.
func TestNilBoundsNothing(t *testing.T) {
	var l *ratelimit.Limits
	if err := l.Publish("t", "c", 1, 1, begin); err != nil {
		t.Error(err)
	}
	if n, wait := l.Room("t", "c", 9, begin); n != 9 || wait != 0 {
		t.Error(n, wait)
	}
	l.Delivered("t", "c", 1, 1, begin)
}

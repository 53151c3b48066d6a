package dispatch

import (
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// TestExpiryWhenTheClockIsSetAhead: an absence is not longer because the clock was
// set ahead in its midst, and that is remembered beyond the end of the instance.
func TestExpiryWhenTheClockIsSetAhead(t *testing.T) {
	const day = 24 * time.Hour
	r := newRig(t, Config{Expiry: 14 * day})
	s := r.open("c", sinkFunc(func(mem.BufferSlice) error { return nil }))
	r.d.End(s, false, 0, nil)
	<-s.Done()
	r.d.Forget(s)
	key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "0"}
	if err := r.d.settleLeft(t.Context(), key.Topic, key.Subscriber); err != nil {
		t.Fatal(err)
	}
	left := time.Now().Add(-day)
	v, _, err := r.store.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	v.Absent = left.UnixMilli()
	if err := offsetstore.Commit(t.Context(), r.store, &offsetstore.Txn{Puts: []offsetstore.Put{{Key: key, Value: v}}}); err != nil {
		t.Fatal(err)
	}
	const jump = 400 * day
	now := time.Now().Add(jump)
	for _, c := range []struct {
		later, ahead time.Duration
		kept         bool
	}{{0, jump, true}, {13*day - time.Hour, 0, true}, {13*day + time.Hour, 0, false}} {
		if err := r.d.expire(t.Context(), now.Add(c.later), c.ahead); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := r.store.Get(key); err != nil || ok != c.kept {
			t.Fatalf("%v after the clock was set ahead: kept %v, %v", c.later, ok, err)
		}
	}
}

// TestExpiryLooks: absent subscribers are looked for every so often, and at once
// when the clock was set ahead.
func TestExpiryLooks(t *testing.T) {
	const day = 24 * time.Hour
	begun := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	x := newExpiry(14*day, begun)
	for _, c := range []struct {
		since, set time.Duration
		due        bool
		ahead      time.Duration
	}{
		{59 * time.Minute, 0, false, 0},
		{time.Hour, 0, true, 0},
		{61 * time.Minute, 20_000 * day, true, 20_000 * day},
		{62 * time.Minute, 20_000 * day, false, 20_000 * day},
		{2*time.Hour + time.Minute, 20_000 * day, true, 20_000 * day},
		{15 * day, 20_000 * day, true, 0},
	} {
		due, ahead := x.look(begun.Add(c.since).Add(c.set), c.since)
		if due != c.due || ahead != c.ahead {
			t.Errorf("after %v: %v, %v, want %v, %v", c.since, due, ahead, c.due, c.ahead)
		}
	}
}

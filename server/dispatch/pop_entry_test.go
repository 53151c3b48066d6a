package dispatch

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// Entries come back as they were written.
func TestPopEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := popEntry{
			finished: rapid.Bool().Draw(t, "finished"), sent: rapid.Int32().Draw(t, "sent"), spent: rapid.Int32().Draw(t, "spent"),
			breaks: rapid.Int32().Draw(t, "breaks"), due: rapid.Int64().Draw(t, "due"), at: rapid.Int64().Draw(t, "at"),
		}
		got, err := decodePopEntry(e.encode())
		if err != nil || got != e {
			t.Fatalf("%+v came back as %+v, %v", e, got, err)
		}
	})
}

// Any bytes are an entry or an error that says that the store is damaged.
func FuzzPopEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(popEntry{finished: true, at: 1 << 40}.encode())
	f.Add(popEntry{sent: 6, spent: 5, breaks: 2, due: 1 << 40, at: 1 << 40}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodePopEntry(b)
		if err != nil {
			if !errors.Is(err, offsetstore.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if again, err := decodePopEntry(e.encode()); err != nil || again != e {
			t.Fatalf("%+v came back as %+v, %v", e, again, err)
		}
	})
}

// Two due times that differ by a rounding are one; waiting is not in flight.
func TestPopEntrySame(t *testing.T) {
	e := popEntry{sent: 2, spent: 1, due: 1000, at: 5}
	for _, tc := range []struct {
		o    popEntry
		same bool
	}{
		{popEntry{sent: 2, spent: 1, due: 1001, at: 9}, true},
		{popEntry{sent: 2, spent: 1, due: 1100}, false},
		{popEntry{sent: 2, spent: 1}, false},
		{popEntry{sent: 3, spent: 1, due: 1000}, false},
		{popEntry{sent: 2, spent: 1, due: 1000, finished: true}, false},
	} {
		if e.same(tc.o) != tc.same {
			t.Errorf("%+v and %+v: same is %v", e, tc.o, !tc.same)
		}
	}
	if near := (popEntry{due: 1}); near.same(popEntry{}) {
		t.Error("one that waits is taken for one in flight")
	}
}

// Groups are named apart, in characters that brokers take.
func TestGroupName(t *testing.T) {
	seen := map[string]string{}
	for _, topic := range []string{"t", "t1", "1t"} {
		for _, s := range []offsetstore.Subscriber{
			{Kind: offsetstore.KindClient, Name: "a"},
			{Kind: offsetstore.KindShare, Name: "a"},
			{Kind: offsetstore.KindShare},
			{Kind: offsetstore.KindClient, Name: "日本 %#/"},
		} {
			g := GroupName(topic, s)
			if len(g) != 36 || !strings.HasPrefix(g, "EM-") || strings.Trim(g, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
				t.Errorf("group %q", g)
			}
			if who := topic + s.String(); seen[g] != "" {
				t.Errorf("%s and %s share group %s", who, seen[g], g)
			} else {
				seen[g] = who
			}
		}
	}
}

// Backoffs grow and are bounded.
func TestPopBackoff(t *testing.T) {
	last := backoffOf(1)
	for n := 2; n < 100; n++ {
		w := backoffOf(n)
		if w < last || w > popLongestRetry {
			t.Fatalf("wait %d is %v after %v", n, w, last)
		}
		last = w
	}
	if last != popLongestRetry {
		t.Fatalf("the longest wait is %v", last)
	}
}

// TestConfirmedHoldsLittle: what is remembered for a while of a confirmed message
// is no more than it takes to know it again.
func TestConfirmedHoldsLittle(t *testing.T) {
	f := newFeed(&loop{d: &Dispatcher{Metrics: &Metrics{}}, t: &topic{name: "t"}}, offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"})
	defer f.cancel()
	rec := storage.Record{ID: "id", Partition: "broker-a:0", Offset: 7, Handle: "receipt", CheckKey: "receipt", Frame: []byte("frame")}
	q := &popped{id: rec.ID, rec: rec, handle: rec.Handle, history: &popEntry{}}
	f.byID[q.id] = q
	f.toAck(q)
	f.confirmed(q, time.Now())
	if want := (storage.Record{Partition: rec.Partition, Offset: rec.Offset}); !reflect.DeepEqual(q.rec, want) || q.handle != nil || q.history != nil {
		t.Errorf("of a confirmed message is kept: %+v, %v, %v", q.rec, q.handle, q.history)
	}
	f.joined(q, &storage.Record{Handle: "new"}, time.Now())
	if q.handle != "new" || q.state != popFinished {
		t.Errorf("handed out again it has the receipt %v and the state %v", q.handle, q.state)
	}
}

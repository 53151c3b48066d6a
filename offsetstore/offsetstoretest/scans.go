package offsetstoretest

import (
	"slices"
	"strings"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// scanned are the keys that a scan visits, in its order.
func scanned(t T, s offsetstore.Store, topic string) (keys []offsetstore.Key) {
	t.Helper()
	err := s.Scan(topic, func(k offsetstore.Key, v offsetstore.Value) bool {
		keys = append(keys, k)
		return true
	})
	if err != nil {
		t.Fatalf("scan of %q: %v", topic, err)
	}
	return keys
}

// scanByTopic has topics that are the beginning of others.
func scanByTopic(t T, p Place) {
	s := open(t, p)
	var all []offsetstore.Key
	for _, topic := range []string{"a", "ab", "a/b", "b", "aa", strings.Repeat("a", 200)} {
		for _, client := range []string{"x", "xy", "y"} {
			for _, partition := range []string{"0", "1", "10"} {
				all = append(all, key(topic, client, partition))
			}
		}
	}
	share := key("a", "x", "0")
	share.Subscriber.Kind = offsetstore.KindShare
	all = append(all, share)
	for i, k := range all {
		commit(t, s, put(k, at(int64(i))))
	}
	s = reopen(t, p, s)
	for _, topic := range []string{"a", "ab", "b", "none", ""} {
		var want []offsetstore.Key
		for _, k := range all {
			if topic == "" || k.Topic == topic {
				want = append(want, k)
			}
		}
		slices.SortFunc(want, offsetstore.Key.Compare)
		if got := scanned(t, s, topic); !slices.Equal(got, want) {
			t.Fatalf("scan of %q visits %v, want %v", topic, got, want)
		}
	}
	for i, k := range all {
		holds(t, s, k, at(int64(i)))
	}
}

func scanStopsAndCallsBack(t T, p Place) {
	s := open(t, p)
	for i := range 10 {
		commit(t, s, put(key("a", name("c", i), "0"), at(1)))
	}
	visits := 0
	err := s.Scan("a", func(k offsetstore.Key, v offsetstore.Value) bool {
		visits++
		commit(t, s, put(k, at(2)))
		holds(t, s, k, at(2))
		return visits < 3
	})
	if err != nil || visits != 3 {
		t.Fatalf("scan made %d visits, error %v, want 3", visits, err)
	}
}

func records(t T, p Place) {
	s := open(t, p)
	commit(t, s, set("dead", "1", "first"))
	commit(t, s, set("dea", "d1", "other space"))
	commit(t, s, set("dead", "1", "second"))
	recordIs(t, s, "dead", "1", "second")
	recordIs(t, s, "dea", "d1", "other space")
	recordIs(t, s, "dead1", "", "")
	s = reopen(t, p, s)
	recordIs(t, s, "dead", "1", "second")
	commit(t, s, &offsetstore.Txn{Unsets: []offsetstore.Record{{Space: "dead", Key: "1"}}})
	recordIs(t, s, "dead", "1", "")
	recordIs(t, s, "dea", "d1", "other space")
	p.Kill()
	s = open(t, p)
	recordIs(t, s, "dead", "1", "")
	// An empty value is one.
	commit(t, s, set("dead", "empty", ""))
	if v, ok, err := s.GetRecord("dead", "empty"); err != nil || !ok || len(v) > 0 {
		t.Fatalf("empty record is %q, present %v, error %v", v, ok, err)
	}
}

// scannedRecords are the keys that a scan of records visits, in its order.
func scannedRecords(t T, s offsetstore.Store, space, prefix, after string) (keys []string) {
	t.Helper()
	err := s.ScanRecords(space, prefix, after, func(k string, v []byte) bool {
		if string(v) != "v"+k {
			t.Errorf("record %q of %q has %q", k, space, v)
		}
		keys = append(keys, k)
		return true
	})
	if err != nil {
		t.Fatalf("scan of records: %v", err)
	}
	return keys
}

func scanRecordsByPrefix(t T, p Place) {
	s := open(t, p)
	keys := []string{"a", "a/1", "a/10", "a/2", "ab", "b", "\x00", "\xff", "\xff\xff"}
	for _, space := range []string{"s", "s2", "", "t"} {
		for _, k := range keys {
			commit(t, s, set(space, k, "v"+k))
		}
	}
	slices.Sort(keys)
	for _, c := range []struct{ prefix, after string }{
		{"", ""},
		{"a", ""},
		{"a/", ""},
		{"a/", "a/1"},
		{"a/", "a"},
		{"a", "a/2"},
		{"", "ab"},
		{"a", "b"},
		{"b", "a"},
		{"\xff", ""},
		{"none", ""},
		{"", "\xff\xff"},
	} {
		var want []string
		for _, k := range keys {
			if strings.HasPrefix(k, c.prefix) && k > c.after {
				want = append(want, k)
			}
		}
		for _, space := range []string{"s", ""} {
			if got := scannedRecords(t, s, space, c.prefix, c.after); !slices.Equal(got, want) {
				t.Fatalf("scan of %q prefix %q after %q visits %q, want %q", space, c.prefix, c.after, got, want)
			}
		}
	}
	if got := scannedRecords(t, s, "none", "", ""); got != nil {
		t.Fatalf("scan of an empty space visits %q", got)
	}
}

// scanManyRecords has more records than a store may read at once; the callback
// calls the store, and stops.
func scanManyRecords(t T, p Place) {
	s := open(t, p)
	const n = 1500
	for i := 0; i < n; i += 100 {
		txn := &offsetstore.Txn{}
		for j := i; j < i+100; j++ {
			k := name("k", j)
			txn.Sets = append(txn.Sets, offsetstore.Record{Space: "s", Key: k, Value: []byte("v" + k)})
		}
		commit(t, s, txn)
	}
	if got := scannedRecords(t, s, "s", "", ""); len(got) != n || !slices.IsSorted(got) {
		t.Fatalf("scan visits %d of %d records, sorted %v", len(got), n, slices.IsSorted(got))
	}
	visits := 0
	err := s.ScanRecords("s", "k-", name("k", 99), func(k string, _ []byte) bool {
		visits++
		recordIs(t, s, "s", k, "v"+k)
		return visits < 700
	})
	if err != nil || visits != 700 {
		t.Fatalf("scan made %d visits, error %v, want 700", visits, err)
	}
}

package offsetstoretest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// C10 has 64 goroutines write shuffled positions, to one key and to one each,
// while others read: no observed value goes down, every write succeeds, the
// last value is the highest, also after reopening. each is how many writes
// each makes.
func C10(t T, p Place, each int) {
	const writers = 64
	s := open(t, p)
	positions := rand.New(rand.NewPCG(1, 2)).Perm(writers * each)
	stop, watched := watch(t, s, key1)
	var wg sync.WaitGroup
	for w := range writers {
		mine := key("own", name("c", w), "0")
		wg.Go(func() {
			for _, position := range positions[w*each : (w+1)*each] {
				txn := put(key1, at(int64(position)+1))
				txn.Puts = append(txn.Puts, offsetstore.Put{Key: mine, Value: at(int64(position) + 1)})
				if err := offsetstore.Commit(t.Context(), s, txn); err != nil {
					t.Errorf("write of %d: %v", position, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-watched
	for range 2 {
		holds(t, s, key1, at(int64(writers*each)))
		for w := range writers {
			highest := 0
			for _, position := range positions[w*each : (w+1)*each] {
				highest = max(highest, position+1)
			}
			holds(t, s, key("own", name("c", w), "0"), at(int64(highest)))
		}
		s = reopen(t, p, s)
	}
}

// watch reads a key until stop is closed and reports when it goes down.
func watch(t T, s offsetstore.Store, k offsetstore.Key) (stop, ended chan struct{}) {
	stop, ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		last := int64(-1)
		for {
			select {
			case <-stop:
				return
			default:
			}
			v, ok, err := s.Get(k)
			switch {
			case err != nil:
				t.Errorf("read: %v", err)
				return
			case !ok:
				if last >= 0 {
					t.Errorf("the key is gone, it was at %d", last)
					return
				}
			case v.Position < last:
				t.Errorf("went down from %d to %d", last, v.Position)
				return
			default:
				last = v.Position
			}
		}
	}()
	return stop, ended
}

// C11 has the first acks of 16 partitions of a new client come at one instant:
// all 16 positions are kept.
func C11(t T, p Place) {
	s := open(t, p)
	const partitions = 16
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range partitions {
		wg.Go(func() {
			<-begin
			if err := offsetstore.Commit(t.Context(), s, put(key("orders", "new", fmt.Sprint(i)), at(int64(i)+1))); err != nil {
				t.Errorf("first ack of partition %d: %v", i, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	for range 2 {
		for i := range partitions {
			holds(t, s, key("orders", "new", fmt.Sprint(i)), at(int64(i)+1))
		}
		p.Kill()
		s = open(t, p)
	}
}

// C22 holds that what was deleted stays deleted, over compactions and restarts. n is how
// many deliveries are put and finished.
func C22(t T, p Place, n int) {
	s := open(t, p)
	const perTxn = 100
	for round := range 4 {
		var last chan error
		for i := 0; i < n/4; i += perTxn {
			add, drop := inFlight(round*n + i)
			submit(s, add)
			last = submit(s, drop)
		}
		if err := await(t, last); err != nil {
			t.Fatalf("commit: %v", err)
		}
		p.Tidy()
		s = reopen(t, p, s)
		p.Tidy()
		if got := dump(t, s); len(got) > 0 {
			t.Fatalf("%d deleted keys came back", len(got))
		}
		if got := scannedRecords(t, s, "inflight", "", ""); len(got) > 0 {
			t.Fatalf("%d deleted records came back, the first is %q", len(got), got[0])
		}
	}
}

// inFlight puts a hundred deliveries, half as keys and half as records, and
// takes them out again.
func inFlight(from int) (add, drop *offsetstore.Txn) {
	add, drop = &offsetstore.Txn{}, &offsetstore.Txn{}
	for i := from; i < from+50; i++ {
		k := key("a", name("c", i), "0")
		add.Puts = append(add.Puts, offsetstore.Put{Key: k, Value: at(1)})
		drop.Deletes = append(drop.Deletes, k)
		r := offsetstore.Record{Space: "inflight", Key: name("d", i), Value: []byte("v")}
		add.Sets = append(add.Sets, r)
		drop.Unsets = append(drop.Unsets, r)
	}
	return add, drop
}

// C63 holds that names that joined by a separator would be one are independent, whatever
// is in them.
func C63(t T, p Place) {
	s := open(t, p)
	want := map[offsetstore.Key]offsetstore.Value{}
	for i, k := range awkwardKeys() {
		v := at(int64(i))
		txn := put(k, v)
		txn.Sets = []offsetstore.Record{{Space: k.Topic, Key: k.Partition, Value: []byte(k.Topic + "=" + k.Partition)}}
		commit(t, s, txn)
		want[k] = offsetstore.Normal(v)
	}
	for range 2 {
		got := dump(t, s)
		if len(got) != len(want) {
			t.Fatalf("%d keys are listed, want %d", len(got), len(want))
		}
		for k, v := range want {
			if g, ok := got[k]; !ok || !same(g, v) {
				t.Fatalf("%v is listed as %+v, want %+v", k, g, v)
			}
			holds(t, s, k, v)
			recordIs(t, s, k.Topic, k.Partition, k.Topic+"="+k.Partition)
		}
		s = reopen(t, p, s)
	}
}

// awkwardKeys are keys whose parts hold separators, so that many read the same
// when joined, and keys of odd names.
func awkwardKeys() (keys []offsetstore.Key) {
	for _, sep := range []string{"#", "|", "/", ":", "\x00"} {
		parts := []string{"a", "b", "c", "a" + sep + "b", "b" + sep + "c"}
		for _, topic := range parts {
			for _, client := range parts {
				for _, partition := range parts {
					keys = append(keys, key(topic, client, partition))
				}
			}
		}
	}
	for _, odd := range []string{"ключ", "日本語", strings.Repeat("x", 1024), "__mqcursor__", "", "a\xff", "client/a"} {
		keys = append(keys, key(odd, "a", "0"), key("a", odd, "0"), key("a", "a", odd))
	}
	return keys
}

// C74 holds that reads with odd arguments, a thousand times while acks go on, change
// nothing.
func C74(t T, p Place) {
	s := open(t, p)
	want := map[offsetstore.Key]offsetstore.Value{}
	for i := range 100 {
		k := key(name("t", i%7), name("c", i), "0")
		commit(t, s, put(k, at(int64(i))))
		commit(t, s, set("s", name("r", i), "v"+name("r", i)))
		want[k] = offsetstore.Normal(at(int64(i)))
	}
	acked := key("t-00000", "acker", "0")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			if err := offsetstore.Commit(t.Context(), s, put(acked, at(int64(i)))); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
	})
	for i := range 1000 {
		oddReads(t, s, i)
	}
	wg.Wait()
	want[acked] = offsetstore.Normal(at(199))
	for range 2 {
		got := dump(t, s)
		if len(got) != len(want) {
			t.Fatalf("%d keys are there, want %d", len(got), len(want))
		}
		for k, v := range want {
			if !same(got[k], v) {
				t.Fatalf("%v has %+v, want %+v", k, got[k], v)
			}
		}
		if got := scannedRecords(t, s, "s", "", ""); len(got) != 100 {
			t.Fatalf("%d records are there, want 100", len(got))
		}
		s = reopen(t, p, s)
	}
}

// oddReads asks for what is not there, and stops scans early.
func oddReads(t T, s offsetstore.Store, i int) {
	t.Helper()
	odd := []string{"", "none", "t-0000", "\x00", "t-00001"}[i%5]
	_, _, errGet := s.Get(key(odd, name("c", i), odd))
	_, _, errRecord := s.GetRecord(odd, odd)
	_, errMarker := s.Marker(key(odd, odd, odd))
	if errors.Is(errMarker, offsetstore.ErrNotFound) {
		errMarker = nil
	}
	n := 0
	errScan := s.Scan(odd, func(offsetstore.Key, offsetstore.Value) bool { n++; return n < i%10 })
	errRecords := s.ScanRecords("s", "r-", odd, func(string, []byte) bool { n++; return n < i%10 })
	if err := errors.Join(errGet, errRecord, errMarker, errScan, errRecords); err != nil {
		t.Fatalf("read: %v", err)
	}
}

// allAtOnce calls everything from many goroutines.
func allAtOnce(t T, p Place) {
	s := open(t, p)
	var commits atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for i := range 100 {
				allOf(t, s, r, g, i)
				commits.Add(1)
			}
		})
	}
	wg.Wait()
	if commits.Load() != 800 {
		t.Fatalf("%d rounds of 800", commits.Load())
	}
}

func allOf(t T, s offsetstore.Store, r *rand.Rand, g, i int) {
	k := key("a", name("c", r.IntN(5)), "0")
	txn := put(k, at(int64(i)))
	txn.Sets = set("s", name("r", g), "v"+name("r", g)).Sets
	if r.IntN(10) == 0 {
		txn.Deletes = []offsetstore.Key{k}
	}
	if err := offsetstore.Commit(t.Context(), s, txn); err != nil {
		t.Errorf("commit: %v", err)
	}
	if m, err := s.Marker(k); err == nil && g < 5 && k == key("a", name("c", g), "0") {
		if err := m.Mark(1, int64(i)); err != nil && !errors.Is(err, offsetstore.ErrNotFound) {
			t.Errorf("mark: %v", err)
		}
	}
	if _, _, err := s.Get(k); err != nil {
		t.Errorf("get: %v", err)
	}
	if err := s.Scan("a", func(offsetstore.Key, offsetstore.Value) bool { return true }); err != nil {
		t.Errorf("scan: %v", err)
	}
	if err := s.ScanRecords("s", "", "", func(string, []byte) bool { return true }); err != nil {
		t.Errorf("scan of records: %v", err)
	}
}

package offsetstoretest

import (
	"errors"

	"github.com/ackmesh/ackmesh/offsetstore"
)

func marker(t T, s offsetstore.Store, k offsetstore.Key) offsetstore.Marker {
	t.Helper()
	m, err := s.Marker(k)
	if err != nil {
		t.Fatalf("marker of %v: %v", k, err)
	}
	return m
}

func mark(t T, m offsetstore.Marker, epoch uint64, high int64) {
	t.Helper()
	if err := m.Mark(epoch, high); err != nil {
		t.Fatalf("mark: %v", err)
	}
}

// highIs holds the high mark, in Get and in Scan.
func highIs(t T, s offsetstore.Store, k offsetstore.Key, want int64) {
	t.Helper()
	if got := get(t, s, k).High; got != want {
		t.Fatalf("high mark of %v is %d, want %d", k, got, want)
	}
	if got := dump(t, s)[k].High; got != want {
		t.Fatalf("high mark of %v is %d in a scan, want %d", k, got, want)
	}
}

func markRaisesHigh(t T, p Place) {
	s := open(t, p)
	v := at(5)
	v.High = 10
	commit(t, s, put(key1, v))
	m := marker(t, s, key1)
	mark(t, m, 1, 8) // below what is stored
	highIs(t, s, key1, 10)
	mark(t, m, 1, 20)
	highIs(t, s, key1, 20)
	mark(t, m, 1, 15) // lower: a no-op
	highIs(t, s, key1, 20)
	mark(t, m, 0, 99) // of an older epoch
	highIs(t, s, key1, 20)
	commit(t, s, put(key1, at(6)))
	highIs(t, s, key1, 20)
	// A reset begins with no mark.
	commit(t, s, put(key1, offsetstore.Value{Epoch: 2, Position: 3}))
	highIs(t, s, key1, 3)
	mark(t, m, 1, 50)
	highIs(t, s, key1, 3)
	mark(t, m, 2, 7)
	highIs(t, s, key1, 7)
	mark(t, m, 1, 50) // lower by its epoch
	highIs(t, s, key1, 7)
}

// markSurvivesKill: with the process, marks do not die; nor with a full disk.
func markSurvivesKill(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(5)))
	mark(t, marker(t, s, key1), 1, 20)
	p.Kill()
	s = open(t, p)
	highIs(t, s, key1, 20)
	p.Fail(errors.New("disk full"))
	mark(t, marker(t, s, key1), 1, 30)
	p.Fail(nil)
	p.Kill()
	s = open(t, p)
	highIs(t, s, key1, 30)
	mark(t, marker(t, s, key1), 1, 25)
	highIs(t, s, key1, 30)
	s = reopen(t, p, s)
	highIs(t, s, key1, 30)
}

// markOfDeletedKey: a mark goes with its key, and a marker too.
func markOfDeletedKey(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(5)))
	old := marker(t, s, key1)
	mark(t, old, 1, 20)
	commit(t, s, &offsetstore.Txn{Deletes: []offsetstore.Key{key1}})
	if err := old.Mark(1, 30); !errors.Is(err, offsetstore.ErrNotFound) {
		t.Fatalf("mark of a deleted key: %v, want ErrNotFound", err)
	}
	other := key("other", "x", "0")
	commit(t, s, put(other, at(5)))
	commit(t, s, put(key1, at(5)))
	for range 2 {
		highIs(t, s, other, 5)
		highIs(t, s, key1, 5)
		if err := old.Mark(1, 40); err == nil {
			t.Fatalf("the marker of a deleted key came back with the key")
		}
		p.Kill()
		s = open(t, p)
	}
	// Replaced in one transaction: the same.
	old = marker(t, s, key1)
	mark(t, old, 1, 20)
	txn := put(key1, at(5))
	txn.Deletes = []offsetstore.Key{key1}
	commit(t, s, txn)
	highIs(t, s, key1, 5)
	p.Kill()
	s = open(t, p)
	highIs(t, s, key1, 5)
}

// marksOfManyKeys: each keeps its own, while keys come and go.
func marksOfManyKeys(t T, p Place) {
	s := open(t, p)
	const n = 3000
	keys := make([]offsetstore.Key, n)
	commitAll := func(from, to int) {
		for i := from; i < to; i += 100 {
			txn := &offsetstore.Txn{}
			for j := i; j < i+100; j++ {
				keys[j] = key("a", name("c", j), "0")
				txn.Puts = append(txn.Puts, offsetstore.Put{Key: keys[j], Value: at(0)})
			}
			commit(t, s, txn)
		}
		for i := from; i < to; i++ {
			mark(t, marker(t, s, keys[i]), 1, int64(1000+i))
		}
	}
	commitAll(0, n/2)
	var gone []offsetstore.Key
	for i := 0; i < n/2; i += 2 {
		gone = append(gone, keys[i])
	}
	commit(t, s, &offsetstore.Txn{Deletes: gone})
	commitAll(n/2, n)
	for range 2 {
		got := dump(t, s)
		for i, k := range keys {
			v, ok := got[k]
			if want := i >= n/2 || i%2 == 1; ok != want || (ok && v.High != int64(1000+i)) {
				t.Fatalf("key %d is present %v with high mark %d", i, ok, v.High)
			}
		}
		p.Kill()
		s = open(t, p)
	}
}

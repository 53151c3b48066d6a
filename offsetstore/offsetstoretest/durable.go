package offsetstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// toldIsDurable: done is not called before the commit, and what it told is
// there after the death of the process.
func toldIsDurable(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(1)))
	release := p.Hold()
	ch := submit(s, put(key1, at(2)))
	none(t, ch, "done was called while the disk had not answered")
	release()
	if err := await(t, ch); err != nil {
		t.Fatalf("commit: %v", err)
	}
	p.Kill()
	s = open(t, p)
	holds(t, s, key1, at(2))
}

// visibleIsDurable: what is not on disk is not seen, and gone with the process.
func visibleIsDurable(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(1)))
	p.Hold()
	txn := put(key1, at(2))
	txn.Sets = set("space", "key", "value").Sets
	ch := submit(s, txn)
	none(t, ch, "done was called while the disk had not answered")
	holds(t, s, key1, at(1))
	recordIs(t, s, "space", "key", "")
	p.Kill()
	s = open(t, p)
	holds(t, s, key1, at(1))
	recordIs(t, s, "space", "key", "")
}

// doneOnce counts the calls of done, of transactions that succeed and fail.
func doneOnce(t T, p Place) {
	s := open(t, p)
	const n = 200
	var calls [2 * n]atomic.Int32
	submitAll := func(from int) {
		for i := from; i < from+n; i++ {
			s.Submit(put(key("a", name("c", i), "0"), at(1)), func(error) { calls[i].Add(1) })
		}
	}
	submitAll(0)
	commit(t, s, &offsetstore.Txn{})
	p.Fail(errors.New("no luck"))
	submitAll(n)
	_ = try(t, s, put(key1, at(1)))
	p.Fail(nil)
	commit(t, s, &offsetstore.Txn{})
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for i := range calls {
		if got := calls[i].Load(); got != 1 {
			t.Fatalf("done of transaction %d was called %d times", i, got)
		}
	}
}

// orderOfSubmits: of a record, which is overwritten, the last one stays; the
// answers come in order too.
func orderOfSubmits(t T, p Place) {
	s := open(t, p)
	for range 5 {
		var mu sync.Mutex
		var order []int
		var last chan error
		release := p.Hold()
		for i := range 100 {
			ch := make(chan error, 2)
			s.Submit(set("space", "key", fmt.Sprint(i)), func(err error) {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				ch <- err
			})
			last = ch
		}
		release()
		if err := await(t, last); err != nil {
			t.Fatalf("commit: %v", err)
		}
		mu.Lock()
		answered := slices.Clone(order)
		mu.Unlock()
		if !slices.IsSorted(answered) {
			t.Fatalf("answers came in the order %v", answered)
		}
		recordIs(t, s, "space", "key", "99")
	}
}

// mixed is a transaction of everything, on top of base.
func mixed() (base, txn *offsetstore.Txn) {
	gone := key("a", "gone", "0")
	base = put(gone, at(1))
	base.Sets = set("space", "gone", "x").Sets
	txn = &offsetstore.Txn{
		Puts:    []offsetstore.Put{{Key: key1, Value: at(2)}, {Key: key("b", "c", "1"), Value: at(3)}},
		Deletes: []offsetstore.Key{gone},
		Sets:    set("space", "key", "value").Sets,
		Unsets:  []offsetstore.Record{{Space: "space", Key: "gone"}},
	}
	return base, txn
}

// isMixed tells whether the changes of mixed are all there (true) or none.
func isMixed(t T, s offsetstore.Store, want bool) {
	t.Helper()
	gone := key("a", "gone", "0")
	if !want {
		holds(t, s, gone, at(1))
		absent(t, s, key1)
		absent(t, s, key("b", "c", "1"))
		recordIs(t, s, "space", "gone", "x")
		recordIs(t, s, "space", "key", "")
		return
	}
	absent(t, s, gone)
	holds(t, s, key1, at(2))
	holds(t, s, key("b", "c", "1"), at(3))
	recordIs(t, s, "space", "gone", "")
	recordIs(t, s, "space", "key", "value")
}

func allOrNothing(t T, p Place) {
	s := open(t, p)
	base, txn := mixed()
	commit(t, s, base)
	p.Hold()
	submit(s, txn)
	isMixed(t, s, false)
	p.Kill()
	s = open(t, p)
	isMixed(t, s, false)
	_, txn = mixed()
	commit(t, s, txn)
	isMixed(t, s, true)
	p.Kill()
	s = open(t, p)
	isMixed(t, s, true)
}

func failedIsNowhere(t T, p Place) {
	s := open(t, p)
	base, txn := mixed()
	commit(t, s, base)
	full := errors.New("disk full")
	p.Fail(full)
	if err := try(t, s, txn); !errors.Is(err, full) {
		t.Fatalf("commit on a full disk: %v", err)
	}
	if err := s.Healthy(); !errors.Is(err, full) {
		t.Fatalf("healthy on a full disk: %v", err)
	}
	isMixed(t, s, false)
	p.Fail(nil)
	if err := s.Healthy(); err != nil {
		t.Fatalf("healthy after healing: %v", err)
	}
	isMixed(t, s, false)
	_, txn = mixed()
	commit(t, s, txn)
	isMixed(t, s, true)
}

// failedIsNotTriedAgain: a transaction that was told to have failed does not
// happen later.
func failedIsNotTriedAgain(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(1)))
	p.Fail(errors.New("disk full"))
	if err := try(t, s, put(key1, at(9))); err == nil {
		t.Fatalf("commit on a full disk succeeded")
	}
	if err := try(t, s, put(key("a", "new", "0"), at(9))); err == nil {
		t.Fatalf("commit on a full disk succeeded")
	}
	p.Fail(nil)
	commit(t, s, put(key1, at(2)))
	holds(t, s, key1, at(2))
	absent(t, s, key("a", "new", "0"))
	s = reopen(t, p, s)
	holds(t, s, key1, at(2))
	absent(t, s, key("a", "new", "0"))
}

// tooBigIsRefusedAlone: its neighbours in the queue are not.
func tooBigIsRefusedAlone(t T, p Place) {
	big := p.TooBig()
	if big == nil {
		return // the store takes any size
	}
	s := open(t, p)
	release := p.Hold()
	first := submit(s, put(key1, at(1)))
	before, refused, after := submit(s, put(key1, at(2))), submit(s, big), submit(s, set("space", "key", "value"))
	release()
	for _, ch := range []chan error{first, before, after} {
		if err := await(t, ch); err != nil {
			t.Fatalf("neighbour: %v", err)
		}
	}
	if err := await(t, refused); !errors.Is(err, offsetstore.ErrTooBig) {
		t.Fatalf("too big a transaction: %v, want ErrTooBig", err)
	}
	holds(t, s, key1, at(2))
	for _, p := range big.Puts {
		absent(t, s, p.Key)
	}
	commit(t, s, put(key1, at(3)))
	s = reopen(t, p, s)
	holds(t, s, key1, at(3))
	for _, p := range big.Puts {
		absent(t, s, p.Key)
	}
}

// largeGroup queues more than a store may commit at once.
func largeGroup(t T, p Place) {
	s := open(t, p)
	const n = 20_000
	release := p.Hold()
	answers := make(chan error, n)
	for i := range n {
		txn := put(key("a", name("c", i/2), fmt.Sprint(i%2)), at(int64(i)))
		txn.Sets = set("space", name("r", i), "value").Sets
		s.Submit(txn, func(err error) { answers <- err })
	}
	release()
	for range n {
		if err := await(t, answers); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	s = reopen(t, p, s)
	if got := dump(t, s); len(got) != n {
		t.Fatalf("%d keys of %d are there", len(got), n)
	}
	holds(t, s, key("a", name("c", n/2-1), "1"), at(n-1))
	recordIs(t, s, "space", name("r", n-1), "value")
}

func deleteRemovesAll(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, full()))
	commit(t, s, &offsetstore.Txn{Deletes: []offsetstore.Key{key1}})
	absent(t, s, key1)
	s = reopen(t, p, s)
	absent(t, s, key1)
	p.Kill()
	s = open(t, p)
	absent(t, s, key1)
	commit(t, s, put(key1, at(3))) // lower than all that was
	holds(t, s, key1, at(3))
	s = reopen(t, p, s)
	holds(t, s, key1, at(3))
}

func deleteIsBeforePut(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, full()))
	commit(t, s, set("space", "key", "old"))
	txn := put(key1, at(3))
	txn.Deletes = []offsetstore.Key{key1}
	txn.Sets = set("space", "key", "new").Sets
	txn.Unsets = []offsetstore.Record{{Space: "space", Key: "key"}}
	commit(t, s, txn)
	holds(t, s, key1, at(3))
	recordIs(t, s, "space", "key", "new")
	s = reopen(t, p, s)
	holds(t, s, key1, at(3))
	recordIs(t, s, "space", "key", "new")
}

func closeCommitsTheQueue(t T, p Place) {
	s := open(t, p)
	release := p.Hold()
	var chs []chan error
	for i := range 50 {
		chs = append(chs, submit(s, put(key("a", name("c", i), "0"), at(1))))
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	none(t, closed, "closed while a commit was under way")
	release()
	if err := await(t, closed); err != nil {
		t.Fatalf("close: %v", err)
	}
	for _, ch := range chs {
		if err := await(t, ch); err != nil && !errors.Is(err, offsetstore.ErrClosed) {
			t.Fatalf("queued before close: %v", err)
		}
	}
	s = open(t, p)
	if got := dump(t, s); len(got) != 50 {
		t.Fatalf("%d keys of 50 are there", len(got))
	}
}

func closedAnswersClosed(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(1)))
	m, err := s.Marker(key1)
	if err != nil {
		t.Fatalf("marker: %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	_, _, errGet := s.Get(key1)
	_, _, errRecord := s.GetRecord("space", "key")
	_, errMarker := s.Marker(key1)
	for what, err := range map[string]error{
		"Get":         errGet,
		"GetRecord":   errRecord,
		"Marker":      errMarker,
		"Mark":        m.Mark(1, 5),
		"Scan":        s.Scan("", func(offsetstore.Key, offsetstore.Value) bool { return true }),
		"ScanRecords": s.ScanRecords("space", "", "", func(string, []byte) bool { return true }),
		"Healthy":     s.Healthy(),
		"Submit":      try(t, s, put(key1, at(2))),
	} {
		if !errors.Is(err, offsetstore.ErrClosed) {
			t.Errorf("%s of a closed store: %v, want ErrClosed", what, err)
		}
	}
}

func oneAtATime(t T, p Place) {
	s := open(t, p)
	if _, err := p.Open(); !errors.Is(err, offsetstore.ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	commit(t, s, put(key1, at(1)))
	reopen(t, p, s)
}

func commitWaitsForContext(t T, p Place) {
	s := open(t, p)
	release := p.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := offsetstore.Commit(ctx, s, put(key1, at(1))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("commit: %v, want the context's error", err)
	}
	release()
	if err := offsetstore.Commit(t.Context(), s, put(key1, at(2))); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

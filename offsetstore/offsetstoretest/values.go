package offsetstoretest

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// full is a value with everything in it.
func full() offsetstore.Value {
	return offsetstore.Value{
		Epoch:    3,
		Position: 100,
		Finished: []offset.Range{{First: 102, Last: 110}, {First: 120, Last: 120}},
		High:     200,
		Attempts: []offsetstore.Attempt{
			{Range: one(100), Sent: 3, Spent: 2, Breaks: 1, Due: 1_700_000_000_000},
			{Range: offset.Range{First: 111, Last: 112}, Sent: 2},
		},
		Log:    fullLog(),
		Absent: 1_700_000_000_001,
	}
}

func fullLog() offsetstore.LogID {
	return offsetstore.LogID{
		TopicID: "a-topic-id", Floor: offsetstore.Fingerprint{Offset: 99, Hash: 1 << 63, LeaderEpoch: 4},
		Top: offsetstore.Fingerprint{Offset: 150, Hash: 1, LeaderEpoch: -1},
	}
}

func absence(t T, p Place) {
	s := open(t, p)
	absent(t, s, key1)
	recordIs(t, s, "space", "key", "")
	if _, err := s.Marker(key1); !errors.Is(err, offsetstore.ErrNotFound) {
		t.Fatalf("marker of an absent key: %v, want ErrNotFound", err)
	}
	if got := dump(t, s); len(got) > 0 {
		t.Fatalf("a new store has %v", got)
	}
	commit(t, s, &offsetstore.Txn{Deletes: []offsetstore.Key{key1}, Unsets: []offsetstore.Record{{Space: "space", Key: "key"}}})
	absent(t, s, key1)
	commit(t, s, &offsetstore.Txn{})
	commit(t, s, put(key1, offsetstore.Value{}))
	holds(t, s, key1, offsetstore.Value{})
	if err := s.Healthy(); err != nil {
		t.Fatalf("healthy: %v", err)
	}
}

func putAndGet(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, full()))
	holds(t, s, key1, full())
	s = reopen(t, p, s)
	holds(t, s, key1, full())
	absent(t, s, key("orders", "billing", "1"))
}

func slicesAreTheCallers(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, full()))
	holds(t, s, key1, full())
	v := get(t, s, key1)
	v.Finished[0], v.Attempts[0].Sent = one(150), 77
	holds(t, s, key1, full())
	commit(t, s, set("space", "key", "value"))
	r, _, err := s.GetRecord("space", "key")
	if err != nil || len(r) == 0 {
		t.Fatalf("record is %q, error %v", r, err)
	}
	r[0] = 'X'
	recordIs(t, s, "space", "key", "value")
}

func transactionIsTheCallersAgain(t T, p Place) {
	s := open(t, p)
	txn := put(key1, full())
	txn.Sets = set("space", "key", "value").Sets
	commit(t, s, txn)
	txn.Puts[0].Value.Finished[0], txn.Puts[0].Value.Attempts[0].Sent = one(150), 77
	txn.Sets[0].Value[0] = 'X'
	holds(t, s, key1, full())
	recordIs(t, s, "space", "key", "value")
}

// floorNotMaximum: acked 7 before 5 leaves the position at 5 and remembers 7.
func floorNotMaximum(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, at(5)))
	commit(t, s, put(key1, at(5, one(7))))
	holds(t, s, key1, at(5, one(7)))
	s = reopen(t, p, s)
	holds(t, s, key1, at(5, one(7)))
	commit(t, s, put(key1, at(6)))
	holds(t, s, key1, at(6, one(7)))
	commit(t, s, put(key1, at(8)))
	holds(t, s, key1, at(8))
}

func lowerIsNoOp(t T, p Place) {
	s := open(t, p)
	high := full()
	commit(t, s, put(key1, high))
	low := at(11)
	low.Epoch, low.High, low.Absent = high.Epoch, 150, 5
	commit(t, s, put(key1, low))
	holds(t, s, key1, high)
	low.High = 300 // a fact whoever recorded it
	commit(t, s, put(key1, low))
	high.High = 300
	holds(t, s, key1, high)
	s = reopen(t, p, s)
	holds(t, s, key1, high)
}

func finishedIsUnited(t T, p Place) {
	s := open(t, p)
	for _, o := range []int64{9, 3, 7, 8} {
		commit(t, s, put(key1, at(0, one(o))))
	}
	holds(t, s, key1, at(0, one(3), offset.Range{First: 7, Last: 9}))
	// Many of one group too.
	var last chan error
	for o := int64(1000); o < 1200; o += 2 {
		last = submit(s, put(key1, at(0, one(o))))
	}
	if err := await(t, last); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if v := get(t, s, key1); len(v.Finished) != 102 || v.Position != 0 {
		t.Fatalf("have %d finished ranges and position %d, want 102 and 0", len(v.Finished), v.Position)
	}
}

func resetGoesDown(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, full()))
	down := offsetstore.Value{Epoch: 4, Position: 7}
	commit(t, s, put(key1, down))
	holds(t, s, key1, down)
	s = reopen(t, p, s)
	holds(t, s, key1, down)
}

func lowerEpochChangesNothing(t T, p Place) {
	s := open(t, p)
	commit(t, s, put(key1, offsetstore.Value{Epoch: 4, Position: 7}))
	stale := full() // of epoch 3, far above
	commit(t, s, put(key1, stale))
	holds(t, s, key1, offsetstore.Value{Epoch: 4, Position: 7})
	s = reopen(t, p, s)
	holds(t, s, key1, offsetstore.Value{Epoch: 4, Position: 7})
}

// valuesMatchModel compares random changes of a few keys with a map that Merge
// is applied to, over restarts.
func valuesMatchModel(t T, p Place) {
	r := rand.New(rand.NewPCG(7, 11))
	keys := []offsetstore.Key{key("a", "x", "0"), key("a", "x", "1"), key("a", "y", "0"), key("b", "x", "0")}
	model := map[offsetstore.Key]offsetstore.Value{}
	s := open(t, p)
	for step := range 300 {
		txn := randomTxn(r, keys)
		commit(t, s, txn)
		applyModel(model, txn)
		if step%50 == 49 {
			s = reopen(t, p, s)
		}
		got := dump(t, s)
		for _, k := range keys {
			g, ok := got[k]
			w, want := model[k]
			if ok != want || !same(g, w) {
				t.Fatalf("step %d: %v has %+v (%v), want %+v (%v)", step, k, g, ok, w, want)
			}
		}
	}
}

func applyModel(model map[offsetstore.Key]offsetstore.Value, txn *offsetstore.Txn) {
	for _, k := range txn.Deletes {
		delete(model, k)
	}
	for _, p := range txn.Puts {
		next := offsetstore.Normal(p.Value).Clone()
		if cur, ok := model[p.Key]; ok {
			next = offsetstore.Merge(cur, next).Clone()
		}
		model[p.Key] = next
	}
}

func randomTxn(r *rand.Rand, keys []offsetstore.Key) *offsetstore.Txn {
	txn := &offsetstore.Txn{}
	for range 1 + r.IntN(3) {
		k := keys[r.IntN(len(keys))]
		if r.IntN(20) == 0 {
			txn.Deletes = append(txn.Deletes, k)
			continue
		}
		txn.Puts = append(txn.Puts, offsetstore.Put{Key: k, Value: randomValue(r)})
	}
	return txn
}

func randomValue(r *rand.Rand) offsetstore.Value {
	v := offsetstore.Value{Position: r.Int64N(100), Absent: r.Int64N(5), High: r.Int64N(200)}
	if r.IntN(30) == 0 {
		v.Epoch = uint64(r.IntN(4))
	}
	for range r.IntN(4) {
		first := r.Int64N(150)
		v.Finished = append(v.Finished, offset.Range{First: first, Last: first + r.Int64N(9)})
		v.Attempts = append(v.Attempts, offsetstore.Attempt{Range: one(r.Int64N(150)), Sent: r.Int32N(6)})
	}
	v.Finished = slices.Clip(v.Finished)
	return v
}

// Package offsetstoretest holds every offset store to the contract of package
// offsetstore: values are merged and never go down, what is told is durable,
// what failed is nowhere, order and atomicity are kept, absence is told from
// failure. Its own tests run it against stores with known bugs, each of which
// it must catch.
package offsetstoretest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// T is what a case needs of a *testing.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// Place is where a store is kept, and the hand on its disk. One store at a
// time is open in it.
type Place interface {
	// Open opens the store with what was kept. The place closes it at the end
	// of the test.
	Open() (offsetstore.Store, error)
	// Kill ends the open store as the death of the process would, so that it
	// can be opened again. Commits are not under way, unless held.
	Kill()
	// Fail makes commits fail with an error that wraps err, until it is called
	// with nil.
	Fail(err error)
	// Hold makes commits wait until release is called. Kill and the end of
	// the test release.
	Hold() (release func())
	// TooBig is a transaction that ErrTooBig refuses; nil where there is none.
	TooBig() *offsetstore.Txn
	// Tidy does at once what the store does in the background with its files.
	Tidy()
}

// Case is one promise.
type Case struct {
	Name string
	Run  func(t T, p Place)
}

// Run runs the whole suite, each case with a place of its own.
func Run(t *testing.T, place func(t *testing.T) Place) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, place(t)) })
	}
}

// Cases are all cases of the suite but those that stand alone: C10, C11, C22,
// C63 and C74.
func Cases() []Case {
	return []Case{
		{"AbsenceIsNoError", absence},
		{"PutAndGet", putAndGet},
		{"SlicesAreTheCallers", slicesAreTheCallers},
		{"TransactionIsTheCallersAgain", transactionIsTheCallersAgain},
		{"FloorNotMaximum", floorNotMaximum},
		{"LowerIsNoOp", lowerIsNoOp},
		{"FinishedIsUnited", finishedIsUnited},
		{"ResetGoesDown", resetGoesDown},
		{"LowerEpochChangesNothing", lowerEpochChangesNothing},
		{"ValuesMatchModel", valuesMatchModel},
		{"ToldIsDurable", toldIsDurable},
		{"VisibleIsDurable", visibleIsDurable},
		{"DoneOnce", doneOnce},
		{"OrderOfSubmits", orderOfSubmits},
		{"AllOrNothing", allOrNothing},
		{"FailedIsNowhere", failedIsNowhere},
		{"FailedIsNotTriedAgain", failedIsNotTriedAgain},
		{"TooBigIsRefusedAlone", tooBigIsRefusedAlone},
		{"DeleteRemovesAll", deleteRemovesAll},
		{"DeleteIsBeforePut", deleteIsBeforePut},
		{"CloseCommitsTheQueue", closeCommitsTheQueue},
		{"ClosedAnswersClosed", closedAnswersClosed},
		{"OneAtATime", oneAtATime},
		{"CommitWaitsForContext", commitWaitsForContext},
		{"ScanByTopic", scanByTopic},
		{"ScanStopsAndCallsBack", scanStopsAndCallsBack},
		{"Records", records},
		{"ScanRecordsByPrefix", scanRecordsByPrefix},
		{"ScanManyRecords", scanManyRecords},
		{"MarkRaisesHigh", markRaisesHigh},
		{"MarkSurvivesKill", markSurvivesKill},
		{"MarkOfDeletedKey", markOfDeletedKey},
		{"MarksOfManyKeys", marksOfManyKeys},
		{"AllAtOnce", allAtOnce},
		{"LargeGroup", largeGroup},
	}
}

// patience is how long a case waits for what must come; moment how long it
// looks for what must not.
const (
	patience = 60 * time.Second
	moment   = 30 * time.Millisecond
)

// open opens the store of a place.
func open(t T, p Place) offsetstore.Store {
	t.Helper()
	s, err := p.Open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// reopen closes a store and opens it again.
func reopen(t T, p Place, s offsetstore.Store) offsetstore.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return open(t, p)
}

// key is a key for tests.
func key(topic, client, partition string) offsetstore.Key {
	return offsetstore.Key{
		Topic:      topic,
		Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client},
		Partition:  partition,
	}
}

var key1 = key("orders", "billing", "0")

// put is a transaction of one put.
func put(k offsetstore.Key, v offsetstore.Value) *offsetstore.Txn {
	return &offsetstore.Txn{Puts: []offsetstore.Put{{Key: k, Value: v}}}
}

// set is a transaction of one record.
func set(space, k, v string) *offsetstore.Txn {
	return &offsetstore.Txn{Sets: []offsetstore.Record{{Space: space, Key: k, Value: []byte(v)}}}
}

// at is a value of epoch 1 at a position, with finished offsets above.
func at(position int64, finished ...offset.Range) offsetstore.Value {
	return offsetstore.Value{Epoch: 1, Position: position, Finished: finished}
}

func one(o int64) offset.Range { return offset.Range{First: o, Last: o} }

// commit commits a transaction that must succeed.
func commit(t T, s offsetstore.Store, txn *offsetstore.Txn) {
	t.Helper()
	if err := try(t, s, txn); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// try commits a transaction and returns its fate.
func try(t T, s offsetstore.Store, txn *offsetstore.Txn) error {
	t.Helper()
	return await(t, submit(s, txn))
}

// submit submits a transaction; the channel gets its fate, each time done is
// called.
func submit(s offsetstore.Store, txn *offsetstore.Txn) chan error {
	ch := make(chan error, 8)
	s.Submit(txn, func(err error) { ch <- err })
	return ch
}

// await waits for what must come.
func await[V any](t T, ch <-chan V) (v V) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-ch:
	case <-timer.C:
		t.Fatalf("nothing came within %v", patience)
	}
	return v
}

// none looks for a moment for what must not come.
func none[V any](t T, ch <-chan V, what string) {
	t.Helper()
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case v := <-ch:
		t.Fatalf("%s: %v", what, v)
	case <-timer.C:
	}
}

// get reads a value that must be there.
func get(t T, s offsetstore.Store, k offsetstore.Key) offsetstore.Value {
	t.Helper()
	v, ok, err := s.Get(k)
	if err != nil || !ok {
		t.Fatalf("get %v: present %v, error %v", k, ok, err)
	}
	return v
}

// holds compares what a key has with what it is to have.
func holds(t T, s offsetstore.Store, k offsetstore.Key, want offsetstore.Value) {
	t.Helper()
	if got := get(t, s, k); !same(got, offsetstore.Normal(want)) {
		t.Fatalf("%v has %+v, want %+v", k, got, want)
	}
}

// absent holds that a key has no value.
func absent(t T, s offsetstore.Store, k offsetstore.Key) {
	t.Helper()
	if v, ok, err := s.Get(k); ok || err != nil {
		t.Fatalf("%v has %+v, present %v, error %v, want none", k, v, ok, err)
	}
}

// same compares values; empty and nil slices are the same.
func same(a, b offsetstore.Value) bool {
	return reflect.DeepEqual(compact(a), compact(b))
}

func compact(v offsetstore.Value) offsetstore.Value {
	if len(v.Finished) == 0 {
		v.Finished = nil
	}
	if len(v.Attempts) == 0 {
		v.Attempts = nil
	}
	return v
}

// recordIs compares a record; want "" for none.
func recordIs(t T, s offsetstore.Store, space, k, want string) {
	t.Helper()
	v, ok, err := s.GetRecord(space, k)
	if err != nil || ok != (want != "") || string(v) != want {
		t.Fatalf("record %q %q is %q, present %v, error %v, want %q", space, k, v, ok, err, want)
	}
}

// dump is everything that a scan of all topics finds.
func dump(t T, s offsetstore.Store) map[offsetstore.Key]offsetstore.Value {
	t.Helper()
	out := map[offsetstore.Key]offsetstore.Value{}
	err := s.Scan("", func(k offsetstore.Key, v offsetstore.Value) bool {
		if _, twice := out[k]; twice {
			t.Errorf("scan finds %v twice", k)
		}
		out[k] = compact(v)
		return true
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return out
}

// name makes names for loops.
func name(prefix string, i int) string { return fmt.Sprintf("%s-%05d", prefix, i) }

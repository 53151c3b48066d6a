package embedded

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// A client that got no answer because the server crashed sends again; what
// had been stored is found, wherever in the log it is.
func TestDedupAfterCrash(t *testing.T) {
	disk := crashfs.New()
	o := Options{FS: disk, Partitions: 2, SegmentSize: 2 << 10}
	l := mustOpen(t, "/d", o)
	var evs []storage.Event
	var was []storage.Appended
	for i := range 50 {
		evs = append(evs, storage.Event{Frame: kib(i)[0].Frame[:100], DedupKey: fmt.Sprint("source/", i)})
		was = append(was, mustAppend(t, l, "t", evs[i:])...)
	}
	o.FS = disk.PowerLoss()
	l = mustOpen(t, "/d", o)
	for i, r := range mustAppend(t, l, "t", evs) {
		want := was[i]
		want.Duplicate = true
		if r != want {
			t.Fatalf("event %d: %+v, want %+v", i, r, want)
		}
	}
	if r := mustAppend(t, l, "t", []storage.Event{{Frame: []byte("x"), DedupKey: "source/50"}}); r[0].Duplicate {
		t.Errorf("a new event: %+v", r)
	}
}

// Beyond the bound the oldest keys are forgotten, at the start as well.
func TestDedupIsBounded(t *testing.T) {
	disk := crashfs.New()
	o := Options{FS: disk, Partitions: 1, DedupEntries: 100}
	l := mustOpen(t, "/d", o)
	event := func(i int) []storage.Event {
		return []storage.Event{{Frame: []byte("x"), DedupKey: fmt.Sprint(i)}}
	}
	for i := range 1000 {
		mustAppend(t, l, "t", event(i))
	}
	for range 2 {
		if n := l.commits.dedup.len(); n > 100 || n < 50 {
			t.Errorf("%d keys are remembered, want at most 100", n)
		}
		if r := mustAppend(t, l, "t", event(960)); !r[0].Duplicate || r[0].Offset != 960 {
			t.Errorf("a young key: %+v", r)
		}
		o.FS = disk.Kill()
		l = mustOpen(t, "/d", o)
	}
	if r := mustAppend(t, l, "t", event(3)); r[0].Duplicate {
		t.Errorf("an old key: %+v", r)
	}
}

// While the first is being written a repeat waits for its fate and shares it.
func TestDedupWhileTheFirstIsUnderWay(t *testing.T) {
	for _, fails := range []bool{false, true} {
		disk := crashfs.New()
		l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1})
		mustAppend(t, l, "t", events("k", 0, 1))
		inSync, goOn := make(chan struct{}, 10), make(chan error, 10)
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind != "sync" {
				return nil
			}
			inSync <- struct{}{}
			return <-goOn
		})
		type fate struct {
			r   []storage.Appended
			err error
		}
		fates := make([]chan fate, 3)
		for i := range fates {
			fates[i] = make(chan fate, 1)
			ev := []storage.Event{{Frame: fmt.Append(nil, "try ", i), DedupKey: "id"}}
			if err := l.Append(t.Context(), "t", ev, func(r []storage.Appended, err error) { fates[i] <- fate{r, err} }); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				<-inSync
			}
		}
		first := error(nil)
		if fails {
			first = crashfs.ErrInjected
		}
		goOn <- first
		close(goOn)
		a, b, c := <-fates[0], <-fates[1], <-fates[2]
		switch {
		case fails && (a.err == nil || b.err != nil || b.r[0].Duplicate || !c.r[0].Duplicate || c.r[0].Offset != 1):
			t.Errorf("the first failed: %+v, then %+v, %+v", a, b, c)
		case !fails && (a.err != nil || !b.r[0].Duplicate || !c.r[0].Duplicate || c.r[0].Offset != a.r[0].Offset):
			t.Errorf("the first succeeded: %+v, then %+v, %+v", a, b, c)
		}
		if got := readAll(t, l, "t", "0", 1); len(got) != 1 {
			t.Errorf("%d records", len(got))
		}
	}
}

// The table does what a map with times would do.
func TestDedupAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 1000
		limit := rapid.IntRange(1, 3000).Draw(t, "limit")
		d := newDedup(window*time.Millisecond, limit)
		adds := 0
		number := map[dedupKey]int{} // which add it was
		places := map[dedupKey]place{}
		now := int64(0)
		// Few homes, so that keys collide, and the ring wraps around 2^32.
		d.first, d.next = 1<<32-700, 1<<32-700
		key := func() dedupKey {
			return dedupKey{rapid.Uint64Range(0, 40).Draw(t, "home"), rapid.Uint64Range(1, 60).Draw(t, "key")}
		}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			now += rapid.Int64Range(0, window/2).Draw(t, "later")
			var added []dedupKey
			for range rapid.IntRange(1, 200).Draw(t, "adds") {
				k := key()
				got, ok := d.find(k, now)
				want, known := places[k]
				known = known && now-want.time <= window
				if ok && (!known || got != want) || !ok && known && adds-number[k] < limit {
					t.Fatalf("at %d key %v: %+v %v, want %+v %v", now, k, got, ok, want, known)
				}
				if ok {
					continue
				}
				p := place{offset: int64(adds), time: now, part: 3}
				d.add(k, p)
				places[k], number[k] = p, adds
				adds++
				added = append(added, k)
				if d.len() > limit {
					t.Fatalf("%d keys, the limit is %d", d.len(), limit)
				}
			}
			if rapid.Bool().Draw(t, "failed") {
				for _, k := range slices.Backward(added) {
					d.forget(k)
					delete(places, k)
				}
			}
		}
	})
}

// Equal events from many callers at once are stored once.
func TestDedupManyCallers(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{NoSync: true})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				if _, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Key: "k", Frame: fmt.Append(nil, i), DedupKey: fmt.Sprint(i)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for _, p := range []string{"0", "1", "2", "3"} {
		n += len(readAll(t, l, "t", p, 0))
	}
	if n != 200 {
		t.Errorf("%d records, want 200", n)
	}
}

// A clock that is set back makes the window no longer: an event that comes
// again after it is a new one, also after a restart.
func TestDedupWhenTheClockIsSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		a := newAged(t, Options{})
		again := func(want bool) {
			t.Helper()
			r := mustAppend(t, a.Log, "t", []storage.Event{{Frame: []byte("x"), DedupKey: "source/1"}})
			if r[0].Duplicate != want {
				t.Fatalf("restart %v: %+v, want Duplicate %v", restart, r[0], want)
			}
		}
		again(false)
		a.clock.Add(-30 * time.Minute.Milliseconds())
		if restart {
			a.crash(t)
		}
		again(true)
		a.clock.Add(time.Minute.Milliseconds())
		again(true)
		a.clock.Add(time.Minute.Milliseconds() + 1)
		again(false)
	}
}

package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Reading costs no memory of its own, from the tail and from disk.
func TestPollAllocatesNothing(t *testing.T) {
	for _, tail := range []int{64 << 20, 1} {
		l := mustOpen(t, t.TempDir(), Options{Partitions: 1, TailBytes: tail, NoSync: true})
		for i := range 100 {
			evs := make([]storage.Event, 100)
			for j := range evs {
				evs[j] = kib(100*i + j)[0]
			}
			mustAppend(t, l, "t", evs)
		}
		var b storage.Batch
		req := storage.PollRequest{Topic: "t", Partition: "0", MaxBytes: 256 << 10}
		read := func() {
			if err := l.Poll(context.Background(), req, &b); err != nil || len(b.Records) < 200 {
				t.Fatalf("%d records, %v", len(b.Records), err)
			}
			if req.Start = b.Next; req.Start > 9000 {
				req.Start = 0
			}
		}
		for range 100 {
			read()
		}
		if n := testing.AllocsPerRun(100, read); n > 4 {
			t.Errorf("tail of %d bytes: %v allocations in a poll of %d records", tail, n, len(b.Records))
		}
	}
}

// Limits hold, from the tail and from disk, wherever a batch begins.
func TestPollLimits(t *testing.T) {
	for _, tail := range []int{64 << 20, 1} {
		l := mustOpen(t, t.TempDir(), Options{Partitions: 1, TailBytes: tail, NoSync: true, SegmentSize: 32 << 10})
		n := 100
		for i := 0; i < n; i += 10 {
			var evs []storage.Event
			for j := range 10 {
				evs = append(evs, kib(i + j)[0])
			}
			mustAppend(t, l, "t", evs)
		}
		// Fill the smallest tail so that the above is read from disk.
		large := storage.Event{Key: "k", Frame: make([]byte, 5<<20)}
		mustAppend(t, l, "other", []storage.Event{large})
		var b storage.Batch
		for start := range n {
			for _, lim := range []struct{ records, bytes, want int }{{1, 0, 1}, {7, 0, 7}, {0, 1, 1}, {0, 1024, 1}, {0, 3 * 1024, 3}, {0, 25*1024 - 1, 24}, {5, 9 * 1024, 5}} {
				req := storage.PollRequest{Topic: "t", Partition: "0", Start: int64(start), MaxRecords: lim.records, MaxBytes: lim.bytes}
				if err := l.Poll(t.Context(), req, &b); err != nil {
					t.Fatal(err)
				}
				want := min(lim.want, n-start)
				if len(b.Records) != want || b.Start != int64(start) || b.Next != int64(start+want) {
					t.Fatalf("from %d with %+v: %d records, %d..%d", start, lim, len(b.Records), b.Start, b.Next)
				}
				for i, r := range b.Records {
					if r.Offset != int64(start+i) || string(r.Frame) != string(kib(start + i)[0].Frame) {
						t.Fatalf("record %d is %d %.8q", start+i, r.Offset, r.Frame)
					}
				}
			}
		}
	}
}

// Records of every size come back whole, whatever is around them.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{Partitions: 1, TailBytes: 1, SegmentSize: 1 << 20})
	sizes := []int{0, 1, 7, 8, 9, runBytes - 1, runBytes, runBytes + 1, 200 << 10, 3 << 20, 16 << 20, 2, 0}
	var evs []storage.Event
	for i, n := range sizes {
		f := make([]byte, n)
		for j := range f {
			f[j] = byte(i * j)
		}
		evs = append(evs, storage.Event{Frame: f})
	}
	mustAppend(t, l, "t", evs)
	for range 2 {
		got := readAll(t, l, "t", "0", 0)
		if len(got) != len(sizes) {
			t.Fatalf("%d records", len(got))
		}
		for i, r := range got {
			if string(r.Frame) != string(evs[i].Frame) {
				t.Errorf("record %d of %d bytes differs", i, sizes[i])
			}
		}
		mustClose(t, l)
		l = mustOpen(t, dir, Options{Partitions: 1})
	}
}

// Events without a key stay with one partition for 64, then take the next.
func TestPlacement(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{NoSync: true})
	var got []string
	for range 32 {
		for _, r := range mustAppend(t, l, "t", events("", 0, 16)) {
			got = append(got, r.Partition)
		}
	}
	for i, p := range got {
		if want := fmt.Sprint(i / 64 % 4); p != want {
			t.Fatalf("event %d went to %s, want %s", i, p, want)
		}
	}
	seen := map[string]string{}
	for i := range 200 {
		k := fmt.Sprint("key", i%50)
		p := mustAppend(t, l, "t", events(k, 0, 1))[0].Partition
		if was, ok := seen[k]; ok && was != p {
			t.Fatalf("%s went to %s and %s", k, was, p)
		}
		seen[k] = p
	}
	// The placement of keys is part of the format: it holds for ever.
	for k, want := range map[string]string{"a": "3", "b": "3", "flight-7": "2"} {
		if p := mustAppend(t, l, "t", events(k, 0, 1))[0].Partition; p != want {
			t.Errorf("key %q goes to %s, want %s", k, p, want)
		}
	}
}

// Tens of thousands of idle partitions with a waiting poll each cost nothing
// but their callers, and one append wakes only its own.
func TestManyIdlePolls(t *testing.T) {
	const topics, partitions = 20, 1000
	l := mustOpen(t, t.TempDir(), Options{NoSync: true})
	for i := range topics {
		if _, err := l.CreateTopic(t.Context(), fmt.Sprint("t", i), storage.TopicConfig{Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	woken := make(chan string, topics*partitions)
	var wg sync.WaitGroup
	for i := range topics {
		for p := range partitions {
			wg.Go(func() {
				var b storage.Batch
				req := storage.PollRequest{Topic: fmt.Sprint("t", i), Partition: fmt.Sprint(p), Start: storage.Cursor, Wait: time.Hour}
				if err := l.Poll(ctx, req, &b); err == nil {
					woken <- req.Topic + "/" + req.Partition
				}
			})
		}
	}
	waiting := func() (n int) {
		for _, topic := range l.allTopics() {
			for _, p := range topic.parts {
				p.mu.Lock()
				n += len(p.waiters)
				p.mu.Unlock()
			}
		}
		return n
	}
	for waiting() < topics*partitions {
		runtime.Gosched()
	}
	r := mustAppend(t, l, "t7", events("k", 0, 1))
	if got := <-woken; got != "t7/"+r[0].Partition {
		t.Errorf("%s was woken", got)
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes of heap for each waiting poll", (after.HeapAlloc-before.HeapAlloc)/(topics*partitions))
	cancel()
	wg.Wait()
	if len(woken) > 0 || waiting() > 0 {
		t.Errorf("%d others were woken, %d still wait", len(woken), waiting())
	}
}

// Whatever sizes and limits are mixed, no record is left out or comes twice.
func TestPollMixedSizes(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{Partitions: 3, TailBytes: 1, NoSync: true, SegmentSize: 256 << 10})
	rnd := rand.New(rand.NewPCG(1, 2))
	want := map[string][]int{}
	for range 600 {
		var evs []storage.Event
		for range 1 + rnd.IntN(5) {
			size := rnd.IntN(300)
			if rnd.IntN(10) == 0 {
				size = rnd.IntN(30_000)
			}
			evs = append(evs, storage.Event{Key: fmt.Sprint(rnd.IntN(20)), Frame: make([]byte, size)})
		}
		for i, a := range mustAppend(t, l, "t", evs) {
			want[a.Partition] = append(want[a.Partition], len(evs[i].Frame))
		}
	}
	var b storage.Batch
	for round := range 30 {
		for p, sizes := range want {
			req := storage.PollRequest{Topic: "t", Partition: p}
			for int(req.Start) < len(sizes) {
				req.MaxBytes, req.MaxRecords = 1+rnd.IntN(1<<(4+rnd.IntN(16))), 1+rnd.IntN(100)
				if err := l.Poll(t.Context(), req, &b); err != nil {
					t.Fatal(err)
				}
				bytes := 0
				for i, r := range b.Records {
					at := int(req.Start) + i
					if r.Offset != int64(at) || len(r.Frame) != sizes[at] {
						t.Fatalf("round %d: record %d has %d bytes, want %d with %d", round, r.Offset, len(r.Frame), at, sizes[at])
					}
					bytes += len(r.Frame)
				}
				if n := len(b.Records); n == 0 || n > req.MaxRecords || n > 1 && bytes > req.MaxBytes {
					t.Fatalf("round %d: %d records of %d bytes, the limits are %d and %d", round, n, bytes, req.MaxRecords, req.MaxBytes)
				}
				req.Start = b.Next
			}
		}
	}
}

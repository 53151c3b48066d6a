package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// model is one partition, kept the simple way.
type model struct {
	records []storage.Record
	min     int64
	next    int64
	cursor  int64
	last    int64 // time of the newest record ever, ms
}

// at looks an offset up, record by record.
func (m *model) at(want func(storage.Record) bool) int64 {
	for _, r := range m.records {
		if want(r) {
			return r.Offset
		}
	}
	return m.next
}

func (m *model) nearest(ms int64) int64 {
	if len(m.records) == 0 || ms > m.records[len(m.records)-1].Time {
		return m.next
	}
	best := slices.MinFunc(m.records, func(a, b storage.Record) int {
		return int(max(a.Time-ms, ms-a.Time) - max(b.Time-ms, ms-b.Time))
	})
	return best.Offset
}

func (m *model) from(start int64) []storage.Record {
	var list []storage.Record
	for _, r := range m.records {
		if r.Offset >= start {
			list = append(list, r)
		}
	}
	return list
}

// world is a memory log of one partition beside its model.
type world struct {
	t   *rapid.T
	b   *memory.Backend
	m   model
	now int64 // ms
	gap int64 // after the next record
}

func (w *world) append() {
	w.now += rapid.Int64Range(-3, 5).Draw(w.t, "clock")
	w.gap = rapid.SampledFrom([]int64{0, 0, 0, 1, 7}).Draw(w.t, "gap")
	frame := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(w.t, "frame")
	results, err := storage.AppendWait(w.t.Context(), w.b, "t", []storage.Event{{Frame: frame}})
	if err != nil || results[0].Offset != w.m.next {
		w.t.Fatalf("appended %+v, %v; want offset %d", results, err, w.m.next)
	}
	w.m.last = max(w.m.last, w.now)
	w.m.records = append(w.m.records, storage.Record{Offset: w.m.next, Time: w.m.last, Frame: frame})
	w.m.next += 1 + w.gap
}

func (w *world) poll() {
	start := rapid.Int64Range(-1, w.m.next+1).Draw(w.t, "start")
	limit := rapid.IntRange(1, 4).Draw(w.t, "limit")
	from := start
	if start == storage.Cursor {
		from = max(w.m.cursor, 0)
		if w.m.cursor == storage.Cursor {
			from = w.m.min
		}
	}
	var batch storage.Batch
	err := w.b.Poll(w.t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: start, MaxRecords: limit}, &batch)
	if from < w.m.min || from > w.m.next {
		if want := fmt.Sprint(&storage.RangeError{Topic: "t", Partition: "0", Offset: from, Min: w.m.min, Max: w.m.next}); fmt.Sprint(err) != want {
			w.t.Fatalf("poll at %d: %v, want %s", from, err, want)
		}
		return
	}
	left := w.m.from(from)
	want := left[:min(limit, len(left))]
	if err != nil || fmt.Sprint(batch.Records) != fmt.Sprint(want) || batch.Start != from {
		w.t.Fatalf("poll at %d: %v from %d, %v; want %v", from, batch.Records, batch.Start, err, want)
	}
	if rest := w.m.from(batch.Next); len(rest) != len(left)-len(want) {
		w.t.Fatalf("poll at %d: Next %d leaves %d records, want %d", from, batch.Next, len(rest), len(left)-len(want))
	}
	if start == storage.Cursor {
		w.m.cursor = batch.Next
	}
}

func (w *world) seek() {
	w.m.cursor = rapid.Int64Range(0, w.m.next+2).Draw(w.t, "seek")
	if err := w.b.Seek(w.t.Context(), "t", "0", w.m.cursor); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trim() {
	before := rapid.Int64Range(0, w.m.next+1).Draw(w.t, "before")
	err := w.b.Trim(w.t.Context(), "t", "0", before)
	if (err != nil) != (before > w.m.next) {
		w.t.Fatalf("trim to %d of %d: %v", before, w.m.next, err)
	}
	if err == nil && before > w.m.min {
		w.m.min = before
		w.m.records = w.m.from(before)
	}
}

func (w *world) byTime() {
	ms := w.now + rapid.Int64Range(-20, 20).Draw(w.t, "time")
	near, err1 := w.b.OffsetByTime(w.t.Context(), "t", "0", time.UnixMilli(ms), storage.Nearest)
	after, err2 := w.b.OffsetByTime(w.t.Context(), "t", "0", time.UnixMilli(ms), storage.AtOrAfter)
	wantAfter := w.m.at(func(r storage.Record) bool { return r.Time >= ms })
	if err1 != nil || err2 != nil || near != w.m.nearest(ms) || after != wantAfter {
		w.t.Fatalf("time %d: nearest %d, at or after %d; want %d, %d in %v", ms, near, after, w.m.nearest(ms), wantAfter, w.m.records)
	}
}

func (w *world) check() {
	low, high, err := w.b.Bounds(w.t.Context(), "t", "0")
	if low != w.m.min || high != w.m.next || err != nil {
		w.t.Fatalf("bounds %d..%d, %v; want %d..%d", low, high, err, w.m.min, w.m.next)
	}
	next, ok := w.b.Cursor("t", "0")
	if ok != (w.m.cursor != storage.Cursor) || ok && next != w.m.cursor {
		w.t.Fatalf("cursor %d, %v; want %d", next, ok, w.m.cursor)
	}
	_, ok, err = w.b.Fingerprint(w.t.Context(), "t", "0", w.m.next)
	if ok != (len(w.m.records) > 0) || err != nil {
		w.t.Fatalf("fingerprint %v, %v with %d records", ok, err, len(w.m.records))
	}
}

// Random calls on the log and on a simple list give the same.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: 1_000_000, m: model{cursor: storage.Cursor}}
		w.b = memory.New(memory.Options{
			Partitions: 1,
			Clock:      func() time.Time { return time.UnixMilli(w.now) },
			Gap:        func(string, string, int64) int64 { return w.gap },
		})
		defer w.b.Close()
		if _, err := w.b.EnsureTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		step := func(f func()) func(*rapid.T) {
			return func(t *rapid.T) { w.t = t; f() }
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": step(w.append), "poll": step(w.poll), "seek": step(w.seek), "trim": step(w.trim),
			"time": step(w.byTime), "reopen": step(func() { w.b = w.b.Reopen() }), "": step(w.check),
		})
	})
}

package dispatch

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
)

// TestCacheAgainstModel holds the window against a map of what was put in: what
// it covers it has right, and its chunks never overlap.
func TestCacheAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w cache
		dropped := 0
		for range rapid.IntRange(1, 80).Draw(t, "ops") {
			start := rapid.Int64Range(0, 200).Draw(t, "start")
			c := &chunk{start: start, next: start + rapid.Int64Range(1, 30).Draw(t, "len"), batch: &storage.Batch{Buf: make([]byte, 10)}}
			for o := start; o < c.next; o++ {
				if o%3 != 0 { // every third offset is a gap
					c.batch.Records = append(c.batch.Records, storage.Record{Offset: o})
				}
			}
			end := c.next
			inserted := w.insert(c)
			if !inserted && !w.covers(start) {
				t.Fatalf("refused [%d,%d) which is not covered", start, end)
			}
			if inserted && !w.covers(c.start) {
				t.Fatalf("[%d,%d) is not there after it was put in", c.start, c.next)
			}
			if rapid.Bool().Draw(t, "evict") {
				w.evict(rapid.Int64Range(0, 100).Draw(t, "low"), 100, func(*chunk) { dropped++ })
			}
			checkCache(t, &w)
		}
	})
}

func checkCache(t *rapid.T, w *cache) {
	end, bytes := int64(-1), 0
	for _, c := range w.chunks {
		if c.start < end || c.start >= c.next {
			t.Fatalf("chunk [%d,%d) after end %d", c.start, c.next, end)
		}
		end = c.next
		bytes += c.size()
	}
	if bytes != w.bytes {
		t.Fatalf("%d bytes counted, %d held", w.bytes, bytes)
	}
	for off := int64(0); off < 240; off++ {
		c := w.find(off)
		if (c != nil) != w.covers(off) {
			t.Fatalf("find and covers differ at %d", off)
		}
		if c == nil {
			continue
		}
		i := c.index(off)
		has := i < len(c.batch.Records) && c.batch.Records[i].Offset == off
		if has != (off%3 != 0) {
			t.Fatalf("offset %d: found %v in [%d,%d)", off, has, c.start, c.next)
		}
	}
}

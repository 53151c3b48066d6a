package dispatch

import (
	"sort"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// chunk is one batch of records read from a partition: everything that the log
// holds in [start, next).
type chunk struct {
	start, next int64
	batch       *storage.Batch
	surveyed    int      // records that expires and to are known of, the first ones
	expires     []int64  // when each record expires, ms since 1970; 0: never; nil: none does
	to          []string // whom each record is addressed to; "": all; nil: all are
	used        uint64   // the cache's clock when it was last read
	wire        encodings
	verdicts    verdicts // of filters
}

// survey has expires and to be known of record i. A record is looked at just
// before it is encoded for the first time: then its bytes come from memory once.
func (c *chunk) survey(i int) {
	for recs := c.batch.Records; c.surveyed <= i; c.surveyed++ {
		expires, to := survey(&recs[c.surveyed])
		if expires != 0 {
			c.expires = at(c.expires, c.surveyed, len(recs), expires)
		}
		if to != "" {
			c.to = at(c.to, c.surveyed, len(recs), to)
		}
	}
}

// foreign tells whether record i is addressed to another subscriber.
func (c *chunk) foreign(i int, sub *subscriber) bool {
	c.survey(i)
	return c.to != nil && c.to[i] != "" && c.to[i] != sub.name
}

// expired tells whether record i has passed its time to live.
func (c *chunk) expired(i int, now time.Time) bool {
	c.survey(i)
	return c.expires != nil && c.expires[i] != 0 && now.UnixMilli() >= c.expires[i]
}

// size is the memory of the chunk's records, encoded ones included.
func (c *chunk) size() int { return cap(c.batch.Buf) + c.wire.size() }

// index is the place of the first record at or above off.
func (c *chunk) index(off int64) int {
	r := c.batch.Records
	if len(r) > 0 && r[0].Offset >= off {
		return 0
	}
	return sort.Search(len(r), func(i int) bool { return r[i].Offset >= off })
}

// cache is the in-memory window of a partition: recent chunks, shared by all
// subscribers. It is owned by the partition's loop.
type cache struct {
	chunks []*chunk // sorted by start, disjoint
	bytes  int
	clock  uint64
}

// find returns the chunk that covers off, nil if none does.
func (w *cache) find(off int64) *chunk {
	i := sort.Search(len(w.chunks), func(i int) bool { return w.chunks[i].next > off })
	if i == len(w.chunks) || w.chunks[i].start > off {
		return nil
	}
	w.clock++
	w.chunks[i].used = w.clock
	return w.chunks[i]
}

// below is the record at the highest offset below next; nil: it is not in the
// window. It does not count as a use.
func (w *cache) below(next int64) *storage.Record {
	i := sort.Search(len(w.chunks), func(i int) bool { return w.chunks[i].next >= next })
	if i == len(w.chunks) || w.chunks[i].start >= next {
		return nil
	}
	c := w.chunks[i]
	if n := c.index(next); n > 0 {
		return &c.batch.Records[n-1]
	}
	return nil
}

// covers tells whether off is in the window, without counting as a use.
func (w *cache) covers(off int64) bool {
	i := sort.Search(len(w.chunks), func(i int) bool { return w.chunks[i].next > off })
	return i < len(w.chunks) && w.chunks[i].start <= off
}

// insert puts a chunk into the window. Where it overlaps others its ends are
// cut; what is covered already is refused (false).
func (w *cache) insert(c *chunk) bool {
	i := sort.Search(len(w.chunks), func(i int) bool { return w.chunks[i].next > c.start })
	if i < len(w.chunks) && w.chunks[i].start <= c.start {
		c.start = w.chunks[i].next
		i++
	}
	for i < len(w.chunks) && w.chunks[i].start < c.next {
		if w.chunks[i].start <= c.start {
			c.start = w.chunks[i].next
			i++
			continue
		}
		c.next = w.chunks[i].start
	}
	if c.start >= c.next {
		return false
	}
	w.clock++
	c.used = w.clock
	w.bytes += c.size()
	w.chunks = append(w.chunks, nil)
	copy(w.chunks[i+1:], w.chunks[i:])
	w.chunks[i] = c
	return true
}

// ahead counts the chunks that begin at or above off.
func (w *cache) ahead(off int64) int {
	i := sort.Search(len(w.chunks), func(i int) bool { return w.chunks[i].start >= off })
	return len(w.chunks) - i
}

// evict drops chunks that lie below low, and the least recently used ones
// while the window is larger than limit bytes, and yields each.
func (w *cache) evict(low int64, limit int, yield func(*chunk)) {
	i := 0
	for i < len(w.chunks) && w.chunks[i].next <= low {
		i++
	}
	w.remove(0, i, yield)
	for w.bytes > limit && len(w.chunks) > 1 {
		oldest := 0
		for j, c := range w.chunks {
			if c.used < w.chunks[oldest].used {
				oldest = j
			}
		}
		w.remove(oldest, oldest+1, yield)
	}
}

// clear drops all chunks.
func (w *cache) clear(yield func(*chunk)) { w.remove(0, len(w.chunks), yield) }

func (w *cache) remove(i, j int, yield func(*chunk)) {
	if i == j {
		return
	}
	for _, c := range w.chunks[i:j] {
		w.bytes -= c.size()
		yield(c)
	}
	n := copy(w.chunks[i:], w.chunks[j:])
	clear(w.chunks[i+n:])
	w.chunks = w.chunks[:i+n]
}

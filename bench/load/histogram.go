package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are at most 3 % wide. The zero
// value is empty. Not safe for concurrent use.
type Histogram struct {
	buckets [64 * subBuckets]uint32
	n       uint64
	max     time.Duration
}

const (
	subBits    = 5
	subBuckets = 1 << subBits
)

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*subBuckets + int(v>>shift) - subBuckets
}

// middle is the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(subBuckets+bucket%subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add counts one duration; negative ones count as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Quantile is the duration that the part q, 0 to 1, of all does not exceed; 0
// where nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	seen := uint64(0)
	for i, n := range h.buckets {
		if seen += uint64(n); n > 0 && seen >= rank {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

// Latency sums a histogram up, in milliseconds.
func (h *Histogram) Latency() Latency {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Latency{Count: int64(h.n), P50: ms(h.Quantile(0.5)), P99: ms(h.Quantile(0.99)), Max: ms(h.max)}
}

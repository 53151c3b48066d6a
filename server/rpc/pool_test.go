package rpc

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever was put in, what comes out has the length that was asked for.
func TestBufferPool_LengthsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewBufferPool()
		size := rapid.IntRange(0, 1<<12)
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			n := size.Draw(t, "length")
			b := p.Get(n)
			if len(*b) != n {
				t.Fatalf("asked for %d bytes, got %d", n, len(*b))
			}
			if rapid.Bool().Draw(t, "grown") {
				*b = append(*b, make([]byte, size.Draw(t, "more"))...)
			}
			if rapid.Bool().Draw(t, "cut") {
				*b = (*b)[: len(*b)/2 : len(*b)/2]
			}
			p.Put(b)
		}
	})
}

// Beyond the largest size buffers are made, not kept.
func TestBufferPool_Largest(t *testing.T) {
	p := NewBufferPool()
	for _, n := range []int{1<<maxTier - 1, 1 << maxTier, 1<<maxTier + 1} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d bytes, got %d", n, len(*b))
		}
		p.Put(b)
	}
}

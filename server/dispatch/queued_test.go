package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"
)

// TestQueuedWithinTheLimit: what waits for many streams that are not read stays
// within the memory limit.
func TestQueuedWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 20
		r := newRig(t, Config{MemoryLimit: limit, WindowBytes: 1 << 20})
		reads := make(chan struct{})
		for i := range 400 {
			r.open(fmt.Sprint("c", i), sinkFunc(func(mem.BufferSlice) error { <-reads; return nil }))
		}
		synctest.Wait()
		most := int64(0)
		for range 10 {
			r.publishSized(64, 1000)
			synctest.Wait()
			most = max(most, r.d.Metrics.QueuedBytes.Load()+r.d.Metrics.inHand.Load())
		}
		if most > limit {
			t.Errorf("%d bytes wait, %d are allowed", most, limit)
		}
		close(reads)
		synctest.Wait()
		if n := r.d.Metrics.QueuedBytes.Load() + r.d.Metrics.inHand.Load(); n != 0 {
			t.Errorf("%d bytes wait though all is read", n)
		}
	})
}

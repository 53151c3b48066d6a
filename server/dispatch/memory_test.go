package dispatch

import (
	"sync"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
)

// TestAdmit: however many partitions have read at a time, what is let in together
// keeps to the limit, what is encoded counted; a chunk that is larger than others
// and one where there is nothing else are let in.
func TestAdmit(t *testing.T) {
	const size, limit, queued = 100 << 10, 1 << 20, 300 << 10
	r := newRig(t, Config{MemoryLimit: limit})
	m := r.d.Metrics
	sized := func(n int) *chunk { return &chunk{batch: &storage.Batch{Buf: make([]byte, n)}} }
	m.QueuedBytes.Store(queued)
	t.Cleanup(func() {
		m.QueuedBytes.Store(0)
		m.WindowBytes.Store(0)
	})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { r.d.admit(sized(size)) })
	}
	wg.Wait()
	if in := m.WindowBytes.Load(); in != (limit-queued)/size*size {
		t.Errorf("%d bytes were let in beside %d, %d are allowed", in, queued, limit)
	}
	if r.d.admit(sized(size)) {
		t.Error("one more was let in")
	}
	if !r.d.admit(sized(pollBytes + 1)) {
		t.Error("a chunk with a large record will never be read")
	}
	m.WindowBytes.Store(0)
	m.QueuedBytes.Store(limit)
	if !r.d.admit(sized(size)) {
		t.Error("nothing is let in where nothing is")
	}
}

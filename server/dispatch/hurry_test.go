package dispatch

import (
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"
)

// TestRetriesDoNotWaitForMoreAcks: what comes again waits for the commit that tells
// of its attempt, so that this one is not held up, also behind one of many acks.
func TestRetriesDoNotWaitForMoreAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		r := newRig(t, Config{})
		s := r.open("c", sinkFunc(func(mem.BufferSlice) error { return nil }))
		r.publish(n)
		synctest.Wait()
		s.mu.Lock()
		first := s.table[0].first
		s.mu.Unlock()
		last := first + n - 1
		if err := s.Ack([]Answered{{First: first, Last: last - 1}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Nack([]Answered{{First: last, Last: last}}, 0, false, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // no time passes
		if acked, sent := r.d.Metrics.Acked.Load(), r.d.Metrics.Delivered.Load(); acked != n-1 || sent != n+1 {
			t.Errorf("behind %d acks, a record is nacked: %d deliveries, want %d at once", acked, sent, n+1)
		}
	})
}

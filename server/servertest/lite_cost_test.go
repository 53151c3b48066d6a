package servertest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestLite_IdleIsCheap: what 1,000 idle lite topics cost in goroutines
// and memory, before and after something happened in each.
func TestLite_IdleIsCheap(t *testing.T) {
	in := Start(t, Options{})
	lite := in.Lite()
	s := OpenLite(t, lite, openLite("c"))
	type cost struct {
		goroutines int
		heap       uint64
	}
	const some = 32 // goroutines that read for all, and end when they have had nothing to do for a while
	measure := func() cost {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return cost{runtime.NumGoroutine(), m.HeapAlloc + m.StackInuse}
	}
	const n = 1000
	before := measure()
	within := func(when string, most uint64) {
		t.Helper()
		Eventually(t, Patience, func() error { // some are at work still
			now := measure()
			more, each := now.goroutines-before.goroutines, (now.heap-min(now.heap, before.heap))/n
			if more > some || each > most {
				return fmt.Errorf("%s: %d goroutines more for %d idle lite topics, %d bytes for each, want %d and %d at most", when, more, n, each, some, most)
			}
			t.Logf("%s: %d goroutines more, %d bytes for each lite topic", when, more, each)
			return nil
		})
	}
	for _, r := range s.ChangeLite(&pb.ChangeLite{Add: liteNames(n)}).GetResults() {
		if r.GetStatus().GetCode() != 0 {
			t.Fatal(r)
		}
	}
	within("new", 12<<10)
	for i := range n {
		PublishLite(t, lite, "chat", liteName(i), string(make([]byte, 1000)))
	}
	s.AckDurable(s.Take(n)...)
	s.Quiet(100 * time.Millisecond)
	within("after an event of 1 KB in each, which the log holds", 16<<10)
	if w := in.Server.Metrics().WindowBytes.Load(); w > 1<<20 {
		t.Errorf("%d bytes of records are kept that everybody has got", w)
	}
}

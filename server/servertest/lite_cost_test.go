package servertest_test

import (
	"math"
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
	before := cost{goroutines: math.MaxInt - some}
	measure := func() cost {
		for deadline := time.Now().Add(Patience); runtime.NumGoroutine() > before.goroutines+some && time.Now().Before(deadline); {
			s.Quiet(10 * time.Millisecond) // some are at work still
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return cost{runtime.NumGoroutine(), m.HeapAlloc + m.StackInuse}
	}
	before = measure()
	const n = 1000
	for from := 0; from < n; from += 1000 {
		for _, r := range s.ChangeLite(&pb.ChangeLite{Add: liteNames(from + 1000)[from:]}).GetResults() {
			if r.GetStatus().GetCode() != 0 {
				t.Fatal(r)
			}
		}
	}
	idle := measure()
	for i := range n {
		PublishLite(t, lite, "chat", liteName(i), string(make([]byte, 1000)))
	}
	s.AckDurable(s.Take(n)...)
	s.Quiet(100 * time.Millisecond)
	used := measure()
	for _, m := range []struct {
		when string
		at   cost
		most uint64
	}{{"new", idle, 12 << 10}, {"after an event of 1 KB in each, which the log holds", used, 16 << 10}} {
		each := (m.at.heap - min(m.at.heap, before.heap)) / n
		t.Logf("%s: %d goroutines more, %d bytes for each lite topic", m.when, m.at.goroutines-before.goroutines, each)
		if m.at.goroutines > before.goroutines+some {
			t.Errorf("%s: %d goroutines more for %d idle lite topics", m.when, m.at.goroutines-before.goroutines, n)
		}
		if each > m.most {
			t.Errorf("%s: %d bytes for each idle lite topic", m.when, each)
		}
	}
	if w := in.Server.Metrics().WindowBytes.Load(); w > 1<<20 {
		t.Errorf("%d bytes of records are kept that everybody has got", w)
	}
}

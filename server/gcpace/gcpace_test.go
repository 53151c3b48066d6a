package gcpace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		live uint64
		room uint64
		want int
	}{
		{0, 64 * mib, 50},
		{1, 64 * mib, 1000},
		{4 * mib, 64 * mib, 1000},
		{20 * mib, 64 * mib, 300},
		{64 * mib, 64 * mib, 100},
		{100 * mib, 64 * mib, 50},
		{10_000 * mib, 64 * mib, 50},
		{20 * mib, 0, 50},
		{20 * mib, 1 << 50, 1000},
	} {
		if got := percentFor(tt.live, 50, tt.room); got != tt.want {
			t.Errorf("%d alive, room %d: %d %%, want %d", tt.live, tt.room, got, tt.want)
		}
	}
}

// The setting follows what is alive, from one collection to the next, and is
// what it was at the end.
func TestStart(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	stop := Start(50, 64<<20)
	await(t, "a small heap", func(percent int) bool { return percent > 200 })
	much := make([]byte, 512<<20)
	await(t, "a large heap", func(percent int) bool { return percent == 50 })
	runtime.KeepAlive(much)
	much = nil
	await(t, "a small heap again", func(percent int) bool { return percent > 200 })
	stop()
	runtime.GC()
	await(t, "the end", func(percent int) bool { return percent == 123 })
	runtime.KeepAlive(much)
}

// await collects until the setting is as it should be.
func await(t *testing.T, what string, ok func(percent int) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for until := time.Now().Add(20 * time.Second); ; <-tick.C {
		runtime.GC()
		metrics.Read(set)
		percent := int(set[0].Value.Uint64())
		if ok(percent) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: the setting is %d %%", what, percent)
		}
	}
}

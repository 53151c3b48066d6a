package delivery

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// BenchmarkInOrder is the whole way of events that are acked in order, with a
// commit for each 16 batches: ns/op is per event.
func BenchmarkInOrder(b *testing.B) {
	for _, size := range []int{24, 48, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			inOrder(b.N, size, 16)
		})
	}
}

func inOrder(events, size, window int) *Machine {
	now := time.Unix(1_000_000, 0)
	m := New(Settings{}, offsetstore.Value{}, now, nil)
	m.Attach(1, 30*time.Second)
	offs := make([]int64, 0, size)
	id, acked, batches := uint64(1), uint64(1), 0
	for off := int64(0); off < int64(events); {
		offs = offs[:0]
		for range size {
			if m.Offer(off, 0) != Send {
				panic("not sent")
			}
			offs = append(offs, off)
			off++
		}
		m.Sent(1, id, offs)
		m.Handed(now, 1, id)
		id += uint64(size)
		batches++
		if batches%window != 0 {
			continue
		}
		for ; acked < id; acked += uint64(size) {
			m.Ack(now, 1, acked, lowBits(size))
		}
		m.Snapshot()
		m.EndCommit(now, true)
	}
	return m
}

// BenchmarkOneStuck acks 50,000 deliveries one by one in random order above one
// that is stuck, with a commit for each 64 acks. It reports the time per
// delivery, of that the share of Snapshot and EndCommit, and what the machine
// holds in the middle and at the end.
func BenchmarkOneStuck(b *testing.B) {
	const n = 50_000
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	b.ReportAllocs()
	var commits time.Duration
	for range b.N {
		_, spent := oneStuck(order)
		commits += spent
	}
	perEvent := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / n }
	b.ReportMetric(perEvent(b.Elapsed()), "ns/event")
	b.ReportMetric(perEvent(commits)*64, "ns/commit")
	b.StopTimer()
	b.ReportMetric(heapOf(func() *Machine { m, _ := oneStuck(order[:n/2]); return m }), "B-half")
	b.ReportMetric(heapOf(func() *Machine { m, _ := oneStuck(order); return m }), "B-end")
}

func oneStuck(order []int) (*Machine, time.Duration) {
	const n = 50_000
	now := time.Unix(1_000_000, 0)
	m := New(Settings{}, offsetstore.Value{}, now, nil)
	m.Attach(1, 30*time.Second)
	offs := make([]int64, 0, 64)
	for off := int64(0); off <= n; off++ {
		m.Offer(off, 0)
		if offs = append(offs, off); len(offs) == 64 || off == n {
			m.Sent(1, uint64(offs[0])+1, offs)
			m.Handed(now, 1, uint64(offs[0])+1)
			offs = offs[:0]
		}
	}
	var commits time.Duration
	for i, o := range order {
		off := o + 1 // 0 is stuck
		m.Ack(now, 1, uint64(off&^63)+1, 1<<(off&63))
		if i%64 == 63 || i == len(order)-1 {
			start := time.Now()
			m.Snapshot()
			m.EndCommit(now, true)
			commits += time.Since(start)
		}
	}
	return m, commits
}

// heapOf is what a machine keeps on the heap.
func heapOf(make func() *Machine) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// BenchmarkCommit is a commit after one ack, beside n waiting retries.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			now := time.Unix(1_000_000, 0)
			m := New(Settings{}, offsetstore.Value{}, now, nil)
			m.Attach(1, 30*time.Second)
			for off := range int64(n) {
				m.Offer(off, 0)
				m.Sent(1, uint64(off+1), []int64{off})
				m.Nack(now.Add(time.Duration(off)*time.Millisecond), 1, uint64(off+1), 1, time.Hour, false, "")
			}
			m.set.MaxWaiting = n + 1000
			b.ReportAllocs()
			for i := range b.N {
				off := int64(n + i)
				m.set.MaxAhead = off + 1
				m.Offer(off, 0)
				m.Sent(1, uint64(off+1), []int64{off})
				m.Ack(now, 1, uint64(off+1), 1)
				m.Snapshot()
				m.EndCommit(now, true)
			}
		})
	}
}

// BenchmarkIdleStream is an event at a time: sent, handed over, acked and
// committed alone.
func BenchmarkIdleStream(b *testing.B) {
	b.ReportAllocs()
	inOrder(b.N, 1, 1)
}

// BenchmarkIdleMachine reports what a machine costs that has a stream and
// delivered a batch once.
func BenchmarkIdleMachine(b *testing.B) {
	const n = 1000
	var machines []*Machine
	used := heapOf(func() *Machine {
		for range n {
			machines = append(machines, inOrder(64, 64, 1))
		}
		return machines[0]
	})
	runtime.KeepAlive(machines)
	for range b.N {
		inOrder(64, 64, 1)
	}
	b.ReportMetric(used/n, "B/machine")
}

// BenchmarkRedeliver is a round of a full window given back by a stream that
// ends and sent again: ns/op is per delivery.
func BenchmarkRedeliver(b *testing.B) {
	const n = 1000
	now := time.Unix(1_000_000, 0)
	m := New(Settings{}, offsetstore.Value{High: n}, now, nil)
	b.ReportAllocs()
	id := uint64(1)
	for i := 0; i < b.N; i += n {
		m.Attach(1, 30*time.Second)
		m.Snapshot()
		m.EndCommit(now, true)
		for items := m.Next(MaxBatch); len(items) > 0; items = m.Next(MaxBatch) {
			offs := make([]int64, 0, MaxBatch)
			for _, it := range items {
				offs = append(offs, it.Offset)
			}
			m.Sent(1, id, offs)
			m.Handed(now, 1, id)
			id += MaxBatch
		}
		m.Detach(now, 1, false)
	}
}

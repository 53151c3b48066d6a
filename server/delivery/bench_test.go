package delivery

import (
	"fmt"
	"math/rand/v2"
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
// that is stuck, with a commit for each 64 acks: ns/op is per delivery.
func BenchmarkOneStuck(b *testing.B) {
	const n = 50_000
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	b.ReportAllocs()
	for range b.N {
		oneStuck(order, func(int, *Machine) {})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}

func oneStuck(order []int, each func(int, *Machine)) *Machine {
	now := time.Unix(1_000_000, 0)
	m := New(Settings{}, offsetstore.Value{}, now, nil)
	m.Attach(1, 30*time.Second)
	offs := make([]int64, 0, 64)
	for off := int64(0); off <= int64(len(order)); off++ {
		m.Offer(off, 0)
		if offs = append(offs, off); len(offs) == 64 {
			m.Sent(1, uint64(offs[0])+1, offs)
			m.Handed(now, 1, uint64(offs[0])+1)
			offs = offs[:0]
		}
	}
	m.Sent(1, uint64(offs[0])+1, offs)
	for i, o := range order {
		off := o + 1 // 0 is stuck
		m.Ack(now, 1, uint64(off&^63)+1, 1<<(off&63))
		if i%64 == 63 {
			m.Snapshot()
			m.EndCommit(now, true)
			each(i, m)
		}
	}
	return m
}

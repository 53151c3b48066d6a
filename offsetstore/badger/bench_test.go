package badger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

func benchKey(i int) offsetstore.Key {
	return offsetstore.Key{
		Topic:      fmt.Sprintf("topic-%d", i%10),
		Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: fmt.Sprintf("client-%d", i/40)},
		Partition:  fmt.Sprint(i / 10 % 4),
	}
}

// BenchmarkCommit has 1,024 submitters that wait for each commit of theirs,
// over 1,000 keys.
func BenchmarkCommit(b *testing.B) {
	var groups, syncs atomic.Int64
	s, err := Open(b.TempDir(), Options{Observe: func(c Commit) { groups.Add(int64(c.Transactions)); syncs.Add(1) }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	keys := make([]offsetstore.Key, 1000)
	for i := range keys {
		keys[i] = benchKey(i)
	}
	var position atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 1024 {
		wg.Go(func() {
			var mine []time.Duration
			for {
				p := position.Add(1)
				if p > int64(b.N) {
					break
				}
				start := time.Now()
				txn := &offsetstore.Txn{Puts: []offsetstore.Put{{
					Key:   keys[rand.IntN(len(keys))],
					Value: offsetstore.Value{Epoch: 1, Position: p, High: p + 100},
				}}}
				if err := offsetstore.Commit(b.Context(), s, txn); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	reportMedian(b, took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(groups.Load())/float64(syncs.Load()), "txns/sync")
}

// BenchmarkCommitAlone has one submitter: what an idle ack waits for.
func BenchmarkCommitAlone(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var took []time.Duration
	for i := range b.N {
		start := time.Now()
		if err := offsetstore.Commit(b.Context(), s, ackOf(1, int64(i))); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	reportMedian(b, took)
}

func reportMedian(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// BenchmarkSync is one write of 4 KiB with a sync: what the disk allows.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(b.TempDir() + "/f")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for i := range b.N {
		start := time.Now()
		if _, err := f.WriteAt(make([]byte, 4096), int64(i%1024)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	reportMedian(b, took)
}

func BenchmarkMark(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	txn := &offsetstore.Txn{Puts: []offsetstore.Put{{Key: benchKey(1), Value: offsetstore.Value{}}}}
	if err := offsetstore.Commit(b.Context(), s, txn); err != nil {
		b.Fatal(err)
	}
	m, err := s.Marker(benchKey(1))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		if err := m.Mark(0, int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}

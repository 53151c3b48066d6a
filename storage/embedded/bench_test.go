package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// BenchmarkAppend appends 1 KiB frames, synced, and prints what one commit
// took. One operation is one event.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ callers, events int }{{1, 1}, {1, 16}, {8, 16}, {8, 64}, {64, 1}} {
		for _, keyed := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/events=%d/dedup=%v", c.callers, c.events, keyed), func(b *testing.B) {
				benchmarkAppend(b, c.callers, c.events, keyed)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, callers, events int, keyed bool) {
	var mu sync.Mutex
	var commits []time.Duration
	l, err := Open(b.TempDir(), Options{Observe: Observe{Commit: func(d time.Duration, _, _ int) {
		mu.Lock()
		commits = append(commits, d)
		mu.Unlock()
	}}})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	if _, err := l.EnsureTopic(ctx, "t"); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() { appendMany(b, l, c, b.N/callers+1, events, keyed) })
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(commits)
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N)/1000, "cpu-µs/event")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1000, "kevents/s")
	b.ReportMetric(float64(commits[len(commits)/2].Microseconds()), "µs/commit-p50")
	b.ReportMetric(float64(commits[len(commits)*99/100].Microseconds()), "µs/commit-p99")
}

// cpu is the processor time of this process so far. It tells more than the
// wall clock on a machine that others use too.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// appendMany keeps up to four appends under way, as a pipelined client does.
func appendMany(b *testing.B, l *Log, caller, n, events int, keyed bool) {
	const depth = 4
	free := make(chan []storage.Event, depth)
	for range depth {
		evs := make([]storage.Event, events)
		for i := range evs {
			evs[i].Frame = make([]byte, 1024)
		}
		free <- evs
	}
	ctx := context.Background()
	for i := 0; i < n; i += events {
		evs := <-free
		if keyed {
			for j := range evs {
				evs[j].DedupKey = fmt.Sprintf("source-%d/%d", caller, i+j)
			}
		}
		err := l.Append(ctx, "t", evs, func(r []storage.Appended, err error) {
			for _, a := range r {
				err = errors.Join(err, a.Err)
			}
			if err != nil {
				b.Error(err)
			}
			free <- evs
		})
		if err != nil {
			b.Error(err)
			return
		}
	}
	for range depth {
		<-free
	}
}

// BenchmarkPoll reads 1 KiB frames in sequence; one operation is one record.
func BenchmarkPoll(b *testing.B) {
	for _, c := range []struct {
		name   string
		events int // in one append
		tail   int
		size   int // records
	}{{"tail", 64, 64 << 20, 40000}, {"disk", 64, 4 << 20, 400000}, {"disk-single-event-runs", 1, 4 << 20, 40000}} {
		b.Run(c.name, func(b *testing.B) { benchmarkPoll(b, c.events, c.tail, c.size) })
	}
}

func benchmarkPoll(b *testing.B, events, tail, size int) {
	l, err := Open(b.TempDir(), Options{TailBytes: tail, NoSync: true, Partitions: 4})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	evs := make([]storage.Event, events)
	for i := range evs {
		evs[i].Frame = make([]byte, 1024)
	}
	for i := 0; i < size; i += events {
		if _, err := storage.AppendWait(ctx, l, "t", evs); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	var batch storage.Batch
	req := storage.PollRequest{Topic: "t", Partition: "0", MaxBytes: 256 << 10}
	for n := 0; n < b.N; {
		if err := l.Poll(ctx, req, &batch); err != nil {
			b.Fatal(err)
		}
		n += len(batch.Records)
		req.Start = batch.Next
		if len(batch.Records) == 0 {
			req.Start = 0
			req.Partition = string('0' + (req.Partition[0]-'0'+1)%4)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1000, "krecords/s")
}

// BenchmarkOpen opens a log of 1 GiB in 1 KiB events, with its index files and
// without, from appends of 64 events and of one (with 4 partitions).
func BenchmarkOpen(b *testing.B) {
	for _, events := range []int{64, 1} {
		dir := b.TempDir()
		buildLog(b, dir, 1<<20, events)
		for _, indexed := range []bool{true, false} {
			b.Run(fmt.Sprintf("events=%d/indexed=%v", events, indexed), func(b *testing.B) {
				for range b.N {
					if !indexed {
						removeIndexes(b, dir)
					}
					l, err := Open(dir, Options{MaxBytes: -1, Logger: quiet})
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := l.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1000*10/float64(b.N), "ms/10GiB")
			})
		}
	}
}

func buildLog(b *testing.B, dir string, total, events int) {
	b.Helper()
	l, err := Open(dir, Options{MaxBytes: -1, NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	evs := make([]storage.Event, events)
	for i := range evs {
		evs[i].Frame = make([]byte, 1024)
	}
	var wg sync.WaitGroup
	for i := 0; i < total; i += events {
		wg.Add(1)
		err := l.Append(context.Background(), "t", evs, func(_ []storage.Appended, err error) {
			if err != nil {
				b.Error(err)
			}
			wg.Done()
		})
		if err != nil {
			b.Fatal(err)
		}
		if events == 1 && i%8 == 0 {
			wg.Wait() // small commits, so that runs stay small
		}
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

func removeIndexes(b *testing.B, dir string) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log", "*.idx"))
	if err != nil || len(names) == 0 {
		b.Fatal(names, err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			b.Fatal(err)
		}
	}
}

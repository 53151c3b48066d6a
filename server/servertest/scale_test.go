package servertest_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestOneRecordStuck: with one record unfinished and 50,000 above it acked in
// random order, a restart brings that one back alone, and what is stored and
// told stays small.
func TestOneRecordStuck(t *testing.T) {
	o := Lasting(t)
	in := Start(t, o)
	window := int32(60_000)
	op := open("c", Sub("t", broadcast))
	op.MaxInFlight = &window
	s := Open(t, in.Mesh(), op)
	mesh := in.Mesh()
	const n = 50_001
	for range n/1000 + 1 {
		Publish(t, mesh, "t", Numbers(1000)...)
	}
	got := s.Take(n)
	rand.Shuffle(n-1, func(i, j int) { got[i+1], got[j+1] = got[j+1], got[i+1] })
	for part := range (n - 1) / 500 {
		s.Ack(got[1+part*500 : 501+part*500]...)
	}
	for _, g := range got[1:] {
		if st := s.Outcome(g); st != durable {
			t.Fatalf("ack of %d: %v", g.Offset, st)
		}
	}
	if largest := s.LargestControl(); largest > 64<<10 {
		t.Errorf("the largest AckResult has %d bytes", largest)
	}
	var size int
	if err := o.Store.Scan("t", func(_ offsetstore.Key, v offsetstore.Value) bool {
		size = len(offsetstore.AppendValue(nil, v))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("the stored value has %d bytes, the largest AckResult %d", size, s.LargestControl())
	if size > 1024 {
		t.Errorf("the stored value has %d bytes", size)
	}
	in.Stop()
	in = Start(t, o)
	s = Open(t, in.Mesh(), op)
	again := s.Take(1)
	wantOffsets(t, again, seq(0, 1))
	wantAttempts(t, again, 2)
	s.AckDurable(again...)
	rest := s.Take(51_000 - n)
	wantOffsets(t, rest, seq(n, int64(len(rest))))
}

// cpuTime is the processor time of this process so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestManySubscribers: the log is read once for a thousand subscribers who are near
// each other, at its end and, after a restart, behind it. Of positions that are
// further apart see dispatch.TestThousandSubscribers.
func TestManySubscribers(t *testing.T) {
	reads := func(subscribers int) (tail, behind int64) {
		o := Lasting(t)
		in := Start(t, o)
		mesh := in.Mesh()
		open := func() []*Stream {
			var list []*Stream
			conn := in.Mesh()
			for i := range subscribers {
				list = append(list, Open(t, conn, open(fmt.Sprint("c", i), Sub("t", broadcast))))
			}
			return list
		}
		streams := open()
		const n = 100
		for i := range n / 10 {
			Publish(t, mesh, "t", Numbers(i*10 + 10)[i*10:]...)
		}
		for i, s := range streams {
			got := s.Take(n)
			s.AckDurable(got[:n*(i%10)/10]...) // positions in ten places
			s.Break()
		}
		tail = in.Server.Metrics().Reads.Load()
		in.Stop()
		in = Start(t, o)
		streams = open()
		for i, s := range streams {
			got := s.Take(n - n*(i%10)/10)
			s.AckDurable(got...)
		}
		return tail, in.Server.Metrics().Reads.Load()
	}
	tail1, behind1 := reads(1)
	begin, before := time.Now(), cpuTime(t)
	tail, behind := reads(1000)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("reads with 1 and 1,000 subscribers: %d and %d at the end, %d and %d behind; with clients %v of CPU in %v, heap %d MiB",
		tail1, tail, behind1, behind, (cpuTime(t) - before).Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), m.HeapInuse>>20)
	if tail > 2*tail1+10 {
		t.Errorf("%d reads at the end, %d with one subscriber", tail, tail1)
	}
	if behind > 10*behind1+10 {
		t.Errorf("%d reads behind, %d with one subscriber", behind, behind1)
	}
}

package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// crowd is many subscribers of one topic in ten places.
type crowd struct {
	subscribers int
	slow        bool // every third client takes its time for each message
}

const (
	crowdRecords = 1280
	crowdSize    = 1000      // bytes of a record, about
	crowdWindow  = 128 << 10 // a tenth of the topic
)

// places has the crowd read the topic from ten places, a window apart, and returns
// how many reads that took.
func (c crowd) places(t *testing.T) (reads int64) {
	r := newRig(t, Config{WindowBytes: crowdWindow})
	r.publishSized(crowdRecords, crowdSize)
	want := int64(0)
	for i := range c.subscribers {
		from := int64(i%10) * crowdRecords / 10
		want += crowdRecords - from
		var pace time.Duration
		if c.slow && i/10%3 == 0 {
			pace = time.Duration(i%7+1) * time.Millisecond
		}
		r.openAt(fmt.Sprint("c", i), from, pace)
	}
	for begin := time.Now(); r.d.Metrics.Delivered.Load() < want; {
		<-time.After(100 * time.Millisecond)
		if time.Since(begin) > time.Hour {
			t.Fatalf("%d deliveries of %d", r.d.Metrics.Delivered.Load(), want)
		}
	}
	return r.d.Metrics.Reads.Load()
}

// tail has the crowd read what is published while it is there.
func (c crowd) tail(t *testing.T) (reads int64) {
	r := newRig(t, Config{WindowBytes: crowdWindow})
	for i := range c.subscribers {
		r.openAt(fmt.Sprint("c", i), 0, 0)
	}
	for n := range int64(20) {
		r.publishSized(20, crowdSize)
		for r.d.Metrics.Delivered.Load() < (n+1)*20*int64(c.subscribers) {
			<-time.After(10 * time.Millisecond)
		}
	}
	return r.d.Metrics.Reads.Load()
}

// openAt opens a stream of a broadcast client at an offset. It takes pace for each
// message.
func (r *rig) openAt(client string, from int64, pace time.Duration) {
	r.t.Helper()
	s, err := r.d.NewStream(StreamConfig{ClientID: client, AckTimeout: 24 * time.Hour, MaxInFlight: 1 << 20, MaxBytes: 1 << 40, MaxMessage: 4 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Start(sinkFunc(func(msg mem.BufferSlice) error {
		msg.Free()
		if pace > 0 {
			<-time.After(pace)
		}
		return nil
	}), func(error) {})
	r.t.Cleanup(func() {
		r.d.End(s, false, 0, nil)
		<-s.Done()
		r.d.Forget(s)
	})
	sub, err := r.d.Subscribe(context.Background(), s, Subscription{
		ID: 1, Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client},
		Settings: Settings{Mode: Broadcast}, Start: Place{At: AtOffset, Offset: from, Given: true}, MaxInFlight: -1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.d.Activate(sub)
}

// publishSized appends n records of about size bytes to topic t.
func (r *rig) publishSized(n, size int) {
	r.t.Helper()
	raw, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Data: make([]byte, size)})
	if err != nil {
		r.t.Fatal(err)
	}
	events := make([]storage.Event, n)
	for i := range events {
		events[i].Frame = raw
	}
	if _, err := storage.AppendWait(context.Background(), r.log, "t", events); err != nil {
		r.t.Fatal(err)
	}
}

// TestThousandSubscribers: a thousand subscribers read the end of a topic with at
// most twice the reads of one, and from positions that are spread over ten windows
// with at most ten times those of one at the first. If a third of them reads at
// seven different paces they are in seventy places, and share what they can.
func TestThousandSubscribers(t *testing.T) {
	const many = 1000
	measure := func(c crowd, run func(crowd, *testing.T) int64) (reads int64, figures string) {
		cpu, begin := cpuTime(t), time.Now()
		var heap runtime.MemStats
		synctest.Test(t, func(t *testing.T) {
			reads = run(c, t)
			runtime.ReadMemStats(&heap)
		})
		return reads, fmt.Sprintf("%d reads, %v of CPU in %v, heap %d MiB", reads, (cpuTime(t) - cpu).Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), heap.HeapInuse>>20)
	}
	one, f := measure(crowd{subscribers: 1}, crowd.tail)
	t.Logf("1 at the end: %s", f)
	all, f := measure(crowd{subscribers: many}, crowd.tail)
	t.Logf("%d at the end: %s", many, f)
	if all > 2*one {
		t.Errorf("%d reads at the end, %d with one subscriber", all, one)
	}
	one, f = measure(crowd{subscribers: 1}, crowd.places)
	t.Logf("1 from the start: %s", f)
	for slow, most := range map[bool]int64{false: 10, true: 40} {
		all, f := measure(crowd{many, slow}, crowd.places)
		t.Logf("%d from ten windows, some slow: %v: %s", many, slow, f)
		if all > most*one {
			t.Errorf("%d reads from ten windows, some slow: %v; %d with one subscriber", all, slow, one)
		}
	}
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

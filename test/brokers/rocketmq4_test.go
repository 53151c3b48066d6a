//go:build brokers

package brokers_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// TestRocketMQ4 starts one broker for all that is tested on it.
func TestRocketMQ4(t *testing.T) {
	r := startRocketMQ4(t)
	before := r.traces(t)
	t.Run("KillAmidEvents", r.killAmidEvents)
	t.Run("OffsetByTime", r.byTime)
	t.Run("ForeignMessages", r.foreign)
	t.Run("Conformance", r.conformance)
	t.Run("NoTraceAtTheBroker", func(t *testing.T) { r.noTrace(t, before) })
}

func (r *rocketMQ4) conformance(t *testing.T) {
	h := rocketmq4test.Harness(t, rocketmq4.Options{NameServers: r.nameServers(), AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	h.RestartBroker = func(storagetest.T) { r.kill(t); r.start(t) }
	storagetest.Run(t, h)
}

// open opens a log that is closed with the test.
func (r *rocketMQ4) open(t *testing.T, o rocketmq4.Options) *rocketmq4.Log {
	t.Helper()
	o.NameServers = r.nameServers()
	l := rocketmq4test.Open(t, o)
	logtest.CloseAfter(t, l)
	return l
}

func (r *rocketMQ4) killAmidEvents(t *testing.T) {
	l := r.open(t, rocketmq4.Options{})
	topic, err := l.CreateTopic(t.Context(), "kill", storage.TopicConfig{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	killAmidEvents(t, l, topic.Partitions, func() { r.kill(t); r.start(t) })
}

// byTime: over messages that were stored at many times, a time means the first
// message at or after it, which is not what the broker's own search gives.
func (r *rocketMQ4) byTime(t *testing.T) {
	const n = 300
	r.makeTopic(t, "times", 1)
	l := r.open(t, rocketmq4.Options{})
	for i := range n {
		if _, err := storage.AppendWait(t.Context(), l, "times", []storage.Event{{Frame: event(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	var times []int64
	b := new(storage.Batch)
	for next := int64(0); len(times) < n; next = b.Next {
		if err := l.Poll(t.Context(), storage.PollRequest{Topic: "times", Partition: "broker-a:0", Start: next, Wait: patience}, b); err != nil {
			t.Fatal(err)
		}
		for _, rec := range b.Records {
			times = append(times, rec.Time)
		}
	}
	for ms := times[0] - 2; ms <= times[n-1]+2; ms++ {
		want, _ := slices.BinarySearch(times, ms)
		got, err := l.OffsetByTime(t.Context(), "times", "broker-a:0", time.UnixMilli(ms), storage.AtOrAfter)
		if err != nil || got != int64(want) {
			t.Fatalf("the time %d ms after the first message means %d, %v; want %d", ms-times[0], got, err, want)
		}
		if ms > times[0]+2000 {
			break // enough of a slow machine
		}
	}
}

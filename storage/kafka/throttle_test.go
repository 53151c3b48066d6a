package kafka_test

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/observe"
)

// Whose quota is used up gets answers without anything in them for a while: that
// is no failure, and no reason to ask where the partition is.
func TestThrottledFetches(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	var failed atomic.Int64
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Observe: observe.Broker{BrokerFailed: func(string, error) { failed.Add(1) }}})
	write(t, l, "t", 0, 3)
	const pause = 50 * time.Millisecond
	fetches := 0
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if fetches++; fetches > 2 {
			return nil, nil, false
		}
		c.KeepControl()
		res, ok := r.ResponseKind().(*kmsg.FetchResponse)
		if ok {
			res.ThrottleMillis = int32(pause.Milliseconds())
		}
		return res, nil, ok
	})
	var asked atomic.Int64
	c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	began := time.Now()
	b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0})
	if took := time.Since(began); len(b.Records) != 3 || took < 2*pause {
		t.Errorf("%d records after %v", len(b.Records), took)
	}
	if asked.Load() > 0 || failed.Load() > 0 {
		t.Errorf("the topic was asked for %d times, %d failures", asked.Load(), failed.Load())
	}
}

// However much is wanted of a Poll, a fetch asks for what fits its form.
func TestPollOfVeryMuch(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 3)
	var low, high atomic.Int64
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if req, ok := r.(*kmsg.FetchRequest); ok {
			n := int64(req.MaxBytes)
			low.Store(min(low.Load(), n))
			high.Store(max(high.Load(), n))
		}
		return nil, nil, false
	})
	for _, n := range []int{math.MaxInt, math.MaxInt32, 100 << 20} {
		b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0, MaxBytes: n})
		if len(b.Records) != 3 {
			t.Errorf("%d bytes are wanted, %d records came", n, len(b.Records))
		}
	}
	if low.Load() < 0 || high.Load() > 64<<20 {
		t.Errorf("fetches ask for %d to %d bytes", low.Load(), high.Load())
	}
}

// An answer that cannot be read is asked for once, not on every connection that
// there is.
func TestDamageIsFetchedOnce(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 3)
	// So that there are connections that nobody uses.
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			done <- l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: 3, Wait: 300 * time.Millisecond}, new(storage.Batch))
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var fetches atomic.Int64
	var mended atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		fetches.Add(1)
		req, isFetch := r.(*kmsg.FetchRequest)
		res, ok := r.ResponseKind().(*kmsg.FetchResponse)
		if !ok || !isFetch || mended.Load() {
			return nil, nil, false
		}
		part := kmsg.NewFetchResponseTopicPartition()
		part.HighWatermark, part.RecordBatches = 3, make([]byte, 100)
		part.RecordBatches[16] = 9 // a form that is unknown
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		topic.Partitions = []kmsg.FetchResponseTopicPartition{part}
		res.Topics = []kmsg.FetchResponseTopic{topic}
		return res, nil, true
	})
	_, err := poll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0})
	mended.Store(true)
	if !errors.Is(err, storage.ErrCorrupt) || fetches.Load() != 1 {
		t.Errorf("%v, after %d fetches", err, fetches.Load())
	}
	mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0})
}

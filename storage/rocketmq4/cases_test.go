package rocketmq4_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/observe"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// A pull offset never passes what a Poll has returned, whatever else goes on.
func TestC14_CursorNeverPassesWhatWasReturned(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 100)
	seen := int64(0)
	for round := 0; seen < 100; round++ {
		// Every other Poll is cut off while its pull is under way.
		if round%2 == 0 {
			cutOff(t, c, l, seen)
		}
		b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: master + ":0", Start: storage.Cursor, MaxRecords: 7, Wait: patience})
		if b.Start != seen {
			t.Fatalf("a batch starts at %d, %d were read", b.Start, seen)
		}
		for i, r := range b.Records {
			if r.Offset != seen+int64(i) {
				t.Fatalf("record %d in the place of %d", r.Offset, seen+int64(i))
			}
		}
		seen = b.Next
	}
}

// cutOff cancels a Poll at the pull offset; one that was quicker is undone.
func cutOff(t *testing.T, c *fakebroker.Cluster, l *rocketmq4.Log, next int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	hold := c.Fault(fakebroker.Fault{Code: fakebroker.CodePull, Before: func(context.Context, *remoting.Command) *remoting.Command {
		cancel()
		return nil
	}})
	defer hold.Remove()
	err := l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: master + ":0", Start: storage.Cursor, MaxRecords: 7}, new(storage.Batch))
	cancel()
	if err == nil {
		if err := l.Seek(t.Context(), "t", master+":0", next); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a Poll that was cancelled: %v", err)
	}
	if now, ok := l.Cursor("t", master+":0"); ok && now != next {
		t.Fatalf("after a Poll that failed the pull offset is %d, not %d", now, next)
	}
}

// A stored position that retention has passed: who asks is told the range, and
// goes on at the minimum; others are not disturbed.
func TestC16_RetentionPassesPosition(t *testing.T) {
	for name, expire := range map[string]func(*fakebroker.Cluster, int64){
		"the minimum moves": func(c *fakebroker.Cluster, before int64) { c.Trim(master, "t", 0, before) },
		"the minimum stays": func(c *fakebroker.Cluster, before int64) { c.Remove(master, "t", 0, before) },
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, fakebroker.Options{})
			c.CreateTopic("t", 2)
			var told sync.Map
			l := open(t, c, rocketmq4.Options{Observe: observe.Broker{
				OutOfRange: func(topic, part string, at, low, high int64) {
					told.Store(fmt.Sprint(topic, " ", part, " ", at, " ", low, " ", high), true)
				},
			}})
			store(t, c, "t", 0, 0, 300)
			store(t, c, "t", 1, 0, 5)
			if err := l.Seek(t.Context(), "t", master+":0", 50); err != nil {
				t.Fatal(err)
			}
			expire(c, 200)
			wantRange(t, l, at(storage.Cursor), 50, 200, 300)
			if _, ok := told.Load("t broker-a:0 50 200 300"); !ok {
				t.Errorf("the gap was not told of")
			}
			wantIDs(t, readIDs(t, l, 200, 100), 200)
			// Under a reader that goes on where nothing of its last pull is left.
			expire(c, 290)
			wantRange(t, l, at(210), 210, 290, 300)
			if low, high, err := l.Bounds(t.Context(), "t", master+":0"); low != 290 || high != 300 || err != nil {
				t.Errorf("the bounds are %d to %d, %v", low, high, err)
			}
			b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: master + ":1", Start: 0})
			if len(b.Records) != 5 {
				t.Errorf("the other partition gives %d", len(b.Records))
			}
			// All of it, so that nothing is left to read.
			expire(c, 300)
			if name == "the minimum stays" {
				wantRange(t, l, at(295), 295, 300, 300)
			}
			store(t, c, "t", 0, 300, 301)
			wantIDs(t, readIDs(t, l, 300, 1), 300)
		})
	}
}

// For a while a master ends below the stored position: nothing is read again,
// the reader is told what the broker says, and goes on when the tail is there.
// One that says that the queue ends at 0 is not believed.
func TestC17_EndBehindPosition(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{}.UnknownWait(20*time.Millisecond))
	store(t, c, "t", 0, 0, 100)
	wantIDs(t, readIDs(t, l, storage.Cursor, 100), 0)
	end := answerMax(c, 99)
	expire := time.Second + 50*time.Millisecond // bounds are believed for a second
	req := at(storage.Cursor)
	req.Wait = 50 * time.Millisecond
	waitUntil(t, time.Now().Add(expire))
	for range 5 {
		wantRange(t, l, req, 100, 0, 99)
	}
	end.Remove()
	end = answerMax(c, 0)
	for range 5 {
		b, err := poll(t, l, req)
		var r *storage.RangeError
		if !errors.Is(err, storage.ErrUnknown) || errors.As(err, &r) || len(b.Records) > 0 {
			t.Fatalf("with a maximum of 0: %v, %d records; want ErrUnknown and no range", err, len(b.Records))
		}
		if _, _, err := l.Bounds(t.Context(), "t", master+":0"); !errors.Is(err, storage.ErrUnknown) {
			t.Fatalf("bounds with a maximum of 0: %v, want ErrUnknown", err)
		}
	}
	if next, ok := l.Cursor("t", master+":0"); !ok || next != 100 {
		t.Errorf("the pull offset is %d, %v; want 100", next, ok)
	}
	end.Remove()
	store(t, c, "t", 0, 100, 105)
	wantIDs(t, readIDs(t, l, storage.Cursor, 5), 100)
	if n := c.OffsetMoved(); n > 0 {
		t.Errorf("%d pulls were outside the bounds", n)
	}
}

// The same after a restart, when only the file of identities tells that the
// queue was longer.
func TestC17_ZeroAfterRestart(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	dir := t.TempDir()
	l := open(t, c, rocketmq4.Options{Dir: dir})
	store(t, c, "t", 0, 0, 10)
	readIDs(t, l, storage.Cursor, 10)
	closeLog(t, l)
	zero := answerMax(c, 0)
	l = open(t, c, rocketmq4.Options{Dir: dir}.UnknownWait(20*time.Millisecond))
	if topic, err := l.EnsureTopic(t.Context(), "t"); err != nil || len(topic.Partitions) != 1 {
		t.Fatalf("the topic: %+v, %v", topic, err)
	}
	req := at(storage.Cursor)
	req.Wait = 0
	if _, err := poll(t, l, req); !errors.Is(err, storage.ErrUnknown) {
		t.Errorf("with a maximum of 0: %v", err)
	}
	zero.Remove()
	store(t, c, "t", 0, 10, 12)
	wantIDs(t, readIDs(t, l, storage.Cursor, 2), 10)
}

// answerMax makes brokers tell another maximum.
func answerMax(c *fakebroker.Cluster, n int64) *fakebroker.Fault {
	return c.Fault(fakebroker.Fault{After: func(req, res *remoting.Command) {
		switch req.Code {
		case fakebroker.CodeMax:
			res.Fields["offset"] = strconv.FormatInt(n, 10)
		case fakebroker.CodePull:
			res.Fields["maxOffset"] = strconv.FormatInt(n, 10)
		}
	}})
}

// waitUntil waits for a moment.
func waitUntil(t *testing.T, moment time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// Queues that are added are told of and read from their beginning, and written
// to, without a restart.
func TestC18_QueuesAreAdded(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 2)
	l := open(t, c, rocketmq4.Options{}.LookAgain(10*time.Millisecond))
	writeKeyed(t, l, "t", 0, 20, func(n int) string { return fmt.Sprint(n) })
	if _, err := poll(t, l, storage.PollRequest{Topic: "t", Partition: master + ":2", Start: 0}); !errors.Is(err, storage.ErrPartitionNotFound) {
		t.Fatalf("a queue that is not there yet: %v", err)
	}
	c.CreateTopic("t", 4)
	topic, err := l.Topic(t.Context(), "t")
	if err != nil || !slices.Equal(topic.Partitions, []string{"broker-a:0", "broker-a:1", "broker-a:2", "broker-a:3"}) {
		t.Fatalf("after it was grown the topic is %+v, %v", topic, err)
	}
	want := map[string]int{}
	eventually(t, func() error {
		for _, r := range writeKeyed(t, l, "t", 20, 60, func(n int) string { return fmt.Sprint(n) }) {
			want[r.Partition]++
		}
		if len(want) < 4 {
			return fmt.Errorf("used are %v", want)
		}
		return nil
	})
	for _, part := range topic.Partitions[2:] {
		got := 0
		for got < want[part] {
			b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: part, Start: storage.Cursor, Wait: patience})
			if got == 0 && (b.Start != 0 || b.Records[0].Offset != 0) {
				t.Errorf("partition %s is read from %d on", part, b.Start)
			}
			got += len(b.Records)
		}
		if got != want[part] {
			t.Errorf("partition %s has %d records, want %d", part, got, want[part])
		}
	}
}

// Queues that nobody reads on, and others that wait for messages, do not hold
// up the queue that is read, on the same connection.
func TestC47_SlowReaderHoldsUpNobody(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	for _, topic := range []string{"slow", "t", "idle"} {
		c.CreateTopic(topic, 4)
	}
	l := open(t, c, rocketmq4.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	for i := range 4 {
		part := fmt.Sprint(master, ":", i)
		store(t, c, "slow", i, 0, 100)
		if b := mustPoll(t, l, storage.PollRequest{Topic: "slow", Partition: part, Start: storage.Cursor, MaxRecords: 1, Wait: patience}); len(b.Records) != 1 {
			t.Fatalf("slow: %d records", len(b.Records))
		}
		others.Go(func() {
			_ = l.Poll(ctx, storage.PollRequest{Topic: "idle", Partition: part, Start: 0, Wait: time.Hour}, new(storage.Batch))
		})
	}
	var late []time.Duration
	for n := range 100 {
		began := time.Now()
		store(t, c, "t", 0, n, n+1)
		wantIDs(t, readIDs(t, l, storage.Cursor, 1), n)
		late = append(late, time.Since(began))
	}
	slices.Sort(late)
	if p99 := late[98]; p99 > time.Second {
		t.Errorf("the fast topic's p99 is %v", p99)
	}
	for i := range 4 {
		b := mustPoll(t, l, storage.PollRequest{Topic: "slow", Partition: fmt.Sprint(master, ":", i), Start: storage.Cursor, Wait: patience})
		if len(b.Records) == 0 || b.Records[0].Offset != 1 {
			t.Errorf("slow queue %d goes on with %d records at %d, want 1", i, len(b.Records), b.Start)
		}
	}
	cancel()
	others.Wait()
}

// Readers that end while the broker answers with errors of all kinds end at
// once.
func TestC69_EndsAmidErrors(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 10)
	codes := []int{
		remoting.CodeSystemError, remoting.CodeSystemBusy, remoting.CodePullRetry, remoting.CodePullOffsetMoved, remoting.CodeTopicNotExist,
		remoting.CodeNoPermission, remoting.CodePullNotFound, remoting.CodeServiceUnavailable,
	}
	for i := range 200 {
		code := codes[i%len(codes)]
		fault := c.Fault(fakebroker.Fault{Code: fakebroker.CodePull, Topic: "t", Before: func(context.Context, *remoting.Command) *remoting.Command {
			return &remoting.Command{Code: code, Fields: map[string]string{"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "10", "suggestWhichBrokerId": "0"}}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		ended := make(chan error, 1)
		go func() {
			ended <- l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: master + ":0", Start: int64(i % 11), Wait: time.Hour}, new(storage.Batch))
		}()
		if i%10 > 0 { // else it ends before it has begun
			if err := fault.Wait(ctx, 1); err != nil {
				t.Fatalf("round %d: the broker was not asked: %v", i, err)
			}
		}
		began := time.Now()
		cancel()
		if err := <-ended; err == nil {
			t.Fatalf("round %d: a Poll that was cancelled among errors gives none", i)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("round %d: a Poll took %v to end", i, took)
		}
		fault.Remove()
	}
	wantIDs(t, readIDs(t, l, 0, 10), 0)
}

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/observe"
)

// A partition goes from one log to another and back while a Poll is under way
// and records come. Whoever takes over goes on where the one before was handed
// records: all arrive, and a pull offset is never beyond what was handed out.
func TestC14_PartitionMovesDuringPoll(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 1)
	logs := []*kafka.Log{open(t, kafka.Options{Brokers: c.ListenAddrs()}), open(t, kafka.Options{Brokers: c.ListenAddrs()})}
	const total = 1000
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 0; n < total; n += 10 {
			write(t, logs[0], "t", n, n+10)
		}
	})
	seen := map[string]bool{}
	handed := int64(0)
	for turn := 0; len(seen) < total; turn++ {
		l := logs[turn%2]
		if err := l.Seek(t.Context(), "t", "0", handed); err != nil {
			t.Fatalf("seek: %v", err)
		}
		// The Poll is cut off amid its work, by a deadline that falls anywhere.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(turn%17)*300*time.Microsecond)
		for b := new(storage.Batch); ; {
			err := l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: 7, Wait: patience}, b)
			if next, ok := l.Cursor("t", "0"); !ok || next > max(handed, b.Next) {
				t.Fatalf("the pull offset is %d, %v; records were handed out up to %d", next, ok, handed)
			}
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("poll: %v", err)
				}
				break
			}
			for _, r := range b.Records {
				seen[id(r.Frame)] = true
			}
			handed = b.Next
		}
		cancel()
	}
	writing.Wait()
}

// Stored positions that retention has removed are told at once, with what is
// there, and other partitions go on. So when it happens under a reader.
func TestC16_PositionRemovedByRetention(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 2)
	var told sync.Map
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Observe: observe.Broker{
		OutOfRange: func(topic, partition string, offset, low, high int64) {
			told.Store(fmt.Sprint(topic, " ", partition, " ", offset, " ", low, " ", high), true)
		},
	}})
	key := map[string]string{}
	for n := 0; len(key) < 2; n++ {
		r := writeKeyed(t, l, "t", n, n+1, func(int) string { return fmt.Sprint("k", n) })[0]
		key[r.Partition] = fmt.Sprint("k", n)
	}
	writeKeyed(t, l, "t", 0, 300, func(int) string { return key["0"] })
	_, high, err := l.Bounds(t.Context(), "t", "0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Seek(t.Context(), "t", "0", 50); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteRecords("t", 0, 200); err != nil {
		t.Fatal(err)
	}
	req := storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: patience}
	wantRange(t, l, req, 50, 200, high)
	if _, ok := told.Load(fmt.Sprintf("t 0 50 200 %d", high)); !ok {
		t.Errorf("the gap was not told of")
	}
	req.Start = 200
	if b := mustPoll(t, l, req); b.Records[0].Offset != 200 {
		t.Errorf("from the minimum the first record is %d", b.Records[0].Offset)
	}
	// Under a reader that goes on where nothing of its last fetch is left.
	if err := c.DeleteRecords("t", 0, high-10); err != nil {
		t.Fatal(err)
	}
	req.Start = 210
	wantRange(t, l, req, 210, high-10, high)
	if b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "1", Start: 0}); len(b.Records) == 0 {
		t.Errorf("the other partition gives nothing")
	}
}

// For a while a new leader ends below the stored position: nothing is read
// again, the reader is told what the leader says, and goes on when the tail is
// there. One that says that the partition ends at 0 is not believed.
func TestC17_EndBehindPosition(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 105)
	if err := l.Seek(t.Context(), "t", "0", 100); err != nil {
		t.Fatal(err)
	}
	hide := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.OffsetOutOfRange, Count: -1})
	var end atomic.Int64
	end.Store(99)
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res, ok := listOffsets(r, end.Load())
		return res, nil, ok
	})
	req := storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: 50 * time.Millisecond}
	for range 10 {
		wantRange(t, l, req, 100, 0, 99)
	}
	end.Store(0)
	for range 10 {
		b, err := poll(t, l, req)
		var r *storage.RangeError
		if !errors.Is(err, storage.ErrUnknown) || errors.As(err, &r) || len(b.Records) > 0 {
			t.Fatalf("with a maximum of 0: %v, %d records; want ErrUnknown and no range", err, len(b.Records))
		}
		if _, _, err := l.Bounds(t.Context(), "t", "0"); !errors.Is(err, storage.ErrUnknown) {
			t.Fatalf("bounds with a maximum of 0: %v, want ErrUnknown", err)
		}
	}
	if next, ok := l.Cursor("t", "0"); !ok || next != 100 {
		t.Errorf("the pull offset is %d, %v; want 100", next, ok)
	}
	hide.Remove()
	c.DropControl()
	b := mustPoll(t, l, req)
	if b.Records[0].Offset != 100 || id(b.Records[0].Frame) != "100" || len(b.Records) != 5 {
		t.Errorf("afterwards %d records from %d on, want 5 from 100", len(b.Records), b.Records[0].Offset)
	}
}

// listOffsets answers that a partition holds 0 to end.
func listOffsets(r kmsg.Request, end int64) (kmsg.Response, bool) {
	req, ok := r.(*kmsg.ListOffsetsRequest)
	if !ok {
		return nil, false
	}
	res, ok := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	if !ok {
		return nil, false
	}
	topic, part := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
	topic.Topic, part.Partition = req.Topics[0].Topic, req.Topics[0].Partitions[0].Partition
	if req.Topics[0].Partitions[0].Timestamp == -1 {
		part.Offset = end
	} else {
		part.Offset = 0
	}
	topic.Partitions = append(topic.Partitions, part)
	res.Topics = append(res.Topics, topic)
	return res, true
}

// Partitions that are added are told of and read from their beginning, and
// written to, without a restart.
func TestC18_PartitionsAreAdded(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 2)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 10)
	mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "1", Start: 0})
	if _, err := poll(t, l, storage.PollRequest{Topic: "t", Partition: "2", Start: 0}); !errors.Is(err, storage.ErrPartitionNotFound) {
		t.Fatalf("a partition that is not there yet: %v", err)
	}
	if err := admin(t, c.ListenAddrs()).CreatePartitions("t", 4, nil, false); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil || !slices.Equal(topic.Partitions, []string{"0", "1", "2", "3"}) {
		t.Fatalf("after it was grown the topic is %+v, %v", topic, err)
	}
	// Written by another log, which knows only the new number.
	other := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	got := map[string]int{}
	want := map[string]int{}
	for _, r := range writeKeyed(t, other, "t", 0, 200, func(n int) string { return fmt.Sprint(n) }) {
		want[r.Partition]++
	}
	for _, part := range topic.Partitions[2:] {
		b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: part, Start: storage.Cursor, Wait: patience})
		got[part] = len(b.Records)
		if b.Start != 0 || b.Records[0].Offset != 0 {
			t.Errorf("partition %s is read from %d on", part, b.Start)
		}
		if got[part] == 0 || got[part] != want[part] {
			t.Errorf("partition %s has %d records, want %d", part, got[part], want[part])
		}
	}
}

// A log that writes finds the new partitions by itself.
func TestC18_WriterFindsPartitions(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()}.LookAgain(10*time.Millisecond))
	write(t, l, "t", 0, 10)
	if err := admin(t, c.ListenAddrs()).CreatePartitions("t", 3, nil, false); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	eventually(t, func() error {
		for _, r := range writeKeyed(t, l, "t", 0, 30, func(n int) string { return fmt.Sprint(n) }) {
			used[r.Partition] = true
		}
		if len(used) < 3 {
			return fmt.Errorf("used are %v", used)
		}
		return nil
	})
}

// Partitions that nobody reads on, and others that wait for records, do not
// hold up the partition that is read.
func TestC47_SlowReaderHoldsUpNobody(t *testing.T) {
	c := cluster(t)
	seed(t, c, "slow", 4)
	seed(t, c, "fast", 4)
	seed(t, c, "idle", 4)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	writeKeyed(t, l, "slow", 0, 400, func(n int) string { return fmt.Sprint(n) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	for i := range 4 {
		// It fetches much, takes one record, and then no more.
		if b := mustPoll(t, l, storage.PollRequest{Topic: "slow", Partition: fmt.Sprint(i), Start: storage.Cursor, MaxRecords: 1, Wait: patience}); len(b.Records) != 1 {
			t.Fatalf("slow: %d records", len(b.Records))
		}
		others.Go(func() {
			_ = l.Poll(ctx, storage.PollRequest{Topic: "idle", Partition: fmt.Sprint(i), Start: 0, Wait: time.Hour}, new(storage.Batch))
		})
	}
	var late []time.Duration
	for n := range 100 {
		part := fmt.Sprint(n % 4)
		began := time.Now()
		key := ""
		for k := 0; key == ""; k++ {
			if r := writeKeyed(t, l, "fast", n, n+1, func(int) string { return fmt.Sprint(k) })[0]; r.Partition == part {
				key = fmt.Sprint(k)
			}
		}
		if b := mustPoll(t, l, storage.PollRequest{Topic: "fast", Partition: part, Start: storage.Cursor, Wait: patience}); len(b.Records) == 0 {
			t.Fatalf("fast: no record")
		}
		late = append(late, time.Since(began))
	}
	slices.Sort(late)
	if p99 := late[98]; p99 > time.Second {
		t.Errorf("the fast topic's p99 is %v", p99)
	}
	for i := range 4 {
		part := fmt.Sprint(i)
		b := mustPoll(t, l, storage.PollRequest{Topic: "slow", Partition: part, Start: storage.Cursor, Wait: patience})
		if len(b.Records) == 0 || b.Records[0].Offset != 1 {
			t.Errorf("slow partition %s goes on with %d records at %d, want 1", part, len(b.Records), b.Start)
		}
	}
	cancel()
	others.Wait()
}

// Topics that are taken on later do not disturb those before, nor do those that
// are given up.
func TestC48_SeveralTopics(t *testing.T) {
	c := cluster(t)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true, Partitions: 2})
	type reader struct {
		cancel context.CancelFunc
		wg     sync.WaitGroup
		got    chan string
	}
	readers := map[string]*reader{}
	start := func(topic string) {
		if _, err := l.EnsureTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &reader{cancel: cancel, got: make(chan string, 1000)}
		readers[topic] = r
		for _, part := range []string{"0", "1"} {
			r.wg.Go(func() {
				for b := new(storage.Batch); l.Poll(ctx, storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: time.Hour}, b) == nil; {
					for _, rec := range b.Records {
						r.got <- id(rec.Frame)
					}
				}
			})
		}
	}
	want := func(first int, topics ...string) {
		t.Helper()
		for _, topic := range topics {
			writeKeyed(t, l, topic, first, first+40, func(n int) string { return fmt.Sprint(n) })
		}
		for _, topic := range topics {
			for range 40 {
				select {
				case <-readers[topic].got:
				case <-time.After(patience):
					t.Fatalf("%s does not flow", topic)
				}
			}
		}
	}
	start("t1")
	want(0, "t1")
	start("t2")
	start("t3")
	want(100, "t1", "t2", "t3")
	readers["t2"].cancel()
	readers["t2"].wg.Wait()
	want(200, "t1", "t3")
	for _, r := range readers {
		r.cancel()
		r.wg.Wait()
	}
}

// Readers that end while the broker answers with errors of all kinds end at
// once.
func TestC69_EndsAmidErrors(t *testing.T) {
	c := cluster(t)
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 10)
	codes := []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetOutOfRange, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownServerError}
	for i := range 500 {
		fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: codes[i%len(codes)], Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		ended := make(chan error, 1)
		go func() {
			ended <- l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: int64(i % 11), Wait: time.Hour}, new(storage.Batch))
		}()
		if i%10 > 0 { // else it ends before it has begun
			if err := fault.Wait(ctx, 1+i%2); err != nil {
				t.Fatalf("round %d: the broker was not asked: %v", i, err)
			}
		}
		began := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("round %d: a Poll that was cancelled: %v", i, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("round %d: a Poll took %v to end", i, took)
		}
		fault.Remove()
	}
	if b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0}); len(b.Records) != 10 {
		t.Errorf("afterwards %d records are read, want 10", len(b.Records))
	}
}

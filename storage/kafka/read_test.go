package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
)

// transact writes n events in a transaction that is committed or aborted.
func transact(t *testing.T, brokers []string, id string, commit bool, first, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: number(first + i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a partition from an offset to its end without waiting.
func readAll(t *testing.T, l *kafka.Log, start int64) (ids []string, next int64) {
	t.Helper()
	for next = start; ; {
		b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: next, MaxRecords: 3})
		if b.Next == next {
			return ids, next
		}
		for _, r := range b.Records {
			ids = append(ids, id(r.Frame))
		}
		next = b.Next
	}
}

// Markers of transactions are gaps: reading passes them at once, also at the
// end and without waiting. What was aborted is left out on request.
func TestTransactions(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	all := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	committed := open(t, kafka.Options{Brokers: c.ListenAddrs(), ReadCommitted: true})
	write(t, all, "t", 0, 2)
	transact(t, c.ListenAddrs(), "x", true, 10, 3)
	transact(t, c.ListenAddrs(), "x", false, 20, 3)
	write(t, all, "t", 30, 31)
	transact(t, c.ListenAddrs(), "y", false, 40, 2)
	for _, want := range []struct {
		l   *kafka.Log
		ids []string
	}{
		{all, []string{"0", "1", "10", "11", "12", "20", "21", "22", "30", "40", "41"}},
		{committed, []string{"0", "1", "10", "11", "12", "30"}},
	} {
		_, high, err := want.l.Bounds(t.Context(), "t", "0")
		if err != nil {
			t.Fatal(err)
		}
		ids, next := readAll(t, want.l, 0)
		if !slices.Equal(ids, want.ids) || next != high {
			t.Errorf("read %v up to %d, want %v up to %d", ids, next, want.ids, high)
		}
		// The record before a marker is found over it.
		over, ok, err := want.l.Fingerprint(t.Context(), "t", "0", 6)
		at, _, _ := want.l.Fingerprint(t.Context(), "t", "0", 5)
		if err != nil || !ok || over != at {
			t.Errorf("fingerprint over a marker: %x, %v, %v; that of the record is %x", over, ok, err, at)
		}
	}
	// The pull offset passes what holds no record.
	if err := committed.Seek(t.Context(), "t", "0", 10); err != nil {
		t.Fatal(err)
	}
	b := mustPoll(t, committed, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: patience})
	if len(b.Records) != 1 || id(b.Records[0].Frame) != "30" || b.Start != 10 {
		t.Errorf("%d records from %d on", len(b.Records), b.Start)
	}
}

// What older brokers answer is read too.
func TestOlderBrokers(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{
		"1.0": kversion.V1_0_0(), "2.3": kversion.V2_3_0(), "2.8": kversion.V2_8_0(), "3.0": kversion.V3_0_0(), "3.1": kversion.V3_1_0(),
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, kfake.NumBrokers(1), kfake.MaxVersions(v))
			seed(t, c, "t", 1)
			kafkatest.Produce(t, c.ListenAddrs(), &sarama.ProducerMessage{Topic: "t", Value: sarama.ByteEncoder(number(7))})
			l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
			b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: patience})
			if len(b.Records) != 1 || id(b.Records[0].Frame) != "7" {
				t.Errorf("%d records", len(b.Records))
			}
		})
	}
}

// Records that compaction has removed are gaps, however many.
func TestCompaction(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	policy := "compact"
	bytes := "1"
	if err := c.CreateTopic("t", 1, map[string]string{"cleanup.policy": policy, "segment.bytes": bytes, "min.cleanable.dirty.ratio": "0"}); err != nil {
		t.Fatal(err)
	}
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	writeKeyed(t, l, "t", 0, 1, func(int) string { return "first" })
	for n := 1; n < 60; n++ { // each a batch of its own
		writeKeyed(t, l, "t", n, n+1, func(n int) string { return fmt.Sprint(n % 3) })
	}
	writeKeyed(t, l, "t", 60, 61, func(int) string { return "last" })
	c.Compact()
	ids, next := readAll(t, l, 0)
	if !slices.Equal(ids, []string{"0", "57", "58", "59", "60"}) || next != 61 {
		t.Fatalf("after compaction %v are read, up to %d", ids, next)
	}
	// From the middle of a gap, and back over it.
	if b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 20, Wait: patience}); b.Records[0].Offset != 57 || b.Start != 20 {
		t.Errorf("from a gap the first record is %d, start %d", b.Records[0].Offset, b.Start)
	}
	over, ok, err := l.Fingerprint(t.Context(), "t", "0", 57)
	first, _, _ := l.Fingerprint(t.Context(), "t", "0", 1)
	if err != nil || !ok || over != first {
		t.Errorf("the fingerprint over the gap is %x, %v, %v; want that of record 0, %x", over, ok, err, first)
	}
}

// Nearest by time is true also where times run back before it.
func TestOffsetByTimeWhereTimesRunBack(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, ms := range []int{100, 40, 90, 90, 300, 250} { // at or after 200: the 300
		kafkatest.Produce(t, c.ListenAddrs(), &sarama.ProducerMessage{
			Topic: "t", Value: sarama.ByteEncoder(number(ms)), Timestamp: base.Add(time.Duration(ms) * time.Millisecond),
		})
	}
	for _, want := range []struct {
		ms               int
		nearest, atLeast int64
	}{{0, 0, 0}, {40, 0, 0}, {100, 0, 0}, {101, 0, 4}, {200, 0, 4}, {201, 4, 4}, {199, 0, 4}, {300, 4, 4}, {301, 6, 6}} {
		at := base.Add(time.Duration(want.ms) * time.Millisecond)
		for m, offset := range map[storage.TimeMatch]int64{storage.Nearest: want.nearest, storage.AtOrAfter: want.atLeast} {
			if got, err := l.OffsetByTime(t.Context(), "t", "0", at, m); err != nil || got != offset {
				t.Errorf("%d ms, match %d: %d, %v; want %d", want.ms, m, got, err, offset)
			}
		}
	}
	if _, err := l.OffsetByTime(t.Context(), "t", "0", base, 7); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("an unknown match: %v", err)
	}
}

// No group becomes known to the brokers, whatever is read.
func TestNoGroupAtTheBroker(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 10)
	mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: patience})
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	groups, err := admin(t, c.ListenAddrs()).ListConsumerGroups()
	if err != nil || len(groups) > 0 {
		t.Errorf("groups: %v, %v; want none", groups, err)
	}
	topics, err := l.Topics(t.Context())
	if err != nil || len(topics) != 1 {
		t.Errorf("topics: %+v, %v", topics, err)
	}
}

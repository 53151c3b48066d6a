//go:build brokers

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// patience is how long to wait for what must come, on a slow machine.
const patience = 2 * time.Minute

// TestKafka starts one broker for all that is tested on it.
func TestKafka(t *testing.T) {
	k := startKafka(t, "")
	t.Run("KillAmidEvents", k.killAmidEvents)
	t.Run("IdleLatency", k.idleLatency)
	t.Run("Recreated", k.recreated)
	t.Run("RetentionPassesPosition", k.retention)
	t.Run("PartitionsAreAdded", k.grown)
	t.Run("Compaction", k.compaction)
	t.Run("Transactions", k.transactions)
	t.Run("ForeignForms", k.foreign)
	t.Run("Truncated", k.truncated)
	t.Run("Conformance", k.conformance)
	t.Run("ConformanceCompressed", k.compressed)
	t.Run("NoTraceAtTheBroker", k.noTrace)
}

func (k *kafkaBroker) conformance(t *testing.T) {
	h := kafkatest.Harness(t, kafka.Options{Brokers: k.addrs(), AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	h.RestartBroker = func(storagetest.T) { k.kill(t); k.start(t) }
	storagetest.Run(t, h)
}

func (k *kafkaBroker) compressed(t *testing.T) {
	h := kafkatest.Harness(t, kafka.Options{Brokers: k.addrs(), Compression: kafka.CompressionLZ4, ReadCommitted: true, FetchBytes: 4096})
	h.Patience = time.Minute
	h.Settle = 150 * time.Millisecond
	storagetest.Run(t, h)
}

// open opens a log that is closed with the test.
func (k *kafkaBroker) open(t *testing.T, o kafka.Options) *kafka.Log {
	t.Helper()
	o.Brokers = k.addrs()
	l := kafkatest.Open(t, o)
	logtest.CloseAfter(t, l)
	return l
}

// topic makes a topic.
func (k *kafkaBroker) topic(t *testing.T, l *kafka.Log, name string, partitions int) storage.Topic {
	t.Helper()
	topic, err := l.CreateTopic(t.Context(), name, storage.TopicConfig{Partitions: partitions})
	if err != nil {
		t.Fatalf("create topic: %v", err)
	}
	return topic
}

// admin is a client of another program.
func (k *kafkaBroker) admin(t testing.TB) sarama.ClusterAdmin {
	t.Helper()
	return kafkatest.Admin(t, k.addrs())
}

func event(n int) []byte { return storagetest.Frame(make([]byte, 200), "id", fmt.Sprint(n)) }

// append appends events and wants them stored.
func appendAll(t *testing.T, l storage.Backend, topic string, events ...storage.Event) []storage.Appended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := storage.AppendWait(ctx, l, topic, events)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("append of event %d: %v", i, r.Err)
		}
	}
	return results
}

func poll(t *testing.T, l storage.Backend, req storage.PollRequest) (*storage.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := new(storage.Batch)
	return b, l.Poll(ctx, req, b)
}

// idleLatency measures from Append to the end of Poll on an idle topic.
func (k *kafkaBroker) idleLatency(t *testing.T) {
	l := k.open(t, kafka.Options{})
	topic := k.topic(t, l, "idle", 1)
	var took []time.Duration
	for n := range 200 {
		type result struct {
			at  time.Time
			err error
		}
		got := make(chan result, 1)
		go func() {
			b, err := poll(t, l, storage.PollRequest{Topic: "idle", Partition: "0", TopicID: topic.ID, Start: storage.Cursor, Wait: patience})
			if err == nil && len(b.Records) != 1 {
				err = fmt.Errorf("%d records", len(b.Records))
			}
			got <- result{time.Now(), err}
		}()
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C // until it waits at the broker
		began := time.Now()
		appendAll(t, l, "idle", storage.Event{Frame: event(n)})
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		took = append(took, r.at.Sub(began))
	}
	slices.Sort(took)
	t.Logf("append to poll on an idle topic: p50 %v, p99 %v", took[100], took[198])
	if took[100] > 10*time.Millisecond {
		t.Errorf("p50 is %v, want under 10 ms", took[100])
	}
}

// eventually wants f to become nil.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	servertest.Eventually(t, patience, f)
}

// compaction: offsets without records, also many in a row.
func (k *kafkaBroker) compaction(t *testing.T) {
	l := k.open(t, kafka.Options{})
	set := func(s string) *string { return &s }
	err := k.admin(t).CreateTopic("compact", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{
		"cleanup.policy": set("compact"), "min.cleanable.dirty.ratio": set("0.01"), "segment.ms": set("200"), "max.compaction.lag.ms": set("500"),
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, "compact", storage.Event{Key: "first", Frame: event(0)})
	n := 1
	eventually(t, func() error {
		for range 100 {
			appendAll(t, l, "compact", storage.Event{Key: "k", Frame: event(n)})
			n++
		}
		b, err := poll(t, l, storage.PollRequest{Topic: "compact", Partition: "0", Start: 0, Wait: patience})
		if err == nil && b.Next-b.Start == int64(len(b.Records)) {
			err = errors.New("nothing is compacted yet")
		}
		return err
	})
	last := ""
	for next := int64(0); next < int64(n); {
		b, err := poll(t, l, storage.PollRequest{Topic: "compact", Partition: "0", Start: next, Wait: patience})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			if last = logtest.ID(r.Frame); last != fmt.Sprint(r.Offset) {
				t.Errorf("record %d is event %s", r.Offset, last)
			}
		}
		next = b.Next
	}
	if last != fmt.Sprint(n-1) {
		t.Errorf("the last event is %s, want %d", last, n-1)
	}
	if _, ok, err := l.Fingerprint(t.Context(), "compact", "0", 50); err != nil || !ok {
		t.Errorf("fingerprint in a gap: %v, %v", ok, err)
	}
}

// transactions: markers are gaps, aborted records are left out on request.
func (k *kafkaBroker) transactions(t *testing.T) {
	all, committed := k.open(t, kafka.Options{}), k.open(t, kafka.Options{ReadCommitted: true})
	k.topic(t, all, "txn", 1)
	conf := sarama.NewConfig()
	conf.Version = sarama.V2_8_0_0
	conf.Producer.Idempotent, conf.Producer.RequiredAcks, conf.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	conf.Producer.Return.Successes = true
	conf.Producer.Transaction.ID = "test"
	p, err := sarama.NewSyncProducer(k.addrs(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for n, commit := range []bool{true, false, true, false} {
		if err := p.BeginTxn(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: "txn", Value: sarama.ByteEncoder(event(10*n + i))}); err != nil {
				t.Fatal(err)
			}
		}
		end := p.AbortTxn
		if commit {
			end = p.CommitTxn
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		l   *kafka.Log
		ids []string
	}{{all, []string{"0", "1", "2", "10", "11", "12", "20", "21", "22", "30", "31", "32"}}, {committed, []string{"0", "1", "2", "20", "21", "22"}}} {
		var ids []string
		next := int64(0)
		eventually(t, func() error {
			b, err := poll(t, want.l, storage.PollRequest{Topic: "txn", Partition: "0", Start: next})
			for _, r := range b.Records {
				ids = append(ids, logtest.ID(r.Frame))
			}
			if next = max(next, b.Next); err == nil && next < 16 {
				err = fmt.Errorf("read up to %d", next)
			}
			return err
		})
		if !slices.Equal(ids, want.ids) {
			t.Errorf("read %v, want %v", ids, want.ids)
		}
	}
}

// foreign: what other programs write.
func (k *kafkaBroker) foreign(t *testing.T) {
	l := k.open(t, kafka.Options{})
	k.topic(t, l, "foreign", 1)
	h := func(name, value string) sarama.RecordHeader {
		return sarama.RecordHeader{Key: []byte(name), Value: []byte(value)}
	}
	kafkatest.Produce(t, k.addrs(),
		&sarama.ProducerMessage{Topic: "foreign", Value: sarama.StringEncoder("plain"), Key: sarama.StringEncoder("k")},
		&sarama.ProducerMessage{Topic: "foreign", Value: sarama.StringEncoder(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":[1]}`)},
		&sarama.ProducerMessage{Topic: "foreign", Value: sarama.StringEncoder("d"), Headers: []sarama.RecordHeader{h("ce_specversion", "1.0"), h("ce_id", "2"), h("ce_source", "/s"), h("ce_type", "t")}},
	)
	b, err := poll(t, l, storage.PollRequest{Topic: "foreign", Partition: "0", Start: 0, Wait: patience})
	if err != nil || len(b.Records) != 3 {
		t.Fatalf("%d records, %v", len(b.Records), err)
	}
	for i, want := range []string{"plain", "[1]", "d"} {
		if v := frame.View(b.Records[i].Frame); string(v.Data()) != want {
			t.Errorf("record %d has the data %q, want %q", i, v.Data(), want)
		}
	}
}

// noTrace: after all this the broker knows no group of ours, nor a topic that
// keeps offsets of groups.
func (k *kafkaBroker) noTrace(t *testing.T) {
	a := k.admin(t)
	groups, err := a.ListConsumerGroups()
	if err != nil || len(groups) > 0 {
		t.Errorf("groups: %v, %v; want none", groups, err)
	}
	topics, err := a.ListTopics()
	if _, ok := topics["__consumer_offsets"]; ok || err != nil {
		t.Errorf("the broker keeps offsets of groups: %v", err)
	}
}

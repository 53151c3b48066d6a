//go:build brokers

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
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
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
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
func (k *kafkaBroker) admin(t *testing.T) sarama.ClusterAdmin {
	t.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	a, err := sarama.NewClusterAdmin(k.addrs(), c)
	if err != nil {
		t.Fatalf("admin: %v", err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func event(n int) []byte { return storagetest.Frame(make([]byte, 200), "id", fmt.Sprint(n)) }

func idOf(t *testing.T, b []byte) string {
	t.Helper()
	v, _ := frame.View(b).Attr("id")
	return string(v)
}

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

// killAmidEvents kills the broker and starts it, twice, while 100,000 events
// are written and read: every event that was told to be stored is read, at
// its place; none twice; each key in order.
func (k *kafkaBroker) killAmidEvents(t *testing.T) {
	l := k.open(t, kafka.Options{})
	k.topic(t, l, "kill", 3)
	const total, call = 100_000, 100
	run := &killRun{l: l, places: map[string]string{}, ids: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	var readers, writers sync.WaitGroup
	for _, part := range []string{"0", "1", "2"} {
		readers.Go(func() { run.read(ctx, t, part) })
	}
	began := time.Now()
	for w := range 4 {
		writers.Go(func() { run.write(ctx, t, w, total/4, call) })
	}
	for _, share := range []int{total / 4, total / 2} {
		run.await(ctx, t, share)
		k.kill(t)
		k.start(t)
	}
	writers.Wait()
	run.await(ctx, t, total)
	cancel()
	readers.Wait()
	run.check(t, total)
	t.Logf("%d events written and read through two kills in %v", total, time.Since(began).Round(time.Second))
}

// killRun is what is written and read.
type killRun struct {
	l *kafka.Log

	mu     sync.Mutex
	places map[string]string // of what was told to be stored
	ids    map[string]int    // what was read, how often
	wrong  []string
}

// write writes events, and again those that were told to have failed.
func (r *killRun) write(ctx context.Context, t *testing.T, writer, n, call int) {
	for first := 0; first < n && ctx.Err() == nil; first += call {
		var todo []int
		for i := range call {
			todo = append(todo, writer*n+first+i)
		}
		for len(todo) > 0 && ctx.Err() == nil {
			todo = r.attempt(ctx, t, writer, todo)
		}
	}
}

func (r *killRun) attempt(ctx context.Context, t *testing.T, writer int, todo []int) (failed []int) {
	events := make([]storage.Event, len(todo))
	for i, n := range todo {
		events[i] = storage.Event{Key: fmt.Sprint(writer), Frame: event(n)}
	}
	results, err := storage.AppendWait(ctx, r.l, "kill", events)
	if err != nil {
		if !errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
			t.Errorf("append: %v", err)
		}
		return todo
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range results {
		if res.Err != nil {
			failed = append(failed, todo[i])
			continue
		}
		r.places[fmt.Sprint(res.Partition, "/", res.Offset)] = fmt.Sprint(todo[i])
	}
	return failed
}

func (r *killRun) read(ctx context.Context, t *testing.T, part string) {
	b := new(storage.Batch)
	for ctx.Err() == nil {
		err := r.l.Poll(ctx, storage.PollRequest{Topic: "kill", Partition: part, Start: storage.Cursor, Wait: time.Second}, b)
		if err != nil && !errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
			t.Errorf("poll: %v", err)
			return
		}
		r.mu.Lock()
		for _, rec := range b.Records {
			id := idOf(t, rec.Frame)
			r.ids[id]++
			if want, ok := r.places[fmt.Sprint(part, "/", rec.Offset)]; ok && want != id {
				r.wrong = append(r.wrong, fmt.Sprintf("%s/%d is %s, was told to be %s", part, rec.Offset, id, want))
			}
		}
		r.mu.Unlock()
	}
}

// await waits until so many events were read.
func (r *killRun) await(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		r.mu.Lock()
		have := len(r.ids)
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d events are read", have, n)
		case <-ticker.C:
		}
	}
}

func (r *killRun) check(t *testing.T, total int) {
	twice := 0
	for _, n := range r.ids {
		twice += n - 1
	}
	if len(r.ids) != total || len(r.places) != total || len(r.wrong) > 0 {
		t.Errorf("%d of %d events read, %d told to be stored, wrong: %v", len(r.ids), total, len(r.places), r.wrong)
	}
	if twice > 0 {
		t.Logf("%d events were written again after they had failed, and had not", twice)
	}
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

// recreated: another program deletes a topic and makes it again, and it grows
// past the old position before the next Poll.
func (k *kafkaBroker) recreated(t *testing.T) {
	l := k.open(t, kafka.Options{})
	old := k.topic(t, l, "again", 1)
	for n := range 10 {
		appendAll(t, l, "again", storage.Event{Frame: event(n)})
	}
	req := storage.PollRequest{Topic: "again", Partition: "0", TopicID: old.ID, Start: storage.Cursor, Wait: patience}
	for next := int64(0); next < 10; {
		b, err := poll(t, l, req)
		if err != nil {
			t.Fatal(err)
		}
		next = b.Next
	}
	a := k.admin(t)
	if err := a.DeleteTopic("again"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return a.CreateTopic("again", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false) })
	other := k.open(t, kafka.Options{})
	for n := 100; n < 130; n++ {
		appendAll(t, other, "again", storage.Event{Frame: event(n)})
	}
	b, err := poll(t, l, req)
	if !errors.Is(err, storage.ErrTopicChanged) || len(b.Records) > 0 {
		t.Fatalf("%v, %d records; want ErrTopicChanged", err, len(b.Records))
	}
	req.TopicID = ""
	if b, err := poll(t, l, req); err != nil || b.Start != 0 || idOf(t, b.Records[0].Frame) != "100" {
		t.Errorf("the new topic is read from %d: %v", b.Start, err)
	}
}

// eventually wants f to become nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for until := time.Now().Add(patience); ; <-ticker.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("after %v still: %v", patience, err)
		}
	}
}

// retention: the broker removes what a position stands on.
func (k *kafkaBroker) retention(t *testing.T) {
	l := k.open(t, kafka.Options{})
	if _, err := l.CreateTopic(t.Context(), "short", storage.TopicConfig{Partitions: 1, Retention: time.Second}); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		appendAll(t, l, "short", storage.Event{Frame: event(n)})
	}
	if err := l.Seek(t.Context(), "short", "0", 5); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		low, _, err := l.Bounds(t.Context(), "short", "0")
		if err == nil && low == 0 {
			err = errors.New("nothing is removed yet")
		}
		return err
	})
	var r *storage.RangeError
	_, err := poll(t, l, storage.PollRequest{Topic: "short", Partition: "0", Start: storage.Cursor, Wait: patience})
	if !errors.As(err, &r) || r.Offset != 5 || r.Min != 20 || r.Max != 20 {
		t.Errorf("%v, want the range 20..20", err)
	}
}

// grown: partitions are added while the topic is in use.
func (k *kafkaBroker) grown(t *testing.T) {
	l := k.open(t, kafka.Options{})
	k.topic(t, l, "grows", 2)
	appendAll(t, l, "grows", storage.Event{Frame: event(0)})
	if err := k.admin(t).CreatePartitions("grows", 4, nil, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		topic, err := l.Topic(t.Context(), "grows")
		if err == nil && len(topic.Partitions) != 4 {
			err = fmt.Errorf("it has %q", topic.Partitions)
		}
		return err
	})
	other := k.open(t, kafka.Options{})
	var events []storage.Event
	for n := range 100 {
		events = append(events, storage.Event{Key: fmt.Sprint(n), Frame: event(n)})
	}
	appendAll(t, other, "grows", events...)
	for _, part := range []string{"2", "3"} {
		b, err := poll(t, l, storage.PollRequest{Topic: "grows", Partition: part, Start: storage.Cursor, Wait: patience})
		if err != nil || len(b.Records) == 0 || b.Records[0].Offset != 0 {
			t.Errorf("partition %s: %d records from %d, %v", part, len(b.Records), b.Start, err)
		}
	}
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
			if last = idOf(t, r.Frame); last != fmt.Sprint(r.Offset) {
				t.Errorf("record %d is event %s", r.Offset, last)
			}
		}
		next = b.Next
	}
	if last != fmt.Sprint(n-1) {
		t.Errorf("the last event is %s, want %d", last, n-1)
	}
	if _, _, ok, err := l.Fingerprint(t.Context(), "compact", "0", 50); err != nil || !ok {
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
				ids = append(ids, idOf(t, r.Frame))
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

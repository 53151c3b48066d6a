package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/observe"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// A broker that is frozen holds up no call beyond its time, nor Close.
func TestFrozenBroker(t *testing.T) {
	var f freezer
	c := cluster(t, kfake.NumBrokers(1), kfake.ListenFn(f.listen))
	t.Cleanup(f.thaw) // so that the cluster can end
	seed(t, c, "t", 1)
	const timeout = time.Second
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), RequestTimeout: timeout})
	write(t, l, "t", 0, 10)
	mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0})
	f.freeze()
	calls := map[string]func(ctx context.Context) error{
		"Poll": func(ctx context.Context) error {
			return l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: 5}, new(storage.Batch))
		},
		"Bounds": func(ctx context.Context) error { _, _, err := l.Bounds(ctx, "t", "0"); return err },
		"OffsetByTime": func(ctx context.Context) error {
			_, err := l.OffsetByTime(ctx, "t", "0", time.Now(), storage.Nearest)
			return err
		},
		"Topic":  func(ctx context.Context) error { _, err := l.Topic(ctx, "t"); return err },
		"Topics": func(ctx context.Context) error { _, err := l.Topics(ctx); return err },
		"CreateTopic": func(ctx context.Context) error {
			_, err := l.CreateTopic(ctx, "new", storage.TopicConfig{})
			return err
		},
		"Trim":        func(ctx context.Context) error { return l.Trim(ctx, "t", "0", 5) },
		"Fingerprint": func(ctx context.Context) error { _, _, err := l.Fingerprint(ctx, "t", "0", 5); return err },
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			began := time.Now()
			err := call(context.Background())
			if took := time.Since(began); took > 6*timeout || !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s on a frozen broker: %v after %v, want ErrUnavailable in a few times %v", name, err, took, timeout)
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout/5)
			defer cancel()
			began = time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > timeout {
				t.Errorf("%s with a deadline of %v: %v after %v", name, timeout/5, err, time.Since(began))
			}
		})
	}
	fate := make(chan error, 1)
	err := l.Append(context.Background(), "t", []storage.Event{{Frame: number(10)}}, func(r []storage.Appended, err error) {
		if err == nil {
			err = r[0].Err
		}
		fate <- err
	})
	if err != nil {
		t.Errorf("Append does not wait for the network, it returned %v", err)
	}
	wg.Wait()
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > 5*timeout {
		t.Errorf("Close took %v", took)
	}
	select {
	case err := <-fate:
		if !errors.Is(err, storage.ErrClosed) && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("an append that the broker never answered: %v", err)
		}
	default:
		t.Errorf("Close has returned and an append is not reported")
	}
}

// Leaders move while events are written and read: none is lost, none comes
// twice, and each key keeps its order.
func TestLeadersMove(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(3))
	seed(t, c, "t", 4)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()}.LookAgain(time.Millisecond))
	const total = 4000
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ticker := time.NewTicker(150 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				c.ShufflePartitionLeaders()
			}
		}
	})
	wg.Go(func() {
		for n := 0; n < total; n += 20 {
			writeKeyed(t, l, "t", n, n+20, func(n int) string { return fmt.Sprint("k", n%10) })
		}
	})
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 4 {
		wg.Go(func() {
			last := map[int]int{}
			b := new(storage.Batch)
			for {
				err := l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: fmt.Sprint(i), Start: storage.Cursor, Wait: patience}, b)
				if errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Errorf("poll: %v", err)
					return
				}
				mu.Lock()
				for _, r := range b.Records {
					var n int
					if _, err := fmt.Sscan(id(r.Frame), &n); err != nil {
						t.Errorf("record %d: %v", r.Offset, err)
					}
					if before, ok := last[n%10]; ok && n <= before {
						t.Errorf("key %d: %d comes after %d", n%10, n, before)
					}
					last[n%10] = n
					seen[id(r.Frame)]++
				}
				mu.Unlock()
			}
		})
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < total {
			return fmt.Errorf("%d of %d are read", len(seen), total)
		}
		return nil
	})
	cancel()
	wg.Wait()
	for n, times := range seen {
		if times != 1 {
			t.Errorf("event %s is in the log %d times", n, times)
		}
	}
}

// Produce requests that fail once, or after they were carried out, are made
// again and make no second record.
func TestProduceIsRepeatedSafely(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	for i, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicas, kerr.KafkaStorageError} {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: 2})
		r := write(t, l, "t", 10*i, 10*i+10)
		for k := range r {
			if want := int64(10*i + k); r[k].Offset != want {
				t.Errorf("after %v event %d is reported at %d", code, want, r[k].Offset)
			}
		}
	}
	b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0})
	for i, r := range b.Records {
		if id(r.Frame) != fmt.Sprint(i) || r.Offset != int64(i) {
			t.Errorf("record %d at %d is event %s", i, r.Offset, id(r.Frame))
		}
	}
	if len(b.Records) != 50 {
		t.Errorf("there are %d records, want 50", len(b.Records))
	}
}

// What the broker refuses for good fails alone, by name, and what comes after
// it is written.
func TestProduceIsRefused(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, l, "t", 0, 1)
	for code, want := range map[*kerr.Error]error{
		kerr.MessageTooLarge: storage.ErrTooLarge, kerr.InvalidRecord: storage.ErrInvalid, kerr.CorruptMessage: nil,
	} {
		count := 1
		if code == kerr.CorruptMessage {
			count = 3 // damaged on the way: sent again
		}
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: count})
		results, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Frame: number(1)}})
		if err == nil {
			err = results[0].Err
		}
		if !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", code, err, want)
		}
		write(t, l, "t", 2, 4)
	}
}

// A topic that another program deletes and makes again, and that grows past
// the old position, is noticed before one record of it is given out as the
// old one's.
func TestRecreatedByOthers(t *testing.T) {
	t.Run("newest", func(t *testing.T) { recreated(t, kversion.Stable()) })
	// Fetches name topics by name, and the broker is asked after each.
	t.Run("3.0", func(t *testing.T) { recreated(t, kversion.V3_0_0()) })
}

func recreated(t *testing.T, versions *kversion.Versions) {
	t.Helper()
	c := cluster(t, kfake.NumBrokers(1), kfake.MaxVersions(versions))
	seed(t, c, "t", 1)
	var changes []string
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Observe: observe.Broker{
		TopicChanged: func(topic, _, _ string) { changes = append(changes, topic) },
	}}.LookAgain(time.Hour))
	write(t, l, "t", 0, 10)
	old, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	req := storage.PollRequest{Topic: "t", Partition: "0", TopicID: old.ID, Start: storage.Cursor, MaxRecords: 5, Wait: patience}
	mustPoll(t, l, req)
	req.MaxRecords = 0
	mustPoll(t, l, req)
	if err := c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	seed(t, c, "t", 1)
	other := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	write(t, other, "t", 100, 150)
	b, err := poll(t, l, req)
	if !errors.Is(err, storage.ErrTopicChanged) || len(b.Records) > 0 {
		t.Fatalf("%v, %d records; want ErrTopicChanged", err, len(b.Records))
	}
	if len(changes) != 1 {
		t.Errorf("the change was told %d times", len(changes))
	}
	// Who expects no identity reads the new topic from its beginning.
	req.TopicID = ""
	if b := mustPoll(t, l, req); b.Start != 0 || id(b.Records[0].Frame) != "100" {
		t.Errorf("the new topic is read from %d, event %s", b.Start, id(b.Records[0].Frame))
	}
	// Writing goes on too, at the latest when it was noticed.
	eventually(t, func() error {
		results, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Frame: number(150)}})
		if err == nil {
			err = results[0].Err
		}
		return err
	})
}

// A log that writes all the time goes on in a topic that others make again.
func TestWriterAcrossRecreation(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 2)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()}.LookAgain(5*time.Millisecond))
	for round := range 3 {
		for n := range 10 {
			eventually(t, func() error {
				results, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Key: fmt.Sprint(n), Frame: number(100*round + n)}})
				if err == nil {
					err = results[0].Err
				}
				return err
			})
		}
		count := 0
		for _, part := range []string{"0", "1"} {
			for _, r := range mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: part, Start: storage.Cursor}).Records {
				if want := fmt.Sprint(100*round + count); len(id(r.Frame)) != len(want) {
					t.Errorf("round %d has the event %s", round, id(r.Frame))
				}
				count++
			}
		}
		if count < 10 {
			t.Errorf("round %d: %d of 10 events are there", round, count)
		}
		if err := c.DeleteTopic("t"); err != nil {
			t.Fatal(err)
		}
		seed(t, c, "t", 2)
	}
}

// A broker that lags behind and tells an old identity is not believed.
func TestOldIdentityIsNotBelieved(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	old, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	seed(t, c, "t", 1)
	now, err := l.Topic(t.Context(), "t")
	if err != nil || now.ID == old.ID {
		t.Fatalf("%+v, %v", now, err)
	}
	lagging := [16]byte(decode64(t, old.ID))
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res, ok := laggingMetadata(t, c, r, lagging)
		return res, nil, ok
	})
	if again, err := l.Topic(t.Context(), "t"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a broker that tells the old identity: %+v, %v; want ErrUnavailable", again, err)
	}
	c.DropControl()
}

func laggingMetadata(t *testing.T, c *kfake.Cluster, r kmsg.Request, id [16]byte) (kmsg.Response, bool) {
	req, ok := r.(*kmsg.MetadataRequest)
	if !ok {
		return nil, false
	}
	res, ok := req.ResponseKind().(*kmsg.MetadataResponse)
	if !ok {
		return nil, false
	}
	host, port, _ := strings.Cut(c.ListenAddrs()[0], ":")
	b := kmsg.NewMetadataResponseBroker()
	b.Host = host
	if _, err := fmt.Sscan(port, &b.Port); err != nil {
		t.Errorf("port %q: %v", port, err)
	}
	topic, part := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
	topic.Topic, topic.TopicID = kmsg.StringPtr("t"), id
	topic.Partitions = append(topic.Partitions, part)
	res.Brokers, res.Topics = append(res.Brokers, b), append(res.Topics, topic)
	return res, true
}

// Without the right to make topics, the error says what to create.
func TestMissingTopicSaysWhatToCreate(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Partitions: 6, Replicas: 3})
	_, err := l.EnsureTopic(t.Context(), "orders_DLQ")
	want := "kafka-topics.sh --bootstrap-server " + c.ListenAddrs()[0] + " --create --topic orders_DLQ --partitions 6 --replication-factor 3"
	if !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want ErrTopicNotFound and %q", err, want)
	}
	fates := make(chan error, 1)
	if err := l.Append(t.Context(), "orders_DLQ", []storage.Event{{Frame: number(1)}}, func(_ []storage.Appended, err error) { fates <- err }); err != nil {
		t.Fatalf("append: %v", err)
	}
	if err := <-fates; !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), want) {
		t.Errorf("append: %v", err)
	}
}

// No broker is reached: Open says so, and names them.
func TestOpenWithoutBroker(t *testing.T) {
	_, err := kafka.Open(t.Context(), kafka.Options{Brokers: []string{"127.0.0.1:1"}, Dir: t.TempDir(), RequestTimeout: time.Second})
	if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}

// Settings that cannot be meant are refused.
func TestOptions(t *testing.T) {
	good := kafka.Options{Brokers: []string{"127.0.0.1:1"}, Dir: t.TempDir()}
	for name, spoil := range map[string]func(o *kafka.Options){
		"no brokers":  func(o *kafka.Options) { o.Brokers = nil },
		"no dir":      func(o *kafka.Options) { o.Dir = "" },
		"partitions":  func(o *kafka.Options) { o.Partitions = 1025 },
		"replicas":    func(o *kafka.Options) { o.Replicas = -1 },
		"format":      func(o *kafka.Options) { o.Format = "avro" },
		"compression": func(o *kafka.Options) { o.Compression = "rar" },
		"record":      func(o *kafka.Options) { o.MaxRecordBytes = 7 },
		"queue":       func(o *kafka.Options) { o.QueueBytes = -1 },
		"fetch":       func(o *kafka.Options) { o.FetchBytes = 1 },
		"timeout":     func(o *kafka.Options) { o.RequestTimeout = -1 },
		"mechanism":   func(o *kafka.Options) { o.SASL.Mechanism = "GSSAPI" },
		"password":    func(o *kafka.Options) { o.SASL = kafka.SASL{Mechanism: kafka.MechanismPlain, User: "u"} },
		"token":       func(o *kafka.Options) { o.SASL.Mechanism = kafka.MechanismOAuth },
	} {
		o := good
		spoil(&o)
		if _, err := kafka.Open(t.Context(), o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// What is not answered yet is bounded: Append then waits, as long as its
// context, and what it refuses is not written.
func TestQueueIsBounded(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), QueueBytes: 1000})
	write(t, l, "t", 0, 1)
	stuck := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	first := make(chan error, 1)
	err := l.Append(t.Context(), "t", []storage.Event{{Frame: storagetest.Frame(make([]byte, 900), "id", "1")}}, func(r []storage.Appended, err error) {
		first <- errors.Join(err, r[0].Err)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = l.Append(ctx, "t", []storage.Event{{Frame: storagetest.Frame(make([]byte, 200), "id", "refused")}}, func([]storage.Appended, error) {
		t.Error("an event that was refused is reported")
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full queue: %v, want context.DeadlineExceeded", err)
	}
	stuck.Remove()
	if err := <-first; err != nil {
		t.Errorf("the first event: %v", err)
	}
	write(t, l, "t", 2, 3)
	b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0, Wait: patience})
	for i, r := range b.Records {
		if id(r.Frame) != fmt.Sprint(i) {
			t.Errorf("record %d is %s", i, id(r.Frame))
		}
	}
}

// Package kafkatest runs the suite of package storagetest on a Kafka cluster,
// real or fake, and writes to it as other programs do.
package kafkatest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// Quiet is a logger that drops everything.
var Quiet = slog.New(slog.DiscardHandler)

// recordOverhead is what a record is taken to need besides key and frame.
const recordOverhead = 36

// Open opens a log, with a quiet logger where o has none and a directory of
// its own where o has none. Whoever calls it closes the log.
func Open(t storagetest.T, o kafka.Options) *kafka.Log {
	t.Helper()
	if o.Logger == nil {
		o.Logger = Quiet
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := kafka.Open(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// Harness runs the suite on the brokers of o. The directory is chosen here.
func Harness(t *testing.T, o kafka.Options) storagetest.Harness {
	d := storagetest.NewDirectories(t, func(t storagetest.T, dir string) storage.Backend {
		o := o
		o.Dir = dir
		return Open(t, o)
	})
	maxRecord := o.MaxRecordBytes
	if maxRecord == 0 {
		maxRecord = 1_000_000
	}
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true,
			TopicID: true, AutoCreate: o.AutoCreate,
		},
		Patience:    20 * time.Second,
		Settle:      60 * time.Millisecond,
		MaxFrame:    maxRecord - recordOverhead,
		Open:        d.Open,
		Reopen:      d.Reopen,
		CrashReopen: d.CrashReopen,
		AppendAt: func(t storagetest.T, _ storage.Backend, topic string, frame []byte, at time.Time) {
			Produce(t, o.Brokers, &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(frame), Timestamp: at})
		},
	}
}

// Admin is a client of another program, which is closed with the test.
func Admin(t testing.TB, brokers []string) sarama.ClusterAdmin {
	t.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	a, err := sarama.NewClusterAdmin(brokers, c)
	if err != nil {
		t.Fatalf("admin: %v", err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// Produce writes messages as another program does, each to its partition.
func Produce(t storagetest.T, brokers []string, messages ...*sarama.ProducerMessage) {
	t.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(brokers, c)
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	defer func() { _ = p.Close() }() // everything was answered
	if err := p.SendMessages(messages); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

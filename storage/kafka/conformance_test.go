package kafka_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// cluster starts a fake cluster that ends with the test.
func cluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("fake cluster: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// open opens a log with quiet defaults; the test closes it.
func open(t storagetest.T, o kafka.Options) *kafka.Log {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := kafka.Open(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// recordOverhead is what a record is taken to need besides key and value.
const recordOverhead = 36

// harness runs the suite on the brokers of o.
func harness(t *testing.T, o kafka.Options) storagetest.Harness {
	base := t.TempDir()
	place := func(t storagetest.T) string {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatalf("directory: %v", err)
		}
		return dir
	}
	var dir string
	again := func(t storagetest.T) storage.Backend {
		cur := o
		cur.Dir = dir
		return open(t, cur)
	}
	maxRecord := o.MaxRecordBytes
	if maxRecord == 0 {
		maxRecord = 1_000_000
	}
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true,
			TopicID: true, AutoCreate: o.AutoCreate,
		},
		Patience: 20 * time.Second,
		Settle:   60 * time.Millisecond,
		MaxFrame: maxRecord - recordOverhead,
		Open: func(t storagetest.T) storage.Backend {
			dir = place(t)
			return again(t)
		},
		Reopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			if err := b.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			return again(t)
		},
		CrashReopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			// The directory as a killed process leaves it; what the old one
			// writes later is not seen.
			was := dir
			dir = place(t)
			if err := os.CopyFS(dir, os.DirFS(was)); err != nil {
				t.Fatalf("copy: %v", err)
			}
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("close of the crashed log: %v", err)
				}
			})
			return again(t)
		},
		AppendAt: func(t storagetest.T, _ storage.Backend, topic string, frame []byte, at time.Time) {
			produce(t, o.Brokers, &sarama.ProducerMessage{Topic: topic, Partition: 0, Value: sarama.ByteEncoder(frame), Timestamp: at})
		},
	}
}

// produce writes messages as another program does, each into its partition.
func produce(t storagetest.T, brokers []string, messages ...*sarama.ProducerMessage) {
	t.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(brokers, c)
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	defer p.Close()
	for _, m := range messages {
		if _, _, err := p.SendMessage(m); err != nil {
			t.Fatalf("produce: %v", err)
		}
	}
}

func TestConformance(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	storagetest.Run(t, harness(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true}))
}

// Several brokers, compression, only committed records, small fetches.
func TestConformanceOnThreeBrokers(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(3))
	storagetest.Run(t, harness(t, kafka.Options{
		Brokers: c.ListenAddrs(), Compression: kafka.CompressionZSTD, ReadCommitted: true, FetchBytes: 4096, Partitions: 3, Replicas: 3,
	}))
}

// Written as CloudEvents, what is read is the same event, but not always the
// same bytes: the place of attributes may differ.
func TestConformanceAsCloudEvents(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	h := harness(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true, Format: kafka.FormatCloudEvents})
	h.SameFrame = sameEvent
	storagetest.Run(t, h)
}

// sameEvent tells whether two frames have the same attributes and data; the
// key may have come in as partitionkey.
func sameEvent(a, b []byte) bool {
	x, errX := frame.Decode(a)
	y, errY := frame.Decode(b)
	if errX != nil || errY != nil || string(x.Data) != string(y.Data) {
		return false
	}
	y.Delete(frame.AttrPartitionKey)
	for _, attr := range x.Attributes {
		if v, ok := y.Get(attr.Name); !ok || v != attr.Value {
			return false
		}
	}
	return len(x.Attributes) == len(y.Attributes)
}

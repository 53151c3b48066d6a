// Package kafkatest runs the suite of package storagetest on a Kafka cluster,
// real or fake, and writes to it as other programs do.
package kafkatest

import (
	"context"
	"log/slog"
	"os"
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
	d := &directories{opts: o, base: t.TempDir()}
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
		Open:        func(t storagetest.T) storage.Backend { d.next(t); return d.open(t) },
		Reopen:      d.reopen,
		CrashReopen: d.crash,
		AppendAt: func(t storagetest.T, _ storage.Backend, topic string, frame []byte, at time.Time) {
			Produce(t, o.Brokers, &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(frame), Timestamp: at})
		},
	}
}

// directories gives each case a directory for its pull offsets.
type directories struct {
	opts kafka.Options
	base string
	dir  string
}

func (d *directories) next(t storagetest.T) {
	dir, err := os.MkdirTemp(d.base, "")
	if err != nil {
		t.Fatalf("directory: %v", err)
	}
	d.dir = dir
}

func (d *directories) open(t storagetest.T) storage.Backend {
	o := d.opts
	o.Dir = d.dir
	return Open(t, o)
}

func (d *directories) reopen(t storagetest.T, b storage.Backend) storage.Backend {
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return d.open(t)
}

// crash goes on with the directory as a killed process leaves it; what the old
// log writes to it later is not seen.
func (d *directories) crash(t storagetest.T, b storage.Backend) storage.Backend {
	was := d.dir
	d.next(t)
	if err := os.CopyFS(d.dir, os.DirFS(was)); err != nil {
		t.Fatalf("copy: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close of the crashed log: %v", err)
		}
	})
	return d.open(t)
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

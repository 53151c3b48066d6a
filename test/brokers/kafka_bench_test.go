//go:build brokers

package brokers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

const benchPartitions = 3

// BenchmarkKafka compares with plain sarama on one broker, in one run: events
// of 1 KiB in three partitions.
//
//	go test -tags brokers -run '^$' -bench Kafka -benchtime 300000x ./test/brokers
func BenchmarkKafka(b *testing.B) {
	k := startKafka(b, "")
	l := kafkatest.Open(b, kafka.Options{Brokers: k.addrs(), Dir: b.TempDir()})
	defer l.Close()
	topic := fmt.Sprint("bench-", time.Now().UnixNano())
	if _, err := l.CreateTopic(b.Context(), topic, storage.TopicConfig{Partitions: benchPartitions}); err != nil {
		b.Fatal(err)
	}
	b.Run("Append", func(b *testing.B) { benchAppend(b, l, topic) })
	b.Run("PlainProducer", func(b *testing.B) { benchProducer(b, k, topic) })
	for range 2 {
		b.Run("Poll", func(b *testing.B) { benchPoll(b, l, topic) })
		b.Run("PlainConsumer", func(b *testing.B) { benchConsumer(b, k, topic) })
	}
}

func benchFrame() []byte { return storagetest.Frame(make([]byte, 1000), "id", "1") }

func benchAppend(b *testing.B, l *kafka.Log, topic string) {
	frame := benchFrame()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var wg sync.WaitGroup
	for n := 0; n < b.N; n += 50 {
		events := make([]storage.Event, min(50, b.N-n))
		for i := range events {
			events[i].Frame = frame
		}
		wg.Add(1)
		err := l.Append(b.Context(), topic, events, func(r []storage.Appended, err error) {
			if err != nil || r[0].Err != nil {
				b.Errorf("append: %v, %+v", err, r)
			}
			wg.Done()
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}

func benchProducer(b *testing.B, k *kafkaBroker, topic string) {
	conf := sarama.NewConfig()
	conf.Version = sarama.V2_8_0_0
	conf.Producer.Return.Successes = true
	conf.Producer.RequiredAcks, conf.Producer.Idempotent, conf.Net.MaxOpenRequests = sarama.WaitForAll, true, 1
	p, err := sarama.NewAsyncProducer(k.addrs(), conf)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	frame := benchFrame()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var wg sync.WaitGroup
	wg.Go(func() {
		for range b.N {
			select {
			case <-p.Successes():
			case err := <-p.Errors():
				b.Errorf("produce: %v", err)
			}
		}
	})
	for range b.N {
		p.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(frame)}
	}
	wg.Wait()
}

// ends are where partitions end, and how many records all have.
func ends(b *testing.B, l *kafka.Log, topic string) (list []int64, total int64) {
	for i := range benchPartitions {
		_, high, err := l.Bounds(b.Context(), topic, fmt.Sprint(i))
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, high)
		total += high
	}
	return list, total
}

func benchPoll(b *testing.B, l *kafka.Log, topic string) {
	high, total := ends(b, l, topic)
	b.SetBytes(int64(len(benchFrame())))
	b.ReportAllocs()
	for n := int64(0); n < int64(b.N); n += total {
		var wg sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(b.N) - n)
		for i := range benchPartitions {
			part := fmt.Sprint(i)
			if err := l.Seek(b.Context(), topic, part, 0); err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				batch := new(storage.Batch)
				for batch.Next < high[i] && left.Load() > 0 {
					req := storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, MaxBytes: 256 << 10, Wait: time.Second}
					if err := l.Poll(context.Background(), req, batch); err != nil {
						b.Errorf("poll: %v", err)
						return
					}
					left.Add(-int64(len(batch.Records)))
				}
			})
		}
		wg.Wait()
	}
}

func benchConsumer(b *testing.B, k *kafkaBroker, topic string) {
	conf := sarama.NewConfig()
	conf.Version = sarama.V2_8_0_0
	b.SetBytes(int64(len(benchFrame())))
	b.ReportAllocs()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for i := range int32(benchPartitions) {
		wg.Go(func() {
			c, err := sarama.NewConsumer(k.addrs(), conf)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			p, err := c.ConsumePartition(topic, i, 0)
			if err != nil {
				b.Error(err)
				return
			}
			defer p.Close()
			for left.Load() > 0 {
				m := <-p.Messages()
				left.Add(-1)
				if m.Offset+1 == p.HighWaterMarkOffset() {
					return
				}
			}
		})
	}
	wg.Wait()
}

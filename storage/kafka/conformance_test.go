package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

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

func TestConformance(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	storagetest.Run(t, kafkatest.Harness(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true}))
}

// Several brokers, compression, only committed records, small fetches.
func TestConformanceOnThreeBrokers(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(3))
	storagetest.Run(t, kafkatest.Harness(t, kafka.Options{
		Brokers: c.ListenAddrs(), Compression: kafka.CompressionZSTD, ReadCommitted: true, FetchBytes: 4096, Partitions: 3, Replicas: 3,
	}))
}

// Written as CloudEvents, what is read is the same event, but not always the
// same bytes: the place of attributes may differ.
func TestConformanceAsCloudEvents(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	h := kafkatest.Harness(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true, Format: kafka.FormatCloudEvents})
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

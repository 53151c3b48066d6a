//go:build brokers

package brokers_test

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// TestKafka starts one broker for all that is tested on it.
func TestKafka(t *testing.T) {
	k := startKafka(t, "")
	t.Run("Conformance", k.conformance)
}

func (k *kafkaBroker) conformance(t *testing.T) {
	h := kafkatest.Harness(t, kafka.Options{Brokers: k.addrs(), AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	h.RestartBroker = func(storagetest.T) { k.kill(t); k.start(t) }
	storagetest.Run(t, h)
}

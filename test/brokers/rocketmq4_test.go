//go:build brokers

package brokers_test

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// TestRocketMQ4 starts one broker for all that is tested on it.
func TestRocketMQ4(t *testing.T) {
	r := startRocketMQ4(t)
	before := r.traces(t)
	t.Run("KillAmidEvents", r.killAmidEvents)
	t.Run("ForeignMessages", r.foreign)
	t.Run("Conformance", r.conformance)
	t.Run("NoTraceAtTheBroker", func(t *testing.T) { r.noTrace(t, before) })
}

func (r *rocketMQ4) conformance(t *testing.T) {
	h := rocketmq4test.Harness(t, rocketmq4.Options{NameServers: r.nameServers(), AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	h.RestartBroker = func(storagetest.T) { r.kill(t); r.start(t) }
	storagetest.Run(t, h)
}

// open opens a log that is closed with the test.
func (r *rocketMQ4) open(t *testing.T, o rocketmq4.Options) *rocketmq4.Log {
	t.Helper()
	o.NameServers = r.nameServers()
	l := rocketmq4test.Open(t, o)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func (r *rocketMQ4) killAmidEvents(t *testing.T) {
	l := r.open(t, rocketmq4.Options{})
	topic, err := l.CreateTopic(t.Context(), "kill", storage.TopicConfig{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	killAmidEvents(t, l, topic.Partitions, func() { r.kill(t); r.start(t) })
}

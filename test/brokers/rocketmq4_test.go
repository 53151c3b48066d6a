//go:build brokers

package brokers_test

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// TestRocketMQ4 starts one broker for all that is tested on it.
func TestRocketMQ4(t *testing.T) {
	r := startRocketMQ4(t)
	t.Run("Conformance", r.conformance)
}

func (r *rocketMQ4) conformance(t *testing.T) {
	h := rocketmq4test.Harness(t, rocketmq4.Options{NameServers: r.nameServers(), AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	h.RestartBroker = func(storagetest.T) { r.kill(t); r.start(t) }
	storagetest.Run(t, h)
}

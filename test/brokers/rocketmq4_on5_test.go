//go:build brokers

package brokers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// TestRocketMQ4On5 runs the suite of the log on RocketMQ 4 on a broker of
// RocketMQ 5, by its remoting port.
func TestRocketMQ4On5(t *testing.T) {
	r := startRocketMQ5(t)
	h := rocketmq4test.Harness(t, rocketmq4.Options{NameServers: []string{fmt.Sprintf("127.0.0.1:%d", r.names)}, AutoCreate: true})
	h.Patience = time.Minute
	h.Settle = 300 * time.Millisecond
	storagetest.Run(t, h)
}

package rocketmq4_test

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// cluster starts a fake cluster that ends with the test.
func cluster(t testing.TB, o fakebroker.Options) *fakebroker.Cluster {
	t.Helper()
	c, err := fakebroker.Start(o)
	if err != nil {
		t.Fatalf("fake cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the fake cluster: %v", err)
		}
	})
	return c
}

// harness runs the suite on a fake cluster, with one broker that is restarted.
func harness(t *testing.T, c *fakebroker.Cluster, broker string, o rocketmq4.Options) storagetest.Harness {
	o.NameServers = c.NameServers()
	h := rocketmq4test.Harness(t, o)
	h.RestartBroker = func(t storagetest.T) {
		if err := c.Stop(broker); err != nil {
			t.Fatalf("stop: %v", err)
		}
		if err := c.Restart(broker); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	h.AppendAt = func(t storagetest.T, b storage.Backend, topic string, frame []byte, at time.Time) {
		if _, err := c.Append(broker, topic, 0, remoting.Message{Body: frame, StoreTime: at.UnixMilli()}); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	return h
}

func TestConformance(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	storagetest.Run(t, harness(t, c, "broker-a", rocketmq4.Options{AutoCreate: true}))
	if n := c.OffsetMoved(); n > 0 {
		t.Errorf("%d pulls were outside the bounds", n)
	}
}

// Several brokers and name servers, small batches and pulls, signed requests.
func TestConformanceOnThreeBrokers(t *testing.T) {
	user := &remoting.Credentials{AccessKey: "mesh", SecretKey: "12345678"}
	c := cluster(t, fakebroker.Options{Brokers: []string{"broker-1", "broker:2", "broker-3"}, NameServers: 2, PullMax: 3, Credentials: user})
	storagetest.Run(t, harness(t, c, "broker-1", rocketmq4.Options{BatchBytes: 1024, Partitions: 3, Credentials: user}))
}

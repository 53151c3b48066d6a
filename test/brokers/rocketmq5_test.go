//go:build brokers

package brokers_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// TestRocketMQ5 starts one RocketMQ 5 for all that is tested on it. Most of it
// waits for invisible times to be over, so the tests run beside one another.
func TestRocketMQ5(t *testing.T) {
	r := startRocketMQ5(t)
	t.Run("Together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"Conformance": r.conformance, "ConformanceWithoutNameServer": r.bare,
			"KilledBeforeAck": r.killedBeforeAck, "TakenOverBeforeAck": r.takenOver, "BroadcastOnTwo": r.broadcastOnTwo,
			"ShareOnTwo": r.shareOnTwo, "C28_SlowHandler": r.slowHandler, "CrashBeforeBrokerAck": r.crashBeforeBrokerAck,
			"SecondJoinsBacklog": r.secondJoins, "C49_IdleQueues": r.idleQueues, "C73_Reset": r.reset, "C52_NobodyWantsIt": r.nobodyWants,
			"Types": r.types, "DeadLetters": r.deadLetters,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("C50_ServersAreKilled", r.serversAreKilled)
}

func (r *rocketmq5Broker) popHarness(bare bool) storagetest.PopHarness {
	h := storagetest.PopHarness{
		Open: func(t storagetest.T) storage.Backend { return r.open(t, bare) },
		MakeTopic: func(t storagetest.T, _ storage.Backend, topic string, partitions int) {
			r.makeTopic(t, topic, "NORMAL", partitions)
		},
		CrashReopen: func(t storagetest.T, b storage.Backend) storage.Backend {
			if err := b.Close(); err != nil { // its receipts stay as they are, as after a kill
				t.Errorf("close: %v", err)
			}
			return r.open(t, bare)
		},
		Places: !bare, Ordered: !bare, Counts: true, Patience: 30 * time.Second, Parallel: true,
	}
	if !bare { // without the name server a client must open a group itself
		h.Another = func(t storagetest.T, _ storage.Backend) storage.Backend { return r.open(t, false) }
	}
	return h
}

// makeTopic makes a topic through the remoting port, without its dead letters.
func (r *rocketmq5Broker) makeTopic(t storagetest.T, topic, kind string, queues int) {
	cmd := r.command("topic", topic, kind, "", strconv.Itoa(queues))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("topic %s: %v\n%s", topic, err, out)
	}
}

func (r *rocketmq5Broker) conformance(t *testing.T) { storagetest.RunPop(t, r.popHarness(false)) }

func (r *rocketmq5Broker) bare(t *testing.T) { storagetest.RunPop(t, r.popHarness(true)) }

func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

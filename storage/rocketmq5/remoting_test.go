package rocketmq5

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// TestQueuesAreBounded: a route that tells of very many queues is not believed.
func TestQueuesAreBounded(t *testing.T) {
	route := &remoting.Route{Queues: []remoting.QueueData{
		{Broker: "a", Read: 1 << 22, Perm: remoting.PermRead}, {Broker: "b", Read: -1, Perm: remoting.PermRead}, {Broker: "c", Read: 2, Perm: remoting.PermRead},
	}}
	p := &remotingPort{routes: map[string]knownRoute{"t": {route, time.Now()}}}
	list, err := p.queues(t.Context(), "t")
	if err != nil || len(list) != maxQueues+2 {
		t.Errorf("%d queues, %v", len(list), err)
	}
}

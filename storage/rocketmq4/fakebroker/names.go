package fakebroker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Codes of requests that are served.
const (
	CodePull        = 11
	CodeOffset      = 14
	CodeCreateTopic = 17
	CodeSearch      = 29
	CodeMax         = 30
	CodeMin         = 31
	CodeEarliest    = 32
	CodeRoute       = 105
	CodeCluster     = 106
	CodeTopicStats  = 202
	CodeTopics      = 206
	CodeDelete      = 215
	CodeForget      = 216
	CodeSend        = 310
	CodeSendBatch   = 320
)

func (c *Cluster) serveNames(ctx context.Context, req *remoting.Command) *remoting.Command {
	return c.serve(ctx, req, func(_ context.Context, req *remoting.Command) *remoting.Command {
		switch req.Code {
		case CodeRoute:
			return c.route(req.Fields["topic"])
		case CodeTopics:
			return c.topicList()
		case CodeCluster:
			return c.cluster()
		case CodeForget:
			return c.forget(req.Fields["topic"])
		}
		return fail(remoting.CodeNotSupported, "request code not supported")
	})
}

func fail(code int, remark string) *remoting.Command {
	return &remoting.Command{Code: code, Remark: remark}
}

func answer(v any) *remoting.Command {
	b, err := json.Marshal(v)
	if err != nil {
		return fail(remoting.CodeSystemError, err.Error())
	}
	return &remoting.Command{Body: b}
}

// data describes a broker; the lock is held.
func (b *broker) data() remoting.BrokerData {
	d := remoting.BrokerData{Cluster: "DefaultCluster", Name: b.name, Addrs: map[string]string{}}
	if b.up {
		d.Addrs[remoting.MasterID] = b.l.addr
	}
	if b.slave != nil {
		d.Addrs["1"] = b.slave.l.addr
	}
	return d
}

func (c *Cluster) route(name string) *remoting.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r remoting.Route
	if t := c.topics[name]; t != nil {
		for _, at := range slices.Sorted(maps.Keys(t.queues)) {
			b := c.brokers[at]
			if !b.up && b.slave == nil || c.gone[name][at] {
				continue
			}
			n := len(t.queues[at])
			r.Queues = append(r.Queues, remoting.QueueData{Broker: at, Read: n, Write: n, Perm: t.perm})
			r.Brokers = append(r.Brokers, b.data())
		}
	}
	if len(r.Queues) == 0 {
		return fail(remoting.CodeTopicNotExist, "No topic route info in name server for the topic: "+name)
	}
	return answer(r)
}

func (c *Cluster) topicList() *remoting.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []string{"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC", "DefaultCluster"}
	list = append(list, slices.Collect(maps.Keys(c.brokers))...)
	for name, t := range c.topics {
		for at := range t.queues {
			if !c.gone[name][at] {
				list = append(list, name)
				break
			}
		}
	}
	return answer(map[string]any{"topicList": list})
}

// cluster answers as brokers do: with keys that are numbers.
func (c *Cluster) cluster() *remoting.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := `{"brokerAddrTable":{`
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(c.brokers)) {
		b := c.brokers[name]
		if !b.up {
			continue
		}
		if len(names) > 0 {
			text += ","
		}
		names = append(names, name)
		text += `"` + name + `":{"brokerAddrs":{0:"` + b.l.addr + `"},"brokerName":"` + name + `","cluster":"DefaultCluster"}`
	}
	list, err := json.Marshal(names)
	if err != nil {
		return fail(remoting.CodeSystemError, err.Error())
	}
	return &remoting.Command{Body: []byte(text + `},"clusterAddrTable":{"DefaultCluster":` + string(list) + `}}`)}
}

// forget makes the name servers tell nothing of a topic until its brokers
// register it anew.
func (c *Cluster) forget(name string) *remoting.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[name]
	if t == nil {
		return &remoting.Command{}
	}
	c.gone[name] = map[string]bool{}
	for at := range t.queues {
		c.gone[name][at] = true
	}
	return &remoting.Command{}
}

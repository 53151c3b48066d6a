package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

// The versions that the scripts of test/brokers are asked for.
const (
	rocketmq4Version = "4.9.7"
	rocketmq5Version = "5.5.0"
)

// queues of a topic: what RocketMQ makes by default.
const queues = 8

// wholeCompiler lets a broker have the just-in-time compiler that production
// has; the scripts choose one that starts sooner.
const wholeCompiler = "-XX:+UseG1GC"

// gatherRocketMQ4 starts a name server and a broker, and beside Ackmesh
// prepares Apache's push consumer for Go.
func gatherRocketMQ4(ctx context.Context, w *workshop) error {
	ports, err := freePorts(6) // the broker uses those two below and one above its own
	if err != nil {
		return err
	}
	names, port := ports, ports+3
	b := newBroker(w, "rocketmq4.sh", "Apache RocketMQ "+rocketmq4Version,
		"RMQ_VERSION="+rocketmq4Version, "RMQ_JVM_OPTS="+wholeCompiler, "RMQ_BROKER_HEAP=1g",
		fmt.Sprintf("RMQ_NS_PORT=%d", names), fmt.Sprintf("RMQ_BROKER_PORT=%d", port))
	b.address = fmt.Sprintf("127.0.0.1:%d", names)
	b.flags = []string{"--storage", "rocketmq4", "--rocketmq4.nameservers", b.address}
	b.makeTopic = func(ctx context.Context, topic string) error { return b.makeRocketMQ4Topic(ctx, topic, port, names) }
	program, err := w.gatherRocketMQ(ctx, b, "push", b.data, "broker")
	if err == nil && !w.opt.alone {
		w.addPeer(nameApache, []string{program, "each"})
		w.addPeer(nameBatch, []string{program, "batch"}, load.CatchUp, load.Live)
	}
	return err
}

// gatherRocketMQ5 starts a name server, a broker and a proxy, and beside
// Ackmesh prepares Apache's SimpleConsumer for Go.
func gatherRocketMQ5(ctx context.Context, w *workshop) error {
	ports, err := freePorts(8)
	if err != nil {
		return err
	}
	names, port, proxy, remoting := ports, ports+3, ports+5, ports+6
	b := newBroker(w, "rocketmq5.sh", "Apache RocketMQ "+rocketmq5Version,
		"RMQ_VERSION="+rocketmq5Version, "JVM_OPTS="+wholeCompiler, "HEAP=1g", "FAST_STOP=1",
		fmt.Sprintf("NS_PORT=%d", names), fmt.Sprintf("BROKER_PORT=%d", port),
		fmt.Sprintf("GRPC_PORT=%d", proxy), fmt.Sprintf("REMOTING_PORT=%d", remoting))
	b.address = fmt.Sprintf("127.0.0.1:%d", proxy)
	b.flags = []string{
		"--storage", "rocketmq5", "--rocketmq5.endpoints", b.address,
		"--rocketmq5.nameservers", fmt.Sprintf("127.0.0.1:%d", names),
	}
	b.makeTopic = b.makeRocketMQ5Topic
	program, err := w.gatherRocketMQ(ctx, b, "simple", filepath.Join(b.data, "run"), "broker", "proxy")
	if err == nil && !w.opt.alone {
		w.addPeer(nameApache, []string{program})
	}
	return err
}

// gatherRocketMQ starts a broker, whose processes leave their ids in a folder,
// and builds the program that does without Ackmesh.
func (w *workshop) gatherRocketMQ(ctx context.Context, b *broker, peer, ids string, processes ...string) (program string, err error) {
	if err := w.buildMesh(ctx, b.flags); err != nil {
		return "", err
	}
	program = filepath.Join(w.dir, "rocketmq-load")
	if err := build(ctx, filepath.Join(w.root, "bench", "rocketmq"), program, "./"+peer); err != nil {
		return "", err
	}
	if _, err := b.run(ctx, "install", b.install); err != nil {
		return "", err
	}
	w.broker = b // which is stopped from now on, however this ends
	if _, err := b.run(ctx, "start", b.install, b.data); err != nil {
		return "", err
	}
	for _, p := range processes {
		text, err := os.ReadFile(filepath.Join(ids, p+".pid"))
		if err != nil {
			return "", err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return "", fmt.Errorf("process id of the %s: %w", p, err)
		}
		b.pids = append(b.pids, pid)
	}
	return program, nil
}

// Codes of RocketMQ's remoting protocol.
const (
	codeMakeTopic = "17"
	codeRoute     = "105"
)

// makeRocketMQ4Topic makes a topic at the broker, and waits until the name
// server tells of it.
func (b *broker) makeRocketMQ4Topic(ctx context.Context, topic string, port, names int) error {
	_, err := b.run(ctx, "call", strconv.Itoa(port), codeMakeTopic, fmt.Sprintf(
		`{"topic":%q,"defaultTopic":"TBW102","readQueueNums":"%d","writeQueueNums":"%d","perm":"6","topicFilterType":"SINGLE_TAG","topicSysFlag":"0","order":"false"}`,
		topic, queues, queues))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		_, err := b.run(ctx, "call", strconv.Itoa(names), codeRoute, fmt.Sprintf(`{"topic":%q}`, topic))
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no route to topic %s yet: %w", topic, err)
		}
	}
}

// makeRocketMQ5Topic makes a topic and that of its dead letters, which are
// never made on first use.
func (b *broker) makeRocketMQ5Topic(ctx context.Context, topic string) error {
	for _, name := range []string{topic, topic + "_DLQ"} {
		if _, err := b.run(ctx, "topic", name, "NORMAL", "", strconv.Itoa(queues)); err != nil {
			return err
		}
	}
	return nil
}

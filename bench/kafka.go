package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/bench/load"
)

// kafkaVersion is what test/brokers/kafka.sh is asked for.
const kafkaVersion = "4.4.0"

// kafkaPartitions of a topic: what Ackmesh makes by default.
const kafkaPartitions = 4

// gatherKafka starts a broker with the whole just-in-time compiler, and beside
// Ackmesh prepares what a program in Go does without it: sarama.
func gatherKafka(ctx context.Context, w *workshop) error {
	port, err := freePorts(2)
	if err != nil {
		return err
	}
	b := newBroker(w, "kafka.sh", "Apache Kafka "+kafkaVersion,
		"KAFKA_VERSION="+kafkaVersion, "KAFKA_JVM_OPTS="+wholeCompiler, "KAFKA_HEAP=1g")
	b.address = fmt.Sprintf("127.0.0.1:%d", port)
	b.flags = []string{"--storage", "kafka", "--kafka.brokers", b.address}
	b.makeTopic, b.dropTopic = b.makeKafkaTopic, b.dropKafkaTopic
	if err := w.buildMesh(ctx, b.flags); err != nil {
		return err
	}
	peer := filepath.Join(w.dir, "sarama-load")
	if err := build(ctx, w.root, peer, "./bench/kafka"); err != nil {
		return err
	}
	if _, err := b.run(ctx, "install", b.install); err != nil {
		return err
	}
	w.broker = b // which is stopped from now on, however this ends
	pid, err := b.run(ctx, "start", b.install, strconv.Itoa(port), b.data)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		return fmt.Errorf("%s start: no process id: %w", b.script, err)
	}
	b.pids = []int{n}
	if w.opt.alone {
		return nil
	}
	w.addPeer(nameSarama, []string{peer, "consumer"})
	w.addPeer(nameGroup, []string{peer, "group"}, load.CatchUp, load.Live)
	w.addPeer(nameSaramaEvents, []string{peer, "consumer-events"}, load.CatchUp)
	w.addPeer(nameGroupEvents, []string{peer, "group-events"}, load.CatchUp)
	return nil
}

// makeKafkaTopic makes a topic, and waits until each partition has a leader that
// knows it.
func (b *broker) makeKafkaTopic(ctx context.Context, topic string) error {
	return b.asKafka(func(c sarama.Client, a sarama.ClusterAdmin) error {
		err := a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: kafkaPartitions, ReplicationFactor: 1}, false)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		for n := int32(0); n < kafkaPartitions; {
			if _, err := c.GetOffset(topic, n, sarama.OffsetNewest); err == nil {
				n++
				continue
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("topic %s has no leader of partition %d yet: %w", topic, n, ctx.Err())
			}
		}
		return nil
	})
}

func (b *broker) dropKafkaTopic(_ context.Context, topic string) error {
	return b.asKafka(func(_ sarama.Client, a sarama.ClusterAdmin) error { return a.DeleteTopic(topic) })
}

// asKafka connects for a moment.
func (b *broker) asKafka(f func(sarama.Client, sarama.ClusterAdmin) error) (err error) {
	conf := sarama.NewConfig()
	conf.Version = sarama.MaxVersion
	c, err := sarama.NewClient([]string{b.address}, conf)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdminFromClient(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer func() { err = errors.Join(err, admin.Close()) }() // which closes c
	return f(c, admin)
}

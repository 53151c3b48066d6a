//go:build brokers

package brokers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/test/brokers/mesh"
)

// TestKafkaMesh runs whole servers on Kafka.
func TestKafkaMesh(t *testing.T) {
	k := kafkaMesh{startKafka(t, "")}
	t.Run("OtherPrograms", k.otherPrograms)
	t.Run("LogIsCut", k.logIsCut)
	t.Run("Gaps", k.gaps)
	t.Run("TopicsAreToBeMade", k.topicsAreToBeMade)
	mesh.Run(t, k)
}

// kafkaMesh is a mesh.Broker. It works as other programs do: on connections of
// its own, and with Kafka's own command for groups.
type kafkaMesh struct{ *kafkaBroker }

var _ mesh.Broker = kafkaMesh{}

func (k kafkaMesh) Flags() []string {
	return []string{"--storage", "kafka", "--kafka.brokers", k.addrs()[0]}
}

func (k kafkaMesh) Kill(t testing.TB)  { k.kill(t) }
func (k kafkaMesh) Start(t testing.TB) { k.start(t) }

func (k kafkaMesh) Traits() mesh.Traits { return mesh.Traits{} }

// CreateTopic waits until a topic of that name is gone that is being deleted.
func (k kafkaMesh) CreateTopic(t testing.TB, topic string, partitions int) {
	t.Helper()
	a := k.admin(t)
	eventually(t, func() error {
		return a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
	})
	k.awaitPartitions(t, topic, partitions)
}

// awaitPartitions waits until every partition has a leader.
func (k kafkaMesh) awaitPartitions(t testing.TB, topic string, partitions int) {
	t.Helper()
	a := k.admin(t)
	eventually(t, func() error {
		list, err := a.DescribeTopics([]string{topic})
		switch {
		case err != nil:
			return err
		case list[0].Err != sarama.ErrNoError:
			return list[0].Err
		case len(list[0].Partitions) != partitions:
			return fmt.Errorf("topic %s has %d partitions, not %d", topic, len(list[0].Partitions), partitions)
		}
		for _, p := range list[0].Partitions {
			if p.Err != sarama.ErrNoError {
				return p.Err
			}
		}
		return nil
	})
}

func (k kafkaMesh) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	if err := k.admin(t).DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
}

func (k kafkaMesh) AddPartitions(t testing.TB, topic string, partitions int) {
	t.Helper()
	if err := k.admin(t).CreatePartitions(topic, int32(partitions), nil, false); err != nil {
		t.Fatal(err)
	}
	k.awaitPartitions(t, topic, partitions)
}

// Expire gives the topic a retention that is over at once, until it is empty.
func (k kafkaMesh) Expire(t testing.TB, topic string) {
	t.Helper()
	a := k.admin(t)
	c, err := sarama.NewClient(k.addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	retain := func(ms string) {
		if err := a.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &ms}, false); err != nil {
			t.Fatal(err)
		}
	}
	retain("1")
	eventually(t, func() error {
		parts, err := c.Partitions(topic)
		for _, p := range parts {
			low, lowErr := c.GetOffset(topic, p, sarama.OffsetOldest)
			high, highErr := c.GetOffset(topic, p, sarama.OffsetNewest)
			if err = errors.Join(err, lowErr, highErr); err == nil && low < high {
				err = fmt.Errorf("partition %d has %d to %d", p, low, high)
			}
		}
		return err
	})
	retain("604800000")
}

// Groups are those of kafka-consumer-groups --list.
func (k kafkaMesh) Groups(t testing.TB) []string {
	t.Helper()
	return strings.Fields(k.tool(t, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", k.addrs()[0], "--list"))
}

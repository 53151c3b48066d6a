package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ackmesh/ackmesh/bench/load"
)

// backend is a log behind Ackmesh, and what is measured on it.
type backend struct {
	name    string
	beside  string // who does the same work, for the help
	backlog int    // events stored for catch-up
	// inFlight is how many records Ackmesh may have in flight to a subscriber that
	// catches up, where what is beside it takes more ahead, or commits more at once,
	// than Ackmesh does by default; 0: that default. sarama's group commits once a
	// second, some 500,000 records, and takes some 4,000 ahead. 10,000 records of the
	// usual size are what 16 MiB hold, the default window in bytes.
	inFlight  int
	scenarios []scenario
	// gather builds the programs that take part, and starts the broker.
	gather func(ctx context.Context, w *workshop) error
}

// backends are all of them; the first is the default.
var backends = []*backend{
	{name: "embedded", beside: "NATS JetStream", backlog: 400_000, scenarios: embeddedScenarios, gather: gatherEmbedded},
	{name: "kafka", beside: "sarama's consumer, consumer group and producer", backlog: 1_000_000, inFlight: 10_000, scenarios: kafkaScenarios, gather: gatherKafka},
	{name: "rocketmq4", beside: "Apache's push consumer and producer for Go", backlog: 200_000, scenarios: rocketmq4Scenarios, gather: gatherRocketMQ4},
	{name: "rocketmq5", beside: "Apache's SimpleConsumer and producer for Go", backlog: 50_000, scenarios: rocketmq5Scenarios, gather: gatherRocketMQ5},
}

func backendNamed(name string) (*backend, error) {
	for _, b := range backends {
		if b.name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("-backend: unknown %q: choose from %s", name, strings.Join(backendNames(), ", "))
}

func backendNames() []string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.name
	}
	return names
}

// backendsHelp tells what each is measured beside, and its measurements.
func backendsHelp() string {
	var s strings.Builder
	s.WriteString("the log behind Ackmesh, which is measured beside\n")
	for _, b := range backends {
		fmt.Fprintf(&s, "%s: %s (%s)\n", b.name, b.beside, strings.Join(namesOf(b.scenarios), ", "))
	}
	return s.String()
}

// The systems' names in the report.
const (
	nameMesh         = "ackmesh"
	nameNATS         = "jetstream"
	nameSarama       = "sarama"
	nameGroup        = "sarama-group"
	nameSaramaEvents = "sarama-events"
	nameGroupEvents  = "sarama-group-events"
	nameApache       = "apache-go"
	nameBatch        = "apache-go-32"
)

// kafkaScenarios: a stored topic is read by all in turn.
var kafkaScenarios = []scenario{
	{name: "publish-1", kind: load.Publish, clients: 1},
	{name: "publish-8", kind: load.Publish, clients: 8},
	{name: "catch-up-1", kind: load.CatchUp, clients: 1, targets: []target{
		{phase: "catch-up", ratio: 0.8, to: nameSarama}, {phase: "catch-up", ratio: 1, to: nameGroup},
	}},
	{name: "live-1", kind: load.Live, clients: 1, targets: []target{{phase: "idle", p50: 10}}},
}

// rocketmq4Scenarios: as with Kafka.
var rocketmq4Scenarios = []scenario{
	{name: "publish-1", kind: load.Publish, clients: 1},
	{name: "publish-8", kind: load.Publish, clients: 8},
	{name: "catch-up-1", kind: load.CatchUp, clients: 1, targets: []target{{phase: "catch-up", ratio: 1.5, to: nameApache}}},
	{name: "live-1", kind: load.Live, clients: 1, targets: []target{{phase: "idle", p50: 10}}},
}

// rocketmq5Scenarios: as with Kafka.
var rocketmq5Scenarios = []scenario{
	{name: "publish-1", kind: load.Publish, clients: 1},
	{name: "publish-8", kind: load.Publish, clients: 8, targets: []target{{phase: "publish", ratio: 2, to: nameApache}}},
	{name: "catch-up-1", kind: load.CatchUp, clients: 1, targets: []target{{phase: "catch-up", ratio: 1.5, to: nameApache}}},
	{name: "live-1", kind: load.Live, clients: 1, targets: []target{{phase: "idle", p50: 10}}},
}

package main

import (
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

// scenario is one measurement.
type scenario struct {
	name    string
	kind    string
	clients int
	topic   string   // where the load uses a particular one
	once    bool     // in the first round only: it measures memory, not speed
	targets []target // of its phases
}

// target is what a phase has to reach. Zero: no target of that kind.
type target struct {
	phase string
	ratio float64 // of its rate to that of the system named beside, in the same round
	to    string
	p50   float64 // latency below so many ms
	peak  int64   // server memory below so many bytes
}

// embeddedScenarios are the measurements of the embedded log, in order.
var embeddedScenarios = []scenario{
	{name: "publish-1", kind: load.Publish, clients: 1},
	{name: "publish-8", kind: load.Publish, clients: 8, targets: []target{{phase: "publish", ratio: 1.5, to: nameNATS}}},
	{name: "catch-up-1", kind: load.CatchUp, clients: 1, targets: []target{{phase: "catch-up", ratio: 3, to: nameNATS}}},
	{name: "catch-up-8", kind: load.CatchUp, clients: 8, targets: []target{{phase: "catch-up", ratio: 3, to: nameNATS}}},
	{name: "live-1", kind: load.Live, clients: 1, targets: []target{{phase: "idle", p50: 1}, {phase: "peak", ratio: 1.5, to: nameNATS}}},
	{name: "live-8", kind: load.Live, clients: 8},
	{name: "fan-out-100", kind: load.FanOut, clients: 100, targets: []target{{phase: "fan-out", ratio: 6, to: nameNATS}}},
	{name: "idle-10000", kind: load.Idle, clients: 10_000, once: true, targets: []target{{phase: "idle", peak: 500_000_000}}},
}

func namesOf(list []scenario) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.name
	}
	return names
}

func (s *scenario) wanted(o options, round int) bool {
	return (len(o.only) == 0 || slices.Contains(o.only, s.name)) && (round == 0 || !s.once)
}

// spec is what a load is told, but for where the server is.
func (s *scenario) spec(o options) load.Spec {
	spec := load.Spec{
		Scenario: s.kind, Clients: s.clients, Size: o.size, Topic: s.topic,
		Warmup: o.warmup, Duration: o.duration, Backlog: o.backlog,
		// Wide enough that no system waits for the publisher: several times what
		// a server lets be in flight to one subscriber by default.
		Window: 8192, InFlight: o.inFlight, IdleRate: 200,
	}
	if s.kind != load.CatchUp { // half of what may be published ahead
		spec.InFlight = min(spec.InFlight, spec.Window/2)
	}
	switch s.kind {
	case load.Idle:
		spec.PerConnection = 10
		spec.Connections, spec.Settle = s.clients/spec.PerConnection, 5*time.Second
	case load.FanOut:
		spec.Window = 2048 // each counts a hundred times
		spec.Warmup = max(o.warmup, 2*time.Second)
	}
	return spec
}

package load

import "time"

// The scenarios.
const (
	// Publish publishes from every client as fast as its window allows.
	Publish = "publish"
	// CatchUp reads what is stored from the beginning and acks it.
	CatchUp = "catch-up"
	// Live publishes from one client and receives in Clients others.
	Live = "live"
	// FanOut publishes from one client; every one of Clients others gets each.
	FanOut = "fan-out"
	// Idle holds subscriptions open that nothing is sent to.
	Idle = "idle"
	// Fill stores events for a CatchUp of another load.
	Fill = "fill"
)

// Spec says what a load is to do.
type Spec struct {
	Scenario string
	// Address and Admin are where the server listens.
	Address, Admin string
	// Token is what operators show.
	Token string
	// DataToken, if set, is what clients show; those that are not of a share
	// then subscribe with a filter that every event passes.
	DataToken string
	// Topic is a topic to use that is there already: one with Backlog events for
	// CatchUp, an empty one else. Empty: the load makes its own. Not for FanOut
	// and Idle.
	Topic string
	// Run is part of the names of subscribers, where a server remembers those of
	// other loads; empty: it does not.
	Run string
	// ServerPID is the server's process, whose CPU time and memory are read. 0:
	// there is none between the clients and the brokers.
	ServerPID int
	// BrokerPIDs are the processes behind the server, whose CPU time is read.
	BrokerPIDs []int
	// Profile begins the names of files for CPU profiles of this process, one of
	// each phase; empty: none are made.
	Profile string
	// Clients is the number of publishers or subscribers.
	Clients int
	// Size is the bytes of data of an event.
	Size int
	// Warmup precedes what is measured, Duration is how long that takes.
	Warmup, Duration time.Duration
	// Backlog is how many events CatchUp and Fill store.
	Backlog int
	// FromFirst lets the clock of CatchUp begin with the first event that is
	// handled, instead of before subscribing.
	FromFirst bool
	// Unconfirmed says that the system does not tell what is acked for good:
	// CatchUp ends with the last event handled.
	Unconfirmed bool
	// Window is how many events Live and FanOut let be published and not finished
	// by the slowest subscriber.
	Window int
	// InFlight is how many records the server may have in flight to a subscriber;
	// 0: its default. Ackmesh only.
	InFlight int
	// IdleRate is how many events a second count as idle.
	IdleRate float64
	// Connections and PerConnection are what Idle opens; Settle is how long it then
	// leaves the server alone before the memory is read.
	Connections, PerConnection int
	Settle                     time.Duration
}

// Result is what a load has measured.
type Result struct {
	// Phases are what was measured, each for itself.
	Phases []Phase
	// PeakRSS is the largest resident memory of the server, in bytes.
	PeakRSS int64
}

// Phase is one measurement.
type Phase struct {
	Name    string  `json:"name"`
	Events  int64   `json:"events"`
	Seconds float64 `json:"seconds"`
	// Rate is events a second; with FanOut and Idle deliveries a second.
	Rate float64 `json:"events_per_second"`
	// Latency is from publishing to the handler, or, with Publish, to the answer.
	Latency Latency `json:"latency"`
	// ServerCPU, ClientCPU and BrokerCPU are µs of CPU time per event.
	ServerCPU float64 `json:"server_cpu_us_per_event"`
	ClientCPU float64 `json:"client_cpu_us_per_event"`
	BrokerCPU float64 `json:"broker_cpu_us_per_event,omitempty"`
	// RSS is the server's resident memory at the end, in bytes; 0 without one.
	RSS int64 `json:"rss_bytes"`
}

// Latency is in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

package dispatch

import "sync/atomic"

// Metrics counts what the dispatcher did since its start. All fields may be
// read at any time.
type Metrics struct {
	Delivered      atomic.Int64 // frames handed to streams
	DeliveredBytes atomic.Int64
	Redelivered    atomic.Int64 // of these, not for the first time
	Acked          atomic.Int64 // deliveries finished by the client, durable
	Timeouts       atomic.Int64 // deliveries whose ack deadline passed
	DeadLettered   atomic.Int64
	DeadFailures   atomic.Int64 // dead letters that could not be written, to be tried again
	Filtered       atomic.Int64
	Expired        atomic.Int64
	Lost           atomic.Int64 // retries whose record the log does not hold any more
	Corrected      atomic.Int64 // positions corrected to fit the log
	CommitFailures atomic.Int64
	MarkFailures   atomic.Int64
	Reads          atomic.Int64 // reads of the log
	ReadFailures   atomic.Int64
	Superseded     atomic.Int64
	Stalled        atomic.Int64 // streams evicted for neither reading nor answering
	// ExpiredSubscribers were removed after a long absence.
	ExpiredSubscribers atomic.Int64
	QueuedBytes        atomic.Int64 // encoded deliveries that wait for a writer
	inHand             atomic.Int64 // bytes that writers have taken, and wait to write
	WindowBytes        atomic.Int64 // records held in memory for subscribers
	MemoryPauses       atomic.Int64 // deliveries put off because memory is short
	StreamsOpened      atomic.Int64
	StreamsLive        atomic.Int64
	LiteTopics         atomic.Int64 // lite topics that streams are subscribed to
	Pop                PopMetrics
	// AckLatency is from when deliveries were put on their stream until their
	// ack arrived.
	AckLatency Latency
}

func (m *Metrics) countSkipped(expired bool) {
	if expired {
		m.Expired.Add(1)
	} else {
		m.Filtered.Add(1)
	}
}

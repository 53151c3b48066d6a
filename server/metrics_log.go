package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackmesh/ackmesh/storage/observe"
)

// brokerMeters are the metrics of a log at brokers.
type brokerMeters struct {
	foreign    *prometheus.CounterVec // by form
	leftOut    *prometheus.CounterVec // by what
	outOfRange prometheus.Counter
	replaced   prometheus.Counter
	failures   prometheus.Counter
	damaged    *prometheus.CounterVec // by what was used instead
}

func newBrokerMeters() *brokerMeters {
	return &brokerMeters{
		foreign: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ackmesh_log_foreign_records_total", Help: "Records read that were no frames, by their form.",
		}, []string{"form"}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ackmesh_log_left_out_total", Help: "Of such records, attributes and bytes of data that found no place in a frame.",
		}, []string{"what"}),
		outOfRange: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_log_out_of_range_total", Help: "Reads at an offset that the log does not hold.",
		}),
		replaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_log_topics_replaced_total", Help: "Topics that were found deleted and created again.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_log_broker_failures_total", Help: "Requests to brokers that got no answer, or an error for one.",
		}),
		damaged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ackmesh_checkpoint_damaged_total", Help: "Files of pull offsets that could not be read, by what was used instead.",
		}, []string{"used"}),
	}
}

func (m *brokerMeters) all() []prometheus.Collector {
	return []prometheus.Collector{m.foreign, m.leftOut, m.outOfRange, m.replaced, m.failures, m.damaged}
}

// formed counts a record that was no frame.
func (m *brokerMeters) formed(form string, attributes, bytes int) {
	m.foreign.WithLabelValues(form).Inc()
	m.leftOut.WithLabelValues("attributes").Add(float64(attributes))
	m.leftOut.WithLabelValues("bytes").Add(float64(bytes))
}

// readInstead counts a file of pull offsets that could not be read.
func (m *brokerMeters) readInstead(usedBackup bool) {
	m.damaged.WithLabelValues(map[bool]string{true: "backup", false: "nothing"}[usedBackup]).Inc()
}

// ofBroker takes the figures of a log at brokers that is read by position.
func (m *meters) ofBroker() observe.Broker {
	b := m.broker
	return observe.Broker{
		Foreign:          b.formed,
		OutOfRange:       func(string, string, int64, int64, int64) { b.outOfRange.Inc() },
		TopicChanged:     func(string, string, string) { b.replaced.Inc() },
		BrokerFailed:     func(string, error) { b.failures.Inc() },
		CursorsDamaged:   b.readInstead,
		CheckpointFailed: func(error) { m.checkpoints.Inc() },
	}
}

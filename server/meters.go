package server

import (
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ackmesh/ackmesh/offsetstore/badger"
	"github.com/ackmesh/ackmesh/storage/embedded"
)

// meters are the metrics of one instance. What is counted on the way of every
// event is counted by the parts themselves, as plain numbers, and read when
// somebody asks; see collector.
type meters struct {
	registry      *prometheus.Registry
	rpc           *grpcprom.ServerMetrics
	refused       *prometheus.CounterVec // by reason
	auditFailures prometheus.Counter
	reloads       *prometheus.CounterVec   // by what, result
	commits       *prometheus.HistogramVec // by store
	checkpoints   prometheus.Counter
	logBytes      prometheus.Gauge
	dropped       prometheus.Counter
	broker        *brokerMeters
}

// commitBuckets are for writes with their sync: from a fast disk to one that
// hangs.
var commitBuckets = []float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}

// Values of the label store.
const (
	logStore     = "log"
	offsetsStore = "offsets"
)

func newMeters(s *Server) *meters {
	m := &meters{
		registry: prometheus.NewRegistry(),
		rpc:      grpcprom.NewServerMetrics(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ackmesh_refused_total", Help: "Calls, requests and subscriptions that the caller's token did not allow, by reason.",
		}, []string{"reason"}),
		auditFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_audit_failures_total", Help: "Changes by operators that are missing in the audit log.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ackmesh_reloads_total", Help: "Files read again on demand, by what they are and how it went.",
		}, []string{"what", "result"}),
		commits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ackmesh_commit_seconds", Help: "How long a group commit took, its sync included: of events to the log, of acks to the offset store.",
			Buckets: commitBuckets,
		}, []string{"store"}),
		checkpoints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_checkpoint_failures_total", Help: "Pull offsets that could not be saved.",
		}),
		logBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ackmesh_log_bytes", Help: "Size of the embedded log.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ackmesh_log_dropped_bytes_total", Help: "Bytes of the embedded log that retention has removed.",
		}),
		broker: newBrokerMeters(),
	}
	m.registry.MustRegister(m.broker.all()...)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.rpc, m.refused, m.auditFailures, m.reloads, m.commits, m.checkpoints, m.logBytes, m.dropped, &collector{s: s},
	)
	return m
}

// ofLog takes the figures of the embedded log.
func (m *meters) ofLog() embedded.Observe {
	commits := m.commits.WithLabelValues(logStore)
	return embedded.Observe{
		Commit:           func(took time.Duration, _, _ int) { commits.Observe(took.Seconds()) },
		CheckpointFailed: func(error) { m.checkpoints.Inc() },
		Size:             func(n int64) { m.logBytes.Set(float64(n)) },
		Dropped:          func(n int64) { m.dropped.Add(float64(n)) },
	}
}

// ofOffsets takes the figures of the offset store.
func (m *meters) ofOffsets() func(badger.Commit) {
	commits := m.commits.WithLabelValues(offsetsStore)
	return func(c badger.Commit) {
		if c.Err == nil {
			commits.Observe(c.Took.Seconds())
		}
	}
}

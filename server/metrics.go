package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registry holds the metrics of this instance. Counters are kept by the parts
// themselves, as plain numbers; they are read when somebody asks.
func (s *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(&collector{s: s})
	return r
}

// collector reads the counters of a ready instance.
type collector struct{ s *Server }

// Describe sends nothing: the metrics are there once the instance is ready.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if !c.s.ready.Load() {
		return
	}
	m, p := c.s.core.d.Metrics, c.s.core.pub.Metrics()
	for _, row := range []struct {
		name, help string
		v          *atomic.Int64
		gauge      bool
	}{
		{"published_total", "Events stored.", &p.Events, false},
		{"published_bytes_total", "Bytes of events stored.", &p.Bytes, false},
		{"publish_duplicates_total", "Events answered with the place of an earlier one of the same source and id.", &p.Duplicates, false},
		{"publish_refused_total", "Events that were not legal.", &p.Refused, false},
		{"publish_failed_total", "Events that could not be stored.", &p.Failed, false},
		{"delivered_total", "Deliveries handed to streams.", &m.Delivered, false},
		{"delivered_bytes_total", "Bytes of deliveries handed to streams.", &m.DeliveredBytes, false},
		{"redelivered_total", "Deliveries that were not the first of their record.", &m.Redelivered, false},
		{"acked_total", "Deliveries answered by clients, durable.", &m.Acked, false},
		{"ack_timeouts_total", "Deliveries whose ack deadline passed.", &m.Timeouts, false},
		{"dead_lettered_total", "Records given up for a subscriber.", &m.DeadLettered, false},
		{"dead_letter_failures_total", "Dead letters that could not be written, to be tried again.", &m.DeadFailures, false},
		{"filtered_total", "Records that a filter left out.", &m.Filtered, false},
		{"expired_total", "Records finished because their time to live passed.", &m.Expired, false},
		{"lost_total", "Retries whose record the log holds no more.", &m.Lost, false},
		{"position_corrected_total", "Positions corrected to fit the log.", &m.Corrected, false},
		{"commit_failures_total", "Commits of offsets that failed.", &m.CommitFailures, false},
		{"mark_failures_total", "High marks that could not be noted.", &m.MarkFailures, false},
		{"log_reads_total", "Reads of the log.", &m.Reads, false},
		{"log_read_failures_total", "Reads of the log that failed.", &m.ReadFailures, false},
		{"superseded_total", "Subscriptions taken by a newer stream of their client.", &m.Superseded, false},
		{"streams_opened_total", "Subscribe streams opened.", &m.StreamsOpened, false},
		{"streams", "Live Subscribe streams.", &m.StreamsLive, true},
	} {
		kind := prometheus.CounterValue
		if row.gauge {
			kind = prometheus.GaugeValue
		}
		desc := prometheus.NewDesc("ackmesh_"+row.name, row.help, nil, nil)
		out <- prometheus.MustNewConstMetric(desc, kind, float64(row.v.Load()))
	}
}

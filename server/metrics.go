package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/server/dispatch"
)

// scrapeTimeout bounds what a scrape waits for partitions and for the log.
const scrapeTimeout = 5 * time.Second

// collector reads the counters of a ready instance when somebody asks.
type collector struct{ s *Server }

// Describe sends nothing: the metrics are there once the instance is ready.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if !c.s.ready.Load() {
		return
	}
	c.totals(out)
	c.published(out)
	c.bySubscriber(out)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.backlogs(ctx, out)
}

// describe names a metric of ours.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ackmesh_"+name, help, labels, nil)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, v int64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// totals are those of the whole instance.
func (c *collector) totals(out chan<- prometheus.Metric) {
	m, p := c.s.core.d.Metrics, c.s.core.pub.Metrics()
	for _, row := range []struct {
		name, help string
		v          *atomic.Int64
	}{
		{"published_bytes_total", "Bytes of events stored.", &p.Bytes},
		{"publish_duplicates_total", "Events answered with the place of an earlier one of the same source and id.", &p.Duplicates},
		{"publish_refused_total", "Events that were not legal.", &p.Refused},
		{"publish_failed_total", "Events that could not be stored.", &p.Failed},
		{"publish_rate_limited_total", "Events of publish requests that a rate limit refused.", &c.s.core.limits.Refused},
		{"deliver_rate_limited_total", "Turns of deliveries that a rate limit put off.", &c.s.core.limits.Paused},
		{"delivered_bytes_total", "Bytes of deliveries handed to streams.", &m.DeliveredBytes},
		{"ack_timeouts_total", "Deliveries whose ack deadline passed.", &m.Timeouts},
		{"dead_letter_failures_total", "Dead letters that could not be written, to be tried again.", &m.DeadFailures},
		{"filtered_total", "Records that a filter left out.", &m.Filtered},
		{"lost_total", "Retries whose record the log holds no more.", &m.Lost},
		{"position_corrected_total", "Positions corrected to fit the log.", &m.Corrected},
		{"commit_failures_total", "Commits of offsets that failed.", &m.CommitFailures},
		{"mark_failures_total", "High marks that could not be noted.", &m.MarkFailures},
		{"log_reads_total", "Reads of the log.", &m.Reads},
		{"log_read_failures_total", "Reads of the log that failed.", &m.ReadFailures},
		{"superseded_total", "Subscriptions taken by a newer stream of their client.", &m.Superseded},
		{"stalled_total", "Streams evicted for neither reading nor answering.", &m.Stalled},
		{"subscribers_expired_total", "Subscribers removed after a long absence.", &m.ExpiredSubscribers},
		{"memory_pauses_total", "Deliveries put off because memory is short.", &m.MemoryPauses},
		{"streams_opened_total", "Subscribe streams opened.", &m.StreamsOpened},
	} {
		counter(out, describe(row.name, row.help), row.v.Load())
	}
	popMetrics(out, &m.Pop)
	gauge(out, describe("streams", "Live Subscribe streams."), float64(m.StreamsLive.Load()))
	gauge(out, describe("lite_topics", "Lite topics that streams are subscribed to."), float64(m.LiteTopics.Load()))
	gauge(out, describe("drained", "1 while an operator has drained the instance."), indicator(c.s.drained()))
	gauge(out, describe("rate_limits", "Rate limits that operators have set."), float64(len(c.s.core.limits.Rules())))
	gauge(out, describe("queued_bytes", "Bytes of deliveries that wait for their stream."), float64(m.QueuedBytes.Load()))
	gauge(out, describe("window_bytes", "Bytes of records held in memory for subscribers."), float64(m.WindowBytes.Load()))
	count, sum, buckets := m.AckLatency.Read()
	out <- prometheus.MustNewConstHistogram(
		describe("ack_latency_seconds", "From when a delivery was put on its stream until its ack arrived."), count, sum, buckets)
}

// published counts by topic.
func (c *collector) published(out chan<- prometheus.Metric) {
	d := describe("published_total", "Events stored.", "topic")
	c.s.core.pub.EachTopic(func(topic string, n int64) { counter(out, d, n, topic) })
}

// bySubscriber counts by topic and subscriber.
func (c *collector) bySubscriber(out chan<- prometheus.Metric) {
	labels := []string{"topic", "subscriber"}
	delivered := describe("delivered_total", "Deliveries handed to streams.", labels...)
	again := describe("redelivered_total", "Of the deliveries, those that were not the first of their record, by why it came again.", "topic", "subscriber", "reason")
	acked := describe("acked_total", "Deliveries acked, durable.", labels...)
	dead := describe("dead_lettered_total", "Records given up.", labels...)
	expired := describe("expired_total", "Records finished because their time to live passed.", labels...)
	c.s.core.d.EachCount(func(topic, sub string, n *dispatch.Counts) {
		counter(out, delivered, n.Delivered.Load(), topic, sub)
		counter(out, acked, n.Acked.Load(), topic, sub)
		counter(out, dead, n.DeadLettered.Load(), topic, sub)
		counter(out, expired, n.Expired.Load(), topic, sub)
		for cause := range n.Redelivered {
			counter(out, again, n.Redelivered[cause].Load(), topic, sub, delivery.Cause(cause).String())
		}
	})
}

// backlogs are what is to be done still, by topic and subscriber.
func (c *collector) backlogs(ctx context.Context, out chan<- prometheus.Metric) {
	list, left, err := c.s.readBacklogs(ctx)
	if err != nil {
		c.s.log.Warn("lag could not be read", "error", err)
	}
	if list == nil && err != nil {
		return
	}
	labels := []string{"topic", "subscriber"}
	lag := describe("lag", "Offsets from the position of a subscriber to the end of the log, over all partitions.", labels...)
	pending := describe("pending", "Records delivered to a subscriber and not finished: in flight, or waiting for a retry.", labels...)
	paused := describe("paused", "Partitions in which a subscriber gets nothing new until it has finished more, by the limit that is reached.", append(labels, "by")...)
	for _, b := range list {
		for by, n := range b.paused {
			gauge(out, paused, float64(n), b.topic, b.subscriber, by)
		}
		if !b.unsure {
			gauge(out, lag, float64(b.lag), b.topic, b.subscriber)
		}
		gauge(out, pending, float64(b.pending), b.topic, b.subscriber)
	}
	gauge(out, describe("subscribers", "Subscribers that have progress, over all topics."), float64(len(list)+left))
}

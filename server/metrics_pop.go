package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackmesh/ackmesh/server/dispatch"
)

// popMetrics reads the counters of a log that hands records out. With another
// log they are 0.
func popMetrics(out chan<- prometheus.Metric, m *dispatch.PopMetrics) {
	for _, row := range []struct {
		name, help string
		v          *atomic.Int64
	}{
		{"pop_records_total", "Records that the broker handed out.", &m.Popped},
		{"pop_joined_total", "Records handed out again while they were under way here.", &m.Joined},
		{"pop_known_total", "Records handed out again that were finished here: acked, not delivered.", &m.Finished},
		{"pop_renewed_total", "Receipts renewed.", &m.Renewed},
		{"pop_renew_failures_total", "Calls to renew receipts that failed.", &m.RenewFailures},
		{"pop_lapsed_total", "Receipts that ran out before their record was sent.", &m.Lapsed},
		{"pop_released_total", "Records given back to the broker.", &m.Released},
		{"pop_acked_total", "Records acked at the broker.", &m.Acked},
		{"pop_ack_failures_total", "Calls to ack at the broker that failed, to be repeated.", &m.AckFailures},
		{"pop_ack_expired_total", "Broker acks given up because the receipt ran out.", &m.AckExpired},
		{"pop_ack_unknown_total", "Broker acks given up because the broker did not know the receipt.", &m.AckUnknown},
		{"pop_forget_failures_total", "Entries of acked messages that could not be removed, to be repeated.", &m.ForgetFailures},
	} {
		counter(out, describe(row.name, row.help), row.v.Load())
	}
	for _, row := range []struct {
		name, help string
		v          *atomic.Int64
	}{
		{"pop_held", "Records popped and not finished.", &m.Held},
		{"pop_pending_acks", "Records finished and not acked at the broker yet.", &m.PendingAcks},
	} {
		out <- prometheus.MustNewConstMetric(describe(row.name, row.help), prometheus.GaugeValue, float64(row.v.Load()))
	}
}

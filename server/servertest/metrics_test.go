package servertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/audit"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// metrics reads the metrics of an instance: `name{label=value,…}`, without the
// prefix ackmesh_. Of histograms it has the count.
func metrics(t *testing.T, in *Instance) map[string]float64 {
	t.Helper()
	families, err := in.Server.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "ackmesh_")
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			out[name+labels(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func labels(m *dto.Metric) string {
	var list []string
	for _, l := range m.GetLabel() {
		list = append(list, l.GetName()+"="+l.GetValue())
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

// wantMetrics waits until metrics are as they should be: some are counted just
// after a client can know.
func wantMetrics(t *testing.T, in *Instance, when string, want map[string]float64) {
	t.Helper()
	var wrong []string
	for range 20 {
		got := metrics(t, in)
		wrong = nil
		for name, v := range want {
			if w, ok := got[name]; w != v || !ok {
				wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, w, v))
			}
		}
		if wrong == nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("%s:\n%s", when, strings.Join(wrong, "\n"))
}

// TestC75_CountersOfAScript: 100 published, 90 acked, 5 nacked once and then
// acked, 5 nacked twice, of two attempts, which makes them dead letters. Counters
// and gauges are exactly that, and the gauges so again after restarts.
func TestC75_CountersOfAScript(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		sub := Sub("t", broadcast)
		sub.Retry = &pb.RetryPolicy{MaxAttempts: 2}
		s := Open(t, in.Mesh(), open("c", sub))
		const who = "{subscriber=client/c,topic=t}"
		again := func(reason string) string {
			return "redelivered_total{reason=" + reason + ",subscriber=client/c,topic=t}"
		}
		wantMetrics(t, in, "at the start", map[string]float64{
			"lag" + who: 0, "pending" + who: 0, "streams": 1, "subscribers": 1, "ack_latency_seconds": 0,
		})

		Publish(t, in.Mesh(), "t", Numbers(100)...)
		got := s.Take(100)
		wantMetrics(t, in, "delivered", map[string]float64{
			"published_total{topic=t}": 100, "delivered_total" + who: 100, "acked_total" + who: 0, again("nacked"): 0,
			"lag" + who: 100, "pending" + who: 100,
		})

		s.AckDurable(got[:90]...)
		wantMetrics(t, in, "90 acked", map[string]float64{
			"acked_total" + who: 90, "lag" + who: 10, "pending" + who: 10, "ack_latency_seconds": 90,
		})

		s.Nack(got[90:]...)
		retried := s.Take(10)
		wantMetrics(t, in, "10 nacked", map[string]float64{
			"delivered_total" + who: 110, again("nacked"): 10, "acked_total" + who: 90, "pending" + who: 10, "dead_lettered_total" + who: 0,
		})

		s.AckDurable(retried[:5]...)
		s.Nack(retried[5:]...)
		untilLetters(t, in, "t", 5)
		atEnd := map[string]float64{
			"published_total{topic=t}": 100, "published_total{topic=other}": 0,
			"delivered_total" + who: 110, "acked_total" + who: 95, "dead_lettered_total" + who: 5, "expired_total" + who: 0,
			again("nacked"): 10, again("timeout"): 0, again("broken"): 0, again("ended"): 0, again("restart"): 0,
			"lag" + who: 0, "pending" + who: 0, "ack_timeouts_total": 0, "position_corrected_total": 0, "ack_latency_seconds": 95,
		}
		wantMetrics(t, in, "at the end", atEnd)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		wantMetrics(t, in, "nobody there", map[string]float64{"lag" + who: 0, "pending" + who: 0, "streams": 0, "acked_total" + who: 95})
		in.Stop()

		in = Start(t, o)
		wantMetrics(t, in, "after a restart", map[string]float64{"lag" + who: 0, "pending" + who: 0, "streams": 0, "subscribers": 1})
		s = Open(t, in.Mesh(), open("c", sub))
		s.Quiet(time.Minute)
		wantMetrics(t, in, "back after a restart", map[string]float64{
			"lag" + who: 0, "pending" + who: 0, "streams": 1, "delivered_total" + who: 0, "acked_total" + who: 0,
		})
	})
}

// TestGaugesOfUnfinished: what is unfinished is pending, whether its subscriber is
// there, has gone, or the server was started again; and why it comes again is
// told.
func TestGaugesOfUnfinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		const who = "{subscriber=client/c,topic=t}"
		again := func(reason string) string {
			return "redelivered_total{reason=" + reason + ",subscriber=client/c,topic=t}"
		}
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		got := s.Take(10)
		s.AckDurable(append(got[:3:3], got[5], got[7])...)
		unfinished := map[string]float64{"lag" + who: 7, "pending" + who: 5}
		wantMetrics(t, in, "there", unfinished)
		s.Break()
		<-time.After(time.Second)
		wantMetrics(t, in, "gone", unfinished)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		s.Take(5)
		wantMetrics(t, in, "back", map[string]float64{"lag" + who: 7, "pending" + who: 5, again("broken"): 5})
		<-time.After(31 * time.Second)
		s.Take(5)
		wantMetrics(t, in, "timed out", map[string]float64{"lag" + who: 7, "pending" + who: 5, again("timeout"): 5, "ack_timeouts_total": 5})
		in.Stop()
		in = Start(t, o)
		wantMetrics(t, in, "after a restart", unfinished)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		s.AckDurable(s.Take(5)...)
		wantMetrics(t, in, "finished", map[string]float64{"lag" + who: 0, "pending" + who: 0, "acked_total" + who: 5})
		total := 0.0
		for name, v := range metrics(t, in) {
			if strings.HasPrefix(name, "redelivered_total{") {
				total += v
			}
		}
		if total != 5 {
			t.Errorf("%v redelivered for all reasons, want 5", total)
		}
	})
}

// TestSeriesAreBounded: however many topics and subscribers there are, series stay
// below a bound, and the rest is told together.
func TestSeriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		const topics, extra = 1000, 30
		mesh := in.Mesh()
		for i := range topics + extra {
			name := fmt.Sprintf("t%04d", i)
			s := Open(t, mesh, open("c", Sub(name, broadcast)))
			Publish(t, mesh, name, "x")
			s.Take(1)
			s.Break()
		}
		series := map[string]int{}
		for name := range metrics(t, in) {
			base, _, _ := strings.Cut(name, "{")
			series[base]++
		}
		for name, want := range map[string]int{"published_total": topics + 1, "delivered_total": topics + 1, "lag": topics + 1, "pending": topics + 1} {
			if series[name] != want {
				t.Errorf("%s has %d series, want %d", name, series[name], want)
			}
		}
		const other = "{subscriber=other,topic=other}"
		wantMetrics(t, in, "the rest", map[string]float64{
			"published_total{topic=other}": extra, "delivered_total" + other: extra, "lag" + other: extra, "pending" + other: extra,
			"subscribers": topics + extra,
		})
	})
}

// TestRefusalsAreCounted by reason.
func TestRefusalsAreCounted(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		ctx := context.Background()
		req := &pb.PublishRequest{Topic: "payments", Events: []*pb.EventMeshFrame{{}}}
		for _, mesh := range []pb.EventMeshClient{in.Mesh(), meshAs(in, "nobody"), meshAs(in, "orders"), meshAs(in, "reader")} {
			if _, err := mesh.Publish(ctx, req); err == nil {
				t.Error("published")
			}
		}
		f.write("broken")
		_ = in.Server.Reload() // the error is tested elsewhere
		wantMetrics(t, in, "four refusals", map[string]float64{
			"refused_total{reason=token_missing}": 1, "refused_total{reason=token_unknown}": 1,
			"refused_total{reason=pattern_missing}": 1, "refused_total{reason=role_missing}": 1,
			"reloads_total{result=failed,what=tokens}": 1,
		})
	})
}

// TestAuditLog: each change by an operator is one line on the disk before it is
// answered, with who, what, from and to; what was refused too; what changes
// nothing is not.
func TestAuditLog(t *testing.T) {
	f := newTokens(t, teamTokens...)
	data := t.TempDir()
	in := Start(t, Options{Real: true, Config: func(c *server.Config) {
		f.config(c)
		c.Storage, c.Data, c.Sync = server.StorageEmbedded, data, false
	}})
	ctx := context.Background()
	root, boss := in.Admin(), adminAs(in, "boss")
	path := filepath.Join(data, "audit.log")
	entries := func() (list []audit.Entry) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			list = append(list, e)
		}
		return list
	}
	last := func(what string, n int, want audit.Entry, request string) {
		t.Helper()
		list := entries()
		if len(list) != n {
			t.Fatalf("%s: %d entries", what, len(list))
		}
		e := list[n-1]
		if e.Who != want.Who || e.Call != want.Call || e.Outcome != want.Outcome || fmt.Sprint(e.From, e.To) != fmt.Sprint(want.From, want.To) ||
			string(e.Request) != request || e.Time.IsZero() || e.Address == "" {
			t.Errorf("%s: %+v, request %s", what, e, e.Request)
		}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(root.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: "orders"}))
	last("create", 1, audit.Entry{Who: "auth.admin-token", Call: "CreateTopic", Outcome: "OK"}, `{"topic":"orders"}`)
	orders := meshAs(in, "orders")
	s := Open(t, orders, open("o-1", shareSub("orders", "billing")))
	Publish(t, orders, "orders", Numbers(5)...)
	s.AckDurable(s.Take(5)...)

	reset := &pb.ResetOffsetRequest{Topic: "orders", Subscriber: "share/billing", To: &pb.Start{Place: &pb.Start_Offset{Offset: 2}}, DryRun: true}
	must(boss.ResetOffset(ctx, reset))
	must(boss.GetOffsets(ctx, &pb.GetOffsetsRequest{}))
	last("dry run", 1, audit.Entry{Who: "auth.admin-token", Call: "CreateTopic", Outcome: "OK"}, `{"topic":"orders"}`)
	reset.DryRun = false
	must(boss.ResetOffset(ctx, reset))
	last("reset", 2, audit.Entry{Who: "boss", Call: "ResetOffset", Outcome: "OK", From: map[string]int64{"0": 5}, To: map[string]int64{"0": 2}},
		`{"topic":"orders","subscriber":"share/billing","to":{"offset":"2"}}`)

	if _, err := boss.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "payments"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("delete: %v", err)
	}
	last("refused", 3, audit.Entry{Who: "boss", Call: "DeleteTopic", Outcome: "PERMISSION_DENIED"}, `{"topic":"payments"}`)
	if _, err := adminAs(in, "reader").DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "orders"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("delete: %v", err)
	}
	last("refused", 4, audit.Entry{Who: "reader", Call: "DeleteTopic", Outcome: "PERMISSION_DENIED"}, `{"topic":"orders"}`)
	if _, err := adminAs(in, "nobody").DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "orders"}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("delete: %v", err)
	}
	must(boss.EvictClient(ctx, &pb.EvictClientRequest{ClientId: "o-1"}))
	last("evict", 5, audit.Entry{Who: "boss", Call: "EvictClient", Outcome: "OK"}, `{"clientId":"o-1"}`)

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := in.Server.Reload(); err != nil {
		t.Fatal(err)
	}
	must(boss.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "orders", Subscriber: "share/billing"}))
	last("after rotation", 1, audit.Entry{Who: "boss", Call: "PurgeDeadLetters", Outcome: "OK"}, `{"topic":"orders","subscriber":"share/billing"}`)
	must(root.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "orders", Ids: strings.Split(strings.Repeat(strings.Repeat("f", 32)+",", 999)+"f", ",")}))
	if e := entries()[1]; !strings.Contains(string(e.Request), `"ids":1000`) || len(e.Request) > 1000 || string(e.Result) != "{}" {
		t.Errorf("a long request: %.300s, result %s", e.Request, e.Result)
	}
}

package servertest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/ackmesh/ackmesh/server/servertest"

	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/storage"
)

// boundless is a log that cannot say where topic "away" ends.
type boundless struct {
	storage.Backend
	away atomic.Bool
}

func (b *boundless) Unwrap() storage.Backend { return b.Backend }

func (b *boundless) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	if b.away.Load() && topic == "away" {
		return 0, 0, fmt.Errorf("no broker: %w", storage.ErrUnavailable)
	}
	return b.bounder().Bounds(ctx, topic, partition)
}

func (b *boundless) OffsetByTime(ctx context.Context, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
	return b.bounder().OffsetByTime(ctx, topic, partition, at, match)
}

func (b *boundless) bounder() storage.Bounder {
	inner, _ := storage.As[storage.Bounder](b.Backend) // a log in memory is one
	return inner
}

// TestMetricsDuringAnOutage: that the log cannot say where a topic ends costs the
// lag of that topic, and no other metric.
func TestMetricsDuringAnOutage(t *testing.T) {
	log := &boundless{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Wrap: func(b storage.Backend) storage.Backend { log.Backend = b; return log }}
	in := StartParts(t, o, func(p *server.Parts) { p.NoHTTP, p.HTTPListener = false, l })
	<-in.Server.Ready()
	for _, topic := range []string{"t", "away"} {
		s := Open(t, in.Mesh(), open("c", Sub(topic, broadcast)))
		Publish(t, in.Mesh(), topic, "x")
		s.Take(1)
	}
	log.away.Store(true)
	res, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", res.StatusCode, err, raw)
	}
	for want, there := range map[string]bool{
		`ackmesh_published_total{topic="away"} 1`: true, `ackmesh_lag{subscriber="client/c",topic="t"} 1`: true,
		`ackmesh_pending{subscriber="client/c",topic="away"} 1`: true, `ackmesh_lag{subscriber="client/c",topic="away"}`: false,
	} {
		if strings.Contains(string(raw), want) != there {
			t.Errorf("%s there: %v, want %v", want, !there, there)
		}
	}
}

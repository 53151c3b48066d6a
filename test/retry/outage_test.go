//go:build long

package retry

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
)

// The outage is five minutes with the default backoff, sixteen times as fast.
const (
	outage     = 5 * time.Minute / 16
	backoff    = "62.5ms,125ms,250ms,500ms,1s"
	maxWaiting = 1000
	published  = 20_000
)

var httpAddress = regexp.MustCompile(`http=(\S+)`)

// heapKB is what is in use of the server's heap, garbage included. What the
// process has in all says less here: it is built with the race detector.
func heapKB(t *testing.T, srv *process.Server) int {
	t.Helper()
	at := httpAddress.FindStringSubmatch(srv.Log())
	if at == nil {
		t.Fatal("the server does not say where /metrics is")
	}
	res, err := http.Get("http://" + at[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	const metric = "go_memstats_heap_inuse_bytes "
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), metric); ok {
			bytes, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(bytes) >> 10
		}
	}
	t.Fatalf("no %sin the metrics", metric)
	return 0
}

// TestOutage: while every handler nacks at full speed what waits stays within its
// bound, memory is flat and few die; when they work again the rest arrives.
func TestOutage(t *testing.T) {
	srv := process.Start(t, t.TempDir(), "--topics.partitions", "1", "--delivery.backoff", backoff)
	mesh, admin := pb.NewEventMeshClient(srv.Dial()), pb.NewAdminClient(srv.DialAdmin())
	s := servertest.Open(t, mesh, open("c"))
	for range published / 1000 {
		servertest.Publish(t, mesh, "t", servertest.Numbers(1000)...)
	}
	var nacks int
	var waiting int64
	var memory []int
	next := time.Now()
	for end := time.Now().Add(outage); time.Now().Before(end); {
		if s.Await(50*time.Millisecond, 1) {
			got := s.Take(len(s.Pending()))
			nacks += len(got)
			s.Nack(got...)
		}
		if time.Now().After(next) {
			next = time.Now().Add(500 * time.Millisecond)
			waiting = max(waiting, offsets(t, admin).GetWaiting())
			memory = append(memory, heapKB(t, srv))
		}
	}
	died := deaths(t, admin)
	half := len(memory) / 2
	// The store takes some 60 MiB more for some seconds when it writes a table: what
	// must not grow is what there is between.
	early, late := slices.Min(memory[:half]), slices.Min(memory[half:])
	t.Logf("%d nacks, at most %d waiting, %d dead letters, heap %d then %d MiB, at most %d", nacks, waiting, died, early>>10, late>>10, slices.Max(memory)>>10)
	if waiting > maxWaiting {
		t.Errorf("%d waiting", waiting)
	}
	if late > early*3/2+8<<10 {
		t.Errorf("memory grew from %d to %d KiB", early, late)
	}
	if most := slices.Max(memory); most > early+160<<10 {
		t.Errorf("memory was %d KiB at first and up to %d", early, most)
	}
	// A record dies 1.55 s after its first attempt at the earliest, and at most
	// 1,000 are on the way at a time.
	if most := maxWaiting * (int(outage/(1550*time.Millisecond)) + 1); died > most {
		t.Errorf("%d dead letters, at most %d are expected", died, most)
	}
	finished := map[int64]bool{}
	servertest.Eventually(t, 2*time.Minute, func() error {
		for s.Await(100*time.Millisecond, 1) {
			got := s.Take(len(s.Pending()))
			s.Ack(got...)
			for _, g := range got {
				finished[g.Offset] = true
			}
		}
		if p := offsets(t, admin); p.GetPosition() != published || p.GetInFlight()+p.GetWaiting() != 0 {
			return fmt.Errorf("position: %v", p)
		}
		return nil
	})
	if died = deaths(t, admin); died+len(finished) != published {
		t.Errorf("%d died and %d were finished of %d", died, len(finished), published)
	}
	srv.Check()
}

func offsets(t *testing.T, admin pb.AdminClient) *pb.PartitionOffsets {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	res, err := admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: "t", Subscriber: "client/c"})
	if err != nil || len(res.GetOffsets()) != 1 {
		t.Fatal(res, err)
	}
	return res.GetOffsets()[0]
}

// deaths counts the dead letters, each of which must be of another record.
func deaths(t *testing.T, admin pb.AdminClient) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	seen := map[int64]bool{}
	req := &pb.ListDeadLettersRequest{Topic: "t", PageSize: 1000}
	for {
		res, err := admin.ListDeadLetters(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range res.GetDeadLetters() {
			if seen[l.GetOffset()] {
				t.Errorf("offset %d died twice", l.GetOffset())
			}
			seen[l.GetOffset()] = true
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return len(seen)
		}
	}
}

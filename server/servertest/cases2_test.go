package servertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// TestC09_EveryFrameArrives: frames with few and with all attributes come with
// their place; none vanishes.
func TestC09_EveryFrameArrives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		counts := []int{0, 1, 63, 64}
		var want []int
		for i := range 100 {
			f := frame.Frame{Type: frame.Event, Data: fmt.Append(nil, i)}
			n := counts[i%len(counts)]
			for k := range n {
				f.Set(fmt.Sprintf("a%02d", k), fmt.Sprint(i))
			}
			raw, err := frame.Append(nil, &f)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := storage.AppendWait(context.Background(), o.Backend, "t", []storage.Event{{Frame: raw}}); err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		got := s.Take(100)
		for i, g := range got {
			if g.Offset != int64(i) || g.Data() != fmt.Sprint(i) || len(g.Frame.GetAttributes()) != want[i] {
				t.Fatalf("record %d came as offset %d with %d attributes, want %d", i, g.Offset, len(g.Frame.GetAttributes()), want[i])
			}
		}
		s.AckDurable(got...)
	})
}

// deafConn loses what its client writes once told to, and breaks later.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.deaf.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestC21_AcksOnBrokenStream: acks that are lost on the way are never called
// DURABLE; what they were for comes again.
func TestC21_AcksOnBrokenStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		Publish(t, in.Mesh(), "t", "before the topic has subscribers")
		var deaf atomic.Bool
		var conn atomic.Pointer[deafConn]
		dial := in.Dialer()
		mesh := pb.NewEventMeshClient(in.Dial(grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			c, err := dial(ctx, a)
			if err != nil {
				return nil, err
			}
			d := &deafConn{c, &deaf}
			conn.Store(d)
			return d, nil
		})))
		s := Open(t, mesh, open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(30)...)
		got := s.Take(30)
		s.AckDurable(got[:10]...)
		deaf.Store(true)
		s.Ack(got[10:]...)
		s.Quiet(5 * time.Second)
		_ = conn.Load().Close()
		if err := s.End(); err == nil {
			t.Fatal("a broken stream ended well")
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 11 {
			t.Fatalf("position %d, want 11", p.GetPosition())
		}
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		again := s.Take(20)
		wantOffsets(t, again, seq(11, 20))
		wantAttempts(t, again, 2)
	})
}

// TestC27_AckAgainstDeadline: acks that arrive just when deliveries time out
// leave nothing behind.
func TestC27_AckAgainstDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		n := int32(10_000)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight, o.AckTimeout = &n, durationpb.New(time.Second)
		s := Open(t, in.Mesh(), o)
		for range 10 {
			Publish(t, in.Mesh(), "t", Numbers(1000)...)
		}
		sent, done := 0, map[int64]bool{}
		for len(done) < 10_000 {
			got := s.Take(1)
			<-time.After(time.Until(time.Now().Truncate(50 * time.Millisecond).Add(50 * time.Millisecond)))
			sent++
			s.Ack(got...)
			if st := s.Outcome(got[0]); st == durable {
				done[got[0].Offset] = true
			}
			for len(s.Pending()) > 0 {
				more := s.Take(len(s.Pending()))
				sent += len(more)
				s.Ack(more...)
				for _, g := range more {
					if s.Outcome(g) == durable {
						done[g.Offset] = true
					}
				}
			}
		}
		s.Quiet(time.Minute)
		p := position(t, in, "t", "client/c")
		if p.GetPosition() != 10_000 || p.GetInFlight() != 0 || p.GetWaiting() != 0 {
			t.Fatalf("after all acks: %v", p)
		}
		again := int(in.Server.Metrics().Redelivered.Load())
		if sent > 10_000+again {
			t.Fatalf("%d deliveries came, %d were counted as repeats", sent, again)
		}
	})
}

// TestC68_HealthTellsTheTruth: NOT_SERVING while the store opens, SERVING after,
// NOT_SERVING before the first stream is closed.
func TestC68_HealthTellsTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		b, st := Log(t, 1), Store(t)
		in := StartParts(t, Options{}, func(p *server.Parts) {
			p.Backend = func() (storage.Backend, error) { <-gate; return Lend(b), nil }
			p.Store = func() (offsetstore.Store, error) { return LendStore(st), nil }
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		watch, err := healthpb.NewHealthClient(in.Dial()).Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			res, err := watch.Recv()
			if err != nil || res.GetStatus() != want {
				t.Fatalf("health %v %v, want %v", res.GetStatus(), err, want)
			}
		}
		expect(healthpb.HealthCheckResponse_NOT_SERVING)
		if _, err := in.Mesh().Publish(ctx, &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{}}}); status.Code(err) != codes.Unavailable {
			t.Fatalf("publish while starting: %v", err)
		}
		close(gate)
		expect(healthpb.HealthCheckResponse_SERVING)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		stopped := make(chan struct{})
		go func() { defer close(stopped); in.Stop() }()
		expect(healthpb.HealthCheckResponse_NOT_SERVING)
		if err := s.End(); status.Code(err) != codes.Unavailable {
			t.Fatalf("the stream ended with %v", err)
		}
		cancel()
		<-stopped
	})
}

// TestC74_ReadsChangeNothing: looking does not move anything.
func TestC74_ReadsChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(10)...)
		s.AckDurable(s.Take(5)...)
		before := dump(t, o.Store)
		admin := in.Admin()
		ctx := context.Background()
		for i := range 1000 {
			topic := []string{"", "t", "no such topic", "t#", "\u0000"}[i%5]
			_, _ = admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: topic, Subscriber: []string{"", "client/c", "share/x"}[i%3]})
			_, _ = admin.ListTopics(ctx, &pb.ListTopicsRequest{Prefix: topic})
			_, _ = admin.ListSubscribers(ctx, &pb.ListSubscribersRequest{Topic: topic})
			_, _ = admin.ListClients(ctx, &pb.ListClientsRequest{ClientId: topic})
			_, _ = admin.ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: topic})
		}
		if after := dump(t, o.Store); after != before {
			t.Fatalf("reads have changed the store:\n%s\n%s", before, after)
		}
	})
}

func dump(t *testing.T, s offsetstore.Store) string {
	var b strings.Builder
	if err := s.Scan("", func(k offsetstore.Key, v offsetstore.Value) bool {
		fmt.Fprintf(&b, "%v=%v\n", k, v)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestC64_OneWriterPerStream: busy topics, acks and sudden ends on one server;
// every frame decodes and nothing is lost. Meant for the race detector.
func TestC64_OneWriterPerStream(t *testing.T) {
	in := Start(t, Options{})
	const topics, each = 8, 400
	var subs []*pb.Subscription
	for i := range topics {
		subs = append(subs, &pb.Subscription{Id: uint32(i + 1), Topic: fmt.Sprint("t", i), Mode: broadcast})
	}
	s := Open(t, in.Mesh(), open("steady", subs...))
	var wg sync.WaitGroup
	for i := range topics {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mesh := in.Mesh()
			for n := range each / 10 {
				Publish(t, mesh, fmt.Sprint("t", i), Numbers(n*10 + 10)[n*10:]...)
			}
		}()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range 60 { // clients that end suddenly
			a := Open(t, in.Mesh(), open("abrupt", subs[i%topics]))
			a.Break()
		}
	}()
	seen := map[string]int{}
	for range topics * each / 40 {
		got := s.Take(40)
		for _, g := range got {
			if want := fmt.Sprint("m", seen[g.Topic]); g.Data() != want {
				t.Fatalf("topic %s: %q, want %q", g.Topic, g.Data(), want)
			}
			seen[g.Topic]++
		}
		s.Ack(got...)
		if rand.IntN(10) == 0 {
			s.Outcome(got[len(got)-1])
		}
	}
	wg.Wait()
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// TestC65_StreamsThatAreNotRead: clients that do not read hold up nobody on the
// same connection, and bounded memory.
func TestC65_StreamsThatAreNotRead(t *testing.T) {
	in := Start(t, Options{})
	conn := in.Dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(1<<30))
	mesh := pb.NewEventMeshClient(conn)
	base := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var deaf []pb.EventMesh_SubscribeClient
	for i := range 50 {
		raw, err := mesh.Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: open(fmt.Sprint("deaf", i), Sub("t", broadcast))}}); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Recv(); err != nil { // Opened
			t.Fatal(err)
		}
		deaf = append(deaf, raw)
	}
	var streams []*Stream
	for i := range 20 {
		streams = append(streams, Open(t, mesh, open(fmt.Sprint("c", i), Sub("t", broadcast))))
	}
	payload := strings.Repeat("x", 256<<10)
	pub := in.Mesh()
	for range 40 {
		Publish(t, pub, "t", payload)
		for _, s := range streams {
			s.Ack(s.Take(1)...)
		}
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	if limit := uint64(400 << 20); mem.HeapInuse > limit {
		t.Errorf("%d MiB in use with %d streams that are not read, want less than %d", mem.HeapInuse>>20, len(deaf), limit>>20)
	}
	cancel()
	for _, s := range streams {
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, "goroutines", func() bool { return runtime.NumGoroutine() <= base+20 })
}

// settle waits until cond holds: for what other goroutines do without telling.
func settle(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			buf := make([]byte, 1<<20)
			t.Fatalf("%s do not come back: %d goroutines\n%s", what, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestC66_NothingIsLeftBehind: streams that end in every way leave no goroutine.
func TestC66_NothingIsLeftBehind(t *testing.T) {
	in := Start(t, Options{Config: func(c *server.Config) { c.Topics.AutoCreate = true }})
	mesh := in.Mesh()
	Publish(t, mesh, "t", "x")
	round := func(i int) {
		s := OpenFrom(t, mesh, fmt.Sprint("c", i%7), "t", Earliest())
		switch i % 4 {
		case 0:
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
		case 1:
			s.Break()
		case 2:
			s.Ack(Got{ID: 5})
			s.Break()
		case 3:
			s.Send(&pb.SubscribeRequest{})
			if err := s.End(); status.Code(err) != codes.InvalidArgument {
				t.Fatalf("an empty request: %v", err)
			}
		}
	}
	for i := range 20 {
		round(i)
	}
	settle(t, "streams", func() bool { return in.Server.Metrics().StreamsLive.Load() == 0 })
	base := runtime.NumGoroutine()
	for i := range 600 {
		round(i)
	}
	settle(t, "streams", func() bool { return in.Server.Metrics().StreamsLive.Load() == 0 })
	settle(t, "goroutines", func() bool { return runtime.NumGoroutine() <= base+10 })
}

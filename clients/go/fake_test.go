package ackmesh

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test with fake time. Everything in it must have ended when it
// returns.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// network is a set of fake instances, reached by name.
type network struct {
	t         *testing.T
	mu        sync.Mutex
	instances map[string]*fake
	drop      atomic.Bool // client→server bytes vanish
	options   []grpc.ServerOption
}

// fake is an instance whose every move the test makes.
type fake struct {
	pb.UnimplementedEventMeshServer
	pb.UnimplementedSessionServer
	name    string
	lis     *bufconn.Listener
	srv     *grpc.Server
	served  chan struct{}
	streams chan *fakeStream
	deaf    bool // reads nothing of a Subscribe stream after Open

	mu        sync.Mutex
	publish   func(*pb.PublishRequest) *pb.PublishResponse
	recommend func(*pb.RecommendRequest) (*pb.RecommendResponse, error)
	asked     []*pb.RecommendRequest
	requests  []*pb.PublishRequest
	hold      chan struct{} // PublishStream answers only once it is closed
	breakAt   int           // PublishStream breaks instead of answering this request, counted from 1
	openError error         // PublishStream and Subscribe fail with it
	header    metadata.MD   // PublishStream begins with it
}

func newNetwork(t *testing.T) *network {
	n := &network{t: t, instances: make(map[string]*fake)}
	t.Cleanup(func() {
		for _, f := range n.instances {
			f.stop()
		}
	})
	return n
}

// start starts an instance.
func (n *network) start(name string) *fake {
	f := &fake{name: name, lis: bufconn.Listen(1 << 20), srv: grpc.NewServer(n.options...), served: make(chan struct{}), streams: make(chan *fakeStream, 100)}
	pb.RegisterEventMeshServer(f.srv, f)
	pb.RegisterSessionServer(f.srv, f)
	n.mu.Lock()
	n.instances[name] = f
	n.mu.Unlock()
	go func() { defer close(f.served); _ = f.srv.Serve(f.lis) }()
	return f
}

// stop kills an instance.
func (f *fake) stop() {
	f.srv.Stop()
	<-f.served
}

func (n *network) dial(ctx context.Context, name string) (net.Conn, error) {
	n.mu.Lock()
	f := n.instances[name]
	n.mu.Unlock()
	if f == nil {
		return nil, fmt.Errorf("no instance %q", name)
	}
	c, err := f.lis.DialContext(ctx)
	return &lossyConn{Conn: c, drop: &n.drop}, err
}

// lossyConn loses what is written while drop is set.
type lossyConn struct {
	net.Conn
	drop *atomic.Bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if c.drop.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

const target = "passthrough:///"

// client returns a Client that knows the named instances.
func (n *network) client(change func(*Config), names ...string) *Client {
	cfg := Config{ClientID: "c1", Keepalive: -1, DialOptions: []grpc.DialOption{grpc.WithContextDialer(n.dial)}}
	for _, name := range names {
		cfg.Addresses = append(cfg.Addresses, target+name)
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { closeClientQuietly(c) })
	return c
}

func (f *fake) Recommend(_ context.Context, r *pb.RecommendRequest) (*pb.RecommendResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r)
	if f.recommend != nil {
		return f.recommend(r)
	}
	return &pb.RecommendResponse{InstanceId: f.name}, nil
}

// fakeStream is a Subscribe stream, seen from the server.
type fakeStream struct {
	t       *testing.T
	open    *pb.Open
	in      chan *pb.SubscribeRequest // closed when the client has half-closed or broken
	stream  grpc.BidiStreamingServer[pb.SubscribeRequest, pb.SubscribeResponse]
	verdict chan error
	once    sync.Once
	nextID  uint64
}

func (f *fake) Subscribe(stream grpc.BidiStreamingServer[pb.SubscribeRequest, pb.SubscribeResponse]) error {
	f.mu.Lock()
	err := f.openError
	f.mu.Unlock()
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	st := &fakeStream{open: first.GetOpen(), in: make(chan *pb.SubscribeRequest, 10_000), stream: stream, verdict: make(chan error, 1), nextID: 1000}
	received := make(chan struct{})
	go func() {
		defer close(received)
		defer close(st.in)
		if f.deaf {
			<-stream.Context().Done()
			return
		}
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			st.in <- m
		}
	}()
	f.streams <- st
	select {
	case err = <-st.verdict:
	case <-stream.Context().Done():
		err = stream.Context().Err()
	}
	if err == nil {
		<-received
	}
	return err
}

// next waits for the next stream of any client.
func (f *fake) next(t *testing.T) *fakeStream {
	t.Helper()
	select {
	case st := <-f.streams:
		st.t = t
		return st
	case <-time.After(time.Minute):
		t.Fatalf("no stream at %s within a minute", f.name)
		return nil
	}
}

// accept is next, and answers with Opened.
func (f *fake) accept(t *testing.T, positions ...*pb.Position) *fakeStream {
	t.Helper()
	st := f.next(t)
	st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{
		InstanceId: f.name, Positions: positions, AckTimeout: durationpb.New(30 * time.Second),
	}}})
	return st
}

func (st *fakeStream) send(m *pb.SubscribeResponse) {
	st.t.Helper()
	if err := st.stream.Send(m); err != nil {
		st.t.Fatalf("server cannot send: %v", err)
	}
}

// end ends the stream; nil in order, once the client has half-closed.
func (st *fakeStream) end(err error) { st.once.Do(func() { st.verdict <- err }) }

// deliver sends n deliveries of subscription 1, partition 0, with rising ids, from
// an offset on, and returns the first id.
func (st *fakeStream) deliver(n int, offset int64) uint64 {
	return st.deliverRun(&pb.Run{Subscription: 1, Topic: "orders", Partition: "0", Epoch: 1}, n, offset)
}

func (st *fakeStream) deliverRun(run *pb.Run, n int, offset int64) uint64 {
	st.t.Helper()
	first := st.nextID
	for i := range n {
		run.Deliveries = append(run.Deliveries, &pb.Delivery{
			DeliveryId: st.nextID, Offset: offset + int64(i), Attempt: 1,
			Frame: &pb.EventMeshFrame{Attributes: map[string]string{"id": fmt.Sprint(offset + int64(i)), "type": "t"}, Data: []byte("data")},
		})
		st.nextID++
	}
	st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: []*pb.Run{run}}}})
	return first
}

// answer sends an AckResult for a range.
func (st *fakeStream) answer(status pb.AckResult_Status, first, last uint64) {
	st.t.Helper()
	st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{
		Outcomes: []*pb.AckResult_Outcome{{Status: status, Ranges: []*pb.DeliveryRange{{First: first, Last: last}}}},
	}}})
}

func (st *fakeStream) notice(n *pb.Notice) {
	st.t.Helper()
	st.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Notice{Notice: n}})
}

// recv waits for the next message of the client; nil when it has half-closed.
func (st *fakeStream) recv() *pb.SubscribeRequest {
	st.t.Helper()
	select {
	case m := <-st.in:
		return m
	case <-time.After(time.Minute):
		st.t.Fatal("no message of the client within a minute")
		return nil
	}
}

// recvAck waits for the next message, not counting moved deadlines, and returns the
// ids that it acks.
func (st *fakeStream) recvAck() []uint64 {
	st.t.Helper()
	m := st.recv()
	for m.GetExtend() != nil {
		m = st.recv()
	}
	if m.GetAck() == nil {
		st.t.Fatalf("got %v, want an Ack", m)
	}
	return idsOf(m.GetAck())
}

// recvAcks collects acks until n ids are acked.
func (st *fakeStream) recvAcks(n int) []uint64 {
	st.t.Helper()
	var ids []uint64
	for len(ids) < n {
		ids = append(ids, st.recvAck()...)
	}
	return ids
}

type named interface {
	GetDeliveryIds() []uint64
	GetRanges() []*pb.DeliveryRange
}

func idsOf(m named) []uint64 {
	ids := append([]uint64(nil), m.GetDeliveryIds()...)
	for _, r := range m.GetRanges() {
		for id := r.First; id <= r.Last; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// serve acts as a willing server from here on: it confirms every ack, and ends the
// stream in order when the client asks. It returns the acked ids when the stream
// has ended, in whatever way.
func (st *fakeStream) serve() []uint64 {
	var acked []uint64
	for m := range st.in {
		a := &pb.SubscribeResponse{}
		switch k := m.Kind.(type) {
		case *pb.SubscribeRequest_Ack:
			acked = append(acked, idsOf(k.Ack)...)
			a.Kind = answerOf(k.Ack)
		case *pb.SubscribeRequest_Nack:
			a.Kind = answerOf(k.Nack)
		case *pb.SubscribeRequest_Change:
			a.Kind = &pb.SubscribeResponse_Changed{Changed: &pb.Changed{ChangeId: k.Change.ChangeId}}
		default:
			continue
		}
		if err := st.stream.Send(a); err != nil {
			break
		}
	}
	st.end(nil)
	return acked
}

func answerOf(m named) *pb.SubscribeResponse_AckResult {
	return &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{
		Outcomes: []*pb.AckResult_Outcome{{Status: durable, DeliveryIds: m.GetDeliveryIds(), Ranges: m.GetRanges()}},
	}}
}

// idle fails the test if the client sends anything within d.
func (st *fakeStream) idle(d time.Duration) {
	st.t.Helper()
	select {
	case m, ok := <-st.in:
		if ok {
			st.t.Fatalf("unexpected message %v", m)
		}
	case <-time.After(d):
	}
}

func (f *fake) PublishStream(stream grpc.BidiStreamingServer[pb.PublishRequest, pb.PublishResponse]) error {
	f.mu.Lock()
	err := f.openError
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.mu.Lock()
	header := f.header
	f.mu.Unlock()
	if err := stream.SendHeader(header); err != nil {
		return err
	}
	var queue []*pb.PublishRequest
	got := make(chan *pb.PublishRequest, 10_000)
	go func() {
		defer close(got)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.requests = append(f.requests, r)
			f.mu.Unlock()
			got <- r
		}
	}()
	for {
		f.mu.Lock()
		hold := f.hold
		f.mu.Unlock()
		if hold == nil {
			hold = closedChan
		}
		if len(queue) == 0 {
			hold = nil
		}
		if got == nil && len(queue) == 0 {
			return nil
		}
		select {
		case r, ok := <-got:
			if !ok { // half-closed: what was sent is answered first
				got = nil
				break
			}
			queue = append(queue, r)
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-hold:
			if f.breaks() {
				return status.Error(codes.Unavailable, "broken by the test")
			}
			if err := stream.Send(f.answerPublish(queue[0])); err != nil {
				return err
			}
			queue = queue[1:]
		}
	}
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (f *fake) breaks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.breakAt == 0 {
		return false
	}
	f.breakAt--
	return f.breakAt == 0
}

func (f *fake) answerPublish(r *pb.PublishRequest) *pb.PublishResponse {
	f.mu.Lock()
	publish := f.publish
	f.mu.Unlock()
	if publish != nil {
		a := publish(r)
		a.RequestId = r.RequestId
		return a
	}
	return accepted(r)
}

// accepted is the answer that all is durable.
func accepted(r *pb.PublishRequest) *pb.PublishResponse {
	a := &pb.PublishResponse{RequestId: r.RequestId}
	for i, e := range r.Events {
		a.Events = append(a.Events, &pb.PublishedEvent{Partition: "0", Offset: int64(i), Id: e.Attributes["id"]})
	}
	return a
}

// received returns copies of the publish requests so far.
func (f *fake) received() []*pb.PublishRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*pb.PublishRequest(nil), f.requests...)
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// closeClient closes a client and fails the test if that was not in order.
func closeClient(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not name %q", err, p)
		}
	}
}

package ackmesh

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// benchAttributes are the eight attributes of the project's benchmarks.
var benchAttributes = map[string]string{
	"id": "01J9ZQ4T8V3N5M7K2P6R0X1Y9A", "source": "/sensors/hall-7", "type": "com.example.reading",
	"subject": "temperature", "time": "2026-01-02T03:04:05.678Z", "datacontenttype": "application/json",
	"partitionkey": "sensor-4711", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}

// template is a message of deliveries whose ids and offsets can be replaced.
type template struct {
	msg   []byte
	ids   []int // where the ids stand
	count int
}

func newTemplate(n int) *template {
	run := &pb.Run{Subscription: 1, Topic: "orders", Partition: "0", Epoch: 1}
	body := []byte(strings.Repeat("x", 1024))
	const mark = 0x7a7b7c7d7e7f0000
	for i := range n {
		run.Deliveries = append(run.Deliveries, &pb.Delivery{
			DeliveryId: mark + uint64(i), Offset: int64(1000 + i), Attempt: 1,
			Frame: &pb.EventMeshFrame{Attributes: benchAttributes, Data: body},
		})
	}
	msg, err := proto.Marshal(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Deliveries{Deliveries: &pb.Deliveries{Runs: []*pb.Run{run}}}})
	if err != nil {
		panic(err)
	}
	t := &template{msg: msg, count: n}
	for i := range n {
		t.ids = append(t.ids, bytes.Index(msg, binary.LittleEndian.AppendUint64(nil, mark+uint64(i))))
	}
	return t
}

// fill writes the message with ids from first on into b.
func (t *template) fill(b []byte, first uint64) {
	copy(b, t.msg)
	for i, at := range t.ids {
		binary.LittleEndian.PutUint64(b[at:], first+uint64(i))
	}
}

// loopStream is a ClientStream that answers every ack as durable.
type loopStream struct {
	grpc.ClientStream
	answers chan *pb.AckResult
}

func (l *loopStream) CloseSend() error { return nil }

func (l *loopStream) SendMsg(m any) error {
	raw, ok := m.(*outMsg)
	if !ok {
		return nil
	}
	var r pb.SubscribeRequest
	if err := proto.Unmarshal(raw.buf.ReadOnlyData(), &r); err != nil {
		return err
	}
	if a := r.GetAck(); a != nil {
		l.answers <- &pb.AckResult{Outcomes: []*pb.AckResult_Outcome{{Status: durable, DeliveryIds: a.DeliveryIds, Ranges: a.Ranges}}}
	}
	return nil
}

// BenchmarkConsume is everything the client does for a delivery but the transport:
// decode, dispatch to a handler or to Recv, ack in ranges, take the confirmation.
// Run it with -cpu 1 for the rate of one core.
func BenchmarkConsume(b *testing.B) {
	b.Run("handler", func(b *testing.B) {
		benchConsume(b, func(s *Stream, ctx context.Context) {
			p := newPool(ctx, s, func(_ context.Context, d *Delivery) error {
				if _, ok := d.AttrBytes("type"); !ok {
					b.Error("no type")
				}
				return nil
			})
			p.start(1)
			<-ctx.Done()
			s.stopTaking()
			p.running.Wait()
			p.cancel()
		})
	})
	b.Run("batch", func(b *testing.B) {
		benchConsume(b, func(s *Stream, ctx context.Context) {
			for {
				batch, err := s.Recv(ctx)
				if err != nil {
					return
				}
				for _, d := range batch.All() {
					if _, ok := d.AttrBytes("type"); !ok {
						b.Error("no type")
					}
				}
				batch.Ack()
				batch.Release()
			}
		})
	})
}

func benchConsume(b *testing.B, consume func(*Stream, context.Context)) {
	s, ss, stop := detached(b)
	loop := &loopStream{answers: make(chan *pb.AckResult, 10_000)}
	ss.stream = loop
	ctx, cancel := context.WithCancel(b.Context())
	ss.writer.Add(1)
	go ss.write(ctx)
	consumed := make(chan struct{})
	go func() { defer close(consumed); consume(s, ctx) }()
	t := newTemplate(20)
	b.ReportAllocs()
	b.SetBytes(int64(len(t.msg) / t.count))
	sent, confirmed := 0, 0
	take := func(r *pb.AckResult) {
		if err := ss.results(r); err != nil {
			b.Error(err)
		}
		for _, o := range r.Outcomes {
			confirmed += len(idsOf(o))
		}
	}
	for b.Loop() {
		if sent%t.count == 0 {
			buf := pool.Get(len(t.msg))
			t.fill(*buf, uint64(1000+sent))
			if err := ss.take(mem.NewBuffer(buf, pool)); err != nil {
				b.Fatal(err)
			}
			for len(loop.answers) > 0 || sent-confirmed > 4096 {
				take(<-loop.answers)
			}
		}
		sent++
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "events/s")
	cancel()
	<-consumed
	ss.writer.Wait()
	stop()
}

// detached is a Stream with a session that no run reads.
func detached(tb testing.TB) (*Stream, *session, func()) {
	c, err := New(Config{Addresses: []string{"passthrough:///none"}, ClientID: "c1"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &Stream{
		c: c, cfg: orders().withDefaults(), queue: newQueue(), subs: make(map[uint32]*subState),
		opened: make(chan struct{}), done: make(chan struct{}), sessChange: make(chan struct{}),
	}
	s.life, s.cutLife = context.WithCancel(context.Background())
	s.addSub(s.cfg.all()[0])
	_, cancel := context.WithCancelCause(context.Background())
	ss := s.newSession(cancel)
	opened := &pb.Opened{Positions: []*pb.Position{at(0, 1)}}
	if err := s.begin(ss, opened, place{}); err != nil {
		tb.Fatal(err)
	}
	return s, ss, func() { cancel(nil); s.cutLife(); closeClientQuietly(c) }
}

func BenchmarkPublishAsync(b *testing.B) {
	m := &sink{}
	c, stop := overLoopback(b, m)
	defer stop()
	attrs := EventFromMap(benchAttributes, []byte(strings.Repeat("x", 1024)))
	b.ReportAllocs()
	b.SetBytes(1024)
	failed := func(r Result) {
		if r.Err != nil {
			b.Error(r.Err)
		}
	}
	n := 0
	for b.Loop() {
		if err := c.PublishAsync(context.Background(), "orders", attrs, failed); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := c.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(n)/float64(max(m.requests.Load(), 1)), "events/request")
}

// BenchmarkPublishIdle is one event at a time, waited for.
func BenchmarkPublishIdle(b *testing.B) {
	c, stop := overLoopback(b, &sink{})
	defer stop()
	e := EventFromMap(benchAttributes, []byte(strings.Repeat("x", 1024)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Publish(context.Background(), "orders", e); err != nil {
			b.Fatal(err)
		}
	}
}

// overLoopback serves m on a TCP port and returns a client of it.
func overLoopback(tb testing.TB, m *sink) (*Client, func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodecV2(sinkCodec{}), grpc.StaticStreamWindowSize(windowBytes), grpc.StaticConnWindowSize(windowBytes))
	pb.RegisterEventMeshServer(srv, m)
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(lis) }()
	c, err := New(Config{Addresses: []string{lis.Addr().String()}, ClientID: "c1", Direct: true})
	if err != nil {
		tb.Fatal(err)
	}
	return c, func() { closeClientQuietly(c); srv.Stop(); <-served }
}

// sink is a server that does as little as it can, so that the client is measured.
type sink struct {
	pb.UnimplementedEventMeshServer
	requests atomic.Int64
	tmpl     *template
	window   int
}

type sinkMsg struct{ b []byte }

// sinkCodec carries messages as bytes.
type sinkCodec struct{ rawCodec }

func (sinkCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *sinkMsg:
		return mem.BufferSlice{mem.SliceBuffer(m.b)}, nil
	case *outMsg:
		return mem.BufferSlice{m.buf}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("cannot send a %T", v)
}

func (sinkCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *sinkMsg:
		m.b = data.Materialize()
		return nil
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), m)
	}
	return fmt.Errorf("cannot receive a %T", v)
}

// PublishStream counts the events of a request by their tags and answers.
func (m *sink) PublishStream(stream grpc.BidiStreamingServer[pb.PublishRequest, pb.PublishResponse]) error {
	raw := stream.(*grpc.GenericServerStream[pb.PublishRequest, pb.PublishResponse])
	for {
		var in sinkMsg
		if err := raw.RecvMsg(&in); err != nil {
			return nil
		}
		m.requests.Add(1)
		a := &pb.PublishResponse{}
		b := in.b
		for len(b) > 0 {
			switch tag, n := b[0]>>3, 0; tag {
			case 4:
				a.RequestId, n = binary.Uvarint(b[1:])
				b = b[1+n:]
			default:
				size, n := binary.Uvarint(b[1:])
				b = b[1+n+int(size):]
				if tag == 2 {
					a.Events = append(a.Events, &pb.PublishedEvent{Partition: "0", Offset: 1})
				}
			}
		}
		if err := raw.SendMsg(a); err != nil {
			return err
		}
	}
}

// Subscribe sends as fast as the window allows.
func (m *sink) Subscribe(stream grpc.BidiStreamingServer[pb.SubscribeRequest, pb.SubscribeResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: &pb.Opened{}}}); err != nil {
		return err
	}
	var acked atomic.Int64
	out := make(chan *pb.SubscribeResponse, 10_000)
	wake := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			if a := r.GetAck(); a != nil {
				acked.Add(int64(len(idsOf(a))))
				out <- &pb.SubscribeResponse{Kind: &pb.SubscribeResponse_AckResult{AckResult: &pb.AckResult{
					Outcomes: []*pb.AckResult_Outcome{{Status: durable, DeliveryIds: a.DeliveryIds, Ranges: a.Ranges}},
				}}}
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return m.pump(stream, out, wake, &acked)
}

func (m *sink) pump(stream grpc.ServerStream, out chan *pb.SubscribeResponse, wake chan struct{}, acked *atomic.Int64) error {
	sent := int64(0)
	for {
		select {
		case r, ok := <-out:
			if !ok {
				return nil
			}
			if err := stream.SendMsg(r); err != nil {
				return err
			}
			continue
		default:
		}
		if sent-acked.Load() > int64(m.window) {
			select {
			case <-wake:
			case <-time.After(time.Second):
			}
			if stream.Context().Err() != nil {
				return nil
			}
			continue
		}
		buf := pool.Get(len(m.tmpl.msg))
		m.tmpl.fill(*buf, uint64(1000+sent))
		if err := stream.SendMsg(&outMsg{mem.NewBuffer(buf, pool)}); err != nil {
			return err
		}
		sent += int64(m.tmpl.count)
	}
}

// BenchmarkConsumeTCP is consuming over TCP from a server in the same process,
// which takes its part of the processors.
func BenchmarkConsumeTCP(b *testing.B) {
	c, stop := overLoopback(b, &sink{tmpl: newTemplate(20), window: 4096})
	defer stop()
	s, err := c.OpenStream(b.Context(), orders())
	if err != nil {
		b.Fatal(err)
	}
	n, left := 0, 0
	b.ReportAllocs()
	b.SetBytes(1024)
	var batch *Batch
	for b.Loop() {
		if left == 0 {
			if batch != nil {
				batch.Ack()
				batch.Release()
			}
			if batch, err = s.Recv(b.Context()); err != nil {
				b.Fatal(err)
			}
			left = batch.Len()
		}
		left--
		if _, ok := batch.At(left).AttrBytes("type"); !ok {
			b.Fatal("no type")
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	s.cutLife()
	<-s.Done()
}

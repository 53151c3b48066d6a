//go:build long

// Package random drives whole instances through random histories in fake time
// and holds what the clients saw against every promise.
package random

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/server/tracecheck"
)

var (
	seeds = flag.Int("seeds", 1000, "how many histories are run")
	first = flag.Uint64("seed", 1, "the seed of the first; the others follow")
)

const (
	window     = 20
	ackTimeout = 3 * time.Second
	steps      = 120
)

// TestRandomHistories runs one history for each seed, as many at a time as there
// are processors: a history has little to do in parallel.
func TestRandomHistories(t *testing.T) {
	var next atomic.Int64
	for i := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for n := next.Add(1); n <= int64(*seeds); n = next.Add(1) {
				seed := *first + uint64(n) - 1
				synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() })
				if t.Failed() {
					t.Fatalf("seed %d; -seed %d -seeds 1 runs it again", seed, seed)
				}
			}
		})
	}
}

// world is one history.
type world struct {
	t        *testing.T
	seed     uint64
	rnd      *rand.Rand
	o        servertest.Options
	in       *servertest.Instance
	mesh     pb.EventMeshClient
	admin    pb.AdminClient
	rec      *tracecheck.Recorder
	clients  []*client
	next     uint64
	resets   bool
	buried   int64                      // dead letters of this instance, counted
	graves   map[string]bool            // ids of the dead letters recorded
	dead     map[grave]bool             // the same, by what died
	keys     map[uint64]string          // of each event
	place    map[uint64]place           // of each published event
	done     map[string]map[uint64]bool // by subscriber: answered DURABLE
	attempts map[string]int32
	newest   map[uint64]int64               // the broadcast subscriber's newest first delivery, by epoch
	acked    map[string]map[uint64]int      // by subscriber: acks on their way
	sent     map[string]map[string][]uint64 // ordered subscribers: by key, what was sent
}

type place struct {
	partition string
	offset    int64
}

// grave is a record that is a dead letter of a subscriber.
type grave struct {
	subscriber string
	place      place
}

// client is one client with one subscription.
type client struct {
	w    *world
	name string
	sub  *pb.Subscription
	s    *stream
}

func (c *client) subscriber() string {
	if c.sub.GetMode() == pb.Mode_MODE_LOAD_BALANCE {
		return "share/" + c.sub.GetShare()
	}
	return "client/" + c.name
}

// stream is one stream of a client: what comes is gathered by a goroutine and
// looked at when everything stands still.
type stream struct {
	id     int32
	raw    pb.EventMesh_SubscribeClient
	cancel context.CancelFunc
	mu     sync.Mutex
	msgs   []message
	ended  bool
	opened bool
	told   bool // that it ended
	held   []held
	asked  map[uint64]held
}

// message is what came, and when.
type message struct {
	at time.Time
	c  *client
	*pb.SubscribeResponse
}

type held struct {
	id     uint64
	event  uint64
	epoch  uint64
	at     time.Time
	nacked bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 99)), rec: tracecheck.NewRecorder(0),
		keys: map[uint64]string{}, place: map[uint64]place{},
		graves: map[string]bool{}, dead: map[grave]bool{}, done: map[string]map[uint64]bool{}, sent: map[string]map[string][]uint64{},
		acked: map[string]map[uint64]int{}, attempts: map[string]int32{}, newest: map[uint64]int64{},
	}
	w.resets = w.rnd.IntN(2) == 0
	w.o = servertest.Lasting(t)
	w.o.Pipe = 64 << 10
	w.start()
	share := func(name, share string, ordered bool) {
		w.clients = append(w.clients, &client{w: w, name: name, sub: &pb.Subscription{
			Id: 1, Topic: "t", Mode: pb.Mode_MODE_LOAD_BALANCE, Share: share, Ordered: ordered,
		}})
	}
	w.clients = append(w.clients, &client{w: w, name: "b", sub: servertest.Sub("t", pb.Mode_MODE_BROADCAST)})
	for i := range 3 {
		share(fmt.Sprint("s", i), "s", false)
	}
	for i := range 2 {
		share(fmt.Sprint("o", i), "o", true)
	}
	for _, c := range w.clients {
		w.done[c.subscriber()], w.acked[c.subscriber()] = map[uint64]bool{}, map[uint64]int{}
		w.open(c)
	}
	return w
}

func (w *world) start() {
	w.in = servertest.Start(w.t, w.o)
	w.mesh, w.admin, w.buried = w.in.Mesh(), w.in.Admin(), -1
}

// settle lets everything happen that happens by itself now, and takes it in.
func (w *world) settle() {
	synctest.Wait()
	w.bury()
	var all []message
	for _, c := range w.clients {
		if c.s != nil {
			all = append(all, c.take()...)
		}
	}
	slices.SortStableFunc(all, func(a, b message) int { return a.at.Compare(b.at) })
	for _, m := range all {
		w.message(m)
	}
	for _, c := range w.clients {
		if c.s != nil {
			w.ended(c)
		}
	}
}

// take returns what has come on the client's stream.
func (c *client) take() []message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	msgs := c.s.msgs
	c.s.msgs = nil
	for i := range msgs {
		msgs[i].c = c
	}
	return msgs
}

// bury records the dead letters that are new.
func (w *world) bury() {
	n := w.in.Server.Metrics().DeadLettered.Load()
	if n == w.buried {
		return
	}
	w.buried = n
	for _, l := range w.letters() {
		if !w.graves[l.GetId()] {
			w.graves[l.GetId()] = true
			w.dead[grave{l.GetSubscriber(), place{l.GetPartition(), l.GetOffset()}}] = true
			w.rec.Of(tracecheck.Dead, l.GetSubscriber(), l.GetPartition(), l.GetOffset())
		}
	}
}

func (w *world) run() {
	for range steps {
		w.step()
		w.settle()
		if w.t.Failed() {
			return
		}
	}
	w.finish()
	// Timeouts and keys are part of the histories: what timed out is with someone
	// else too, and what waits for its key comes later. These are looked at here.
	except := []error{tracecheck.ErrBrokeBounded, tracecheck.ErrBrokeExclusive, tracecheck.ErrBrokeAttemptsRise, tracecheck.ErrBrokeOrdered}
	if w.resets { // they skip and repeat on purpose
		except = append(except, tracecheck.ErrBrokeAckFinal, tracecheck.ErrBrokeRemembered, tracecheck.ErrBrokeNoSkip,
			tracecheck.ErrBrokeComplete)
	}
	if err := tracecheck.Check(w.rec.Trace(), except...); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
}

func (w *world) step() {
	c := w.clients[w.rnd.IntN(len(w.clients))]
	switch n := w.rnd.IntN(100); {
	case n < 25:
		w.publish(1 + w.rnd.IntN(12))
	case n < 55:
		w.answer(c, pb.AckResult_STATUS_DURABLE)
	case n < 63:
		w.answer(c, pb.AckResult_STATUS_RETRY) // a nack
	case n < 68:
		w.extend(c)
	case n < 82:
		w.pass(time.Duration(w.rnd.IntN(4000)) * time.Millisecond)
	case n < 90 && c.s == nil:
		w.open(c)
	case n < 87:
		w.close(c, w.rnd.IntN(2) == 0)
	case n < 90 && w.resets:
		w.reset(c)
	case n >= 98:
		w.restart()
	}
}

// publish appends events, some with keys.
func (w *world) publish(n int) {
	req := &pb.PublishRequest{Topic: "t"}
	var ids []uint64
	for range n {
		w.next++
		id := w.next
		f := &pb.EventMeshFrame{Data: strconv.AppendUint(nil, id, 10)}
		if w.rnd.IntN(3) > 0 {
			w.keys[id] = fmt.Sprint("k", w.rnd.IntN(4))
			f.Attributes = map[string]string{"partitionkey": w.keys[id]}
		}
		req.Events = append(req.Events, f)
		ids = append(ids, id)
		w.rec.Add(tracecheck.Event{Kind: tracecheck.Publish, ID: id})
	}
	res, err := w.mesh.Publish(context.Background(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, e := range res.GetEvents() {
		w.place[ids[i]] = place{e.GetPartition(), e.GetOffset()}
		w.rec.Add(tracecheck.Event{Kind: tracecheck.Published, ID: ids[i], Partition: e.GetPartition(), Offset: e.GetOffset()})
	}
}

func (w *world) pass(d time.Duration) { <-time.After(d) }

// open opens a client's stream and waits until it is open.
func (w *world) open(c *client) {
	ctx, cancel := context.WithCancel(context.Background())
	raw, err := w.mesh.Subscribe(ctx)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	n := int32(window)
	s := &stream{id: w.rec.Open(c.subscriber(), window), raw: raw, cancel: cancel, asked: map[uint64]held{}}
	c.s = s
	w.t.Cleanup(cancel)
	go s.read()
	w.send(c, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: &pb.Open{
		ClientId: c.name, MaxInFlight: &n, AckTimeout: durationpb.New(ackTimeout), Subscriptions: []*pb.Subscription{c.sub},
	}}})
	w.settle()
	if !s.opened {
		w.t.Fatalf("seed %d: client %s is not opened", w.seed, c.name)
	}
}

func (s *stream) read() {
	for {
		m, err := s.raw.Recv()
		s.mu.Lock()
		if err != nil {
			s.ended = true
			s.mu.Unlock()
			return
		}
		s.msgs = append(s.msgs, message{at: time.Now(), SubscribeResponse: m})
		s.mu.Unlock()
	}
}

func (w *world) send(c *client, m *pb.SubscribeRequest) {
	_ = c.s.raw.Send(m) // that it failed shows in Recv
}

// close ends a client's stream, in order or not.
func (w *world) close(c *client, broken bool) {
	if broken {
		w.rec.Add(tracecheck.Event{Kind: tracecheck.Closed, Stream: c.s.id})
		c.s.told = true
		c.s.cancel()
	} else if err := c.s.raw.CloseSend(); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
	c.s = nil
}

// pick takes some of what a client holds.
func (w *world) pick(c *client) []held {
	if c.s == nil || len(c.s.held) == 0 {
		return nil
	}
	h := c.s.held
	w.rnd.Shuffle(len(h), func(i, j int) { h[i], h[j] = h[j], h[i] })
	n := 1 + w.rnd.IntN(len(h))
	picked := append([]held(nil), h[:n]...)
	c.s.held = append([]held(nil), h[n:]...)
	return picked
}

// answer acks some of what a client holds, or gives it back.
func (w *world) answer(c *client, as pb.AckResult_Status) {
	picked := w.pick(c)
	if len(picked) == 0 {
		return
	}
	var ids []uint64
	kind := tracecheck.Ack
	if as == pb.AckResult_STATUS_RETRY {
		kind = tracecheck.Nack
	}
	for _, h := range picked {
		h.nacked = kind == tracecheck.Nack
		if !h.nacked {
			w.acked[c.subscriber()][h.event]++
		}
		c.s.asked[h.id] = h
		ids = append(ids, h.id)
		w.rec.Add(tracecheck.Event{Kind: kind, Stream: c.s.id, Delivery: h.id})
	}
	if kind == tracecheck.Nack {
		w.send(c, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: ids, Delay: durationpb.New(time.Duration(w.rnd.IntN(3)) * time.Second)}}})
		return
	}
	w.send(c, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: &pb.Ack{DeliveryIds: ids}}})
}

func (w *world) extend(c *client) {
	if c.s == nil || len(c.s.held) == 0 {
		return
	}
	h := c.s.held[w.rnd.IntN(len(c.s.held))]
	w.send(c, &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{DeliveryIds: []uint64{h.id}, By: durationpb.New(4 * time.Second)}}})
}

// reset moves the subscriber of a client anywhere.
func (w *world) reset(c *client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := w.admin.ResetOffset(ctx, &pb.ResetOffsetRequest{
		Topic: "t", Subscriber: c.subscriber(), To: &pb.Start{Place: &pb.Start_Offset{Offset: w.rnd.Int64N(int64(w.next) + 1)}},
	})
	if err != nil {
		w.t.Fatalf("seed %d: reset: %v", w.seed, err)
	}
	clear(w.done[c.subscriber()])
	delete(w.sent, c.subscriber())
}

// restart stops the instance in order and starts another.
func (w *world) restart() {
	w.settle()
	w.rec.Add(tracecheck.Event{Kind: tracecheck.Down, Status: tracecheck.Stopped})
	w.in.Stop()
	w.start() // what died while the old one stopped is read from the new one
	w.settle()
	for _, c := range w.clients {
		if c.s != nil {
			c.s.cancel()
			c.s = nil
		}
	}
	w.rec.Add(tracecheck.Event{Kind: tracecheck.Up})
}

// ended records that a client's stream has ended, and looks at its window else.
func (w *world) ended(c *client) {
	s := c.s
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if !ended {
		w.windowHolds(c)
		return
	}
	if !s.told {
		s.told = true
		w.rec.Add(tracecheck.Event{Kind: tracecheck.Closed, Stream: s.id})
	}
	c.s = nil
}

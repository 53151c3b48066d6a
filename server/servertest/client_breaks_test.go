package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// TestClientOverBreaks: a Go client publishes and handles while its connections are cut,
// its server is restarted, and the log loses answers. Every event is stored once and handled, none comes again
// after its ack was confirmed, and the events of a key are handled one at a time and in
// order.
func TestClientOverBreaks(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newRough(t, seed).run() })
		})
	}
}

// So many events, and so few breaks that no record can use up its attempts.
const (
	roughEvents = 300
	roughBreaks = 4
)

// rough is a run of a client through breaks.
type rough struct {
	t     *testing.T
	o     Options
	cable *socket
	c     *ackmesh.Client

	mu        sync.Mutex
	rand      *rand.Rand
	stored    map[string]place // by event id, as Publish told
	seen      map[string]place // by event id, as it came
	confirmed map[place]bool
	lost      map[place]bool // acks without an answer when a stream broke
	inKey     map[string]int // handlers at work
	lastOf    map[string]int // the highest number handled
}

type place struct {
	partition string
	offset    int64
}

func newRough(t *testing.T, seed uint64) *rough {
	log := storagefault.New(Log(t, 3))
	r := &rough{
		t: t, o: Options{Backend: log, Store: Store(t)}, rand: rand.New(rand.NewPCG(seed, 1)),
		stored: make(map[string]place), seen: make(map[string]place), confirmed: make(map[place]bool),
		lost:  make(map[place]bool),
		inKey: make(map[string]int), lastOf: make(map[string]int),
	}
	log.Inject(storagefault.Fault{
		Op: storagefault.Done, Err: storage.ErrUnknown, Match: func(storagefault.Call) bool { return r.upTo(5) == 0 },
	})
	r.cable = &socket{in: Start(t, r.o)}
	c, err := ackmesh.New(ackmesh.Config{
		Addresses: []string{"passthrough:///instance"}, ClientID: "c1", Direct: true, Keepalive: -1,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(r.cable.dial)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.c = c
	return r
}

// upTo is a time by chance.
func (r *rough) upTo(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rand.Int64N(int64(d)))
}

func (r *rough) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended, published := make(chan error, 1), make(chan struct{})
	go func() { ended <- r.c.Subscribe(ctx, r.config(), r.handle) }()
	go func() { defer close(published); r.publish() }()
	for range roughBreaks {
		<-time.After(r.upTo(800 * time.Millisecond))
		if r.upTo(3) > 0 {
			r.cable.cut()
			continue
		}
		r.cable.plug(nil).Stop()
		<-time.After(r.upTo(300 * time.Millisecond))
		r.cable.plug(Start(r.t, r.o))
	}
	<-published
	r.settle()
	cancel()
	if err := errors.Join(<-ended, r.c.Close()); err != nil {
		r.t.Error(err)
	}
	r.cable.plug(nil).Stop()
}

func (r *rough) config() ackmesh.SubscribeConfig {
	return ackmesh.SubscribeConfig{
		Topics: []string{"orders"}, Mode: ackmesh.LoadBalance, Share: "s", Ordered: true, Start: ackmesh.Earliest(), Concurrency: 6,
		OnConfirm: func(ref ackmesh.Ref, err error) {
			if err == nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.confirmed[place{ref.Partition, ref.Offset}] = true
			}
		},
		OnUnconfirmed: func(refs []ackmesh.Ref) { // these may be on disk all the same
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, ref := range refs {
				r.lost[place{ref.Partition, ref.Offset}] = true
			}
		},
	}
}

// publish publishes events, those of a key numbered from 1.
func (r *rough) publish() {
	numbers := make(map[string]int)
	for range roughEvents {
		key := fmt.Sprint(int(r.upTo(10)))
		numbers[key]++
		e := ackmesh.NewEvent("t", nil).SetPartitionKey(key).Set("number", strconv.Itoa(numbers[key]))
		err := r.c.PublishAsync(context.Background(), "orders", e, func(res ackmesh.Result) {
			if res.Err != nil {
				r.t.Error(res.Err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stored[res.ID] = place{res.Partition, res.Offset}
		})
		if err != nil {
			r.t.Error(err)
		}
		<-time.After(r.upTo(10 * time.Millisecond))
	}
	if err := r.c.Flush(context.Background()); err != nil || len(r.stored) != roughEvents {
		r.t.Errorf("%d of %d stored: %v", len(r.stored), roughEvents, err)
	}
}

// handle takes its time, and fails now and then, at the first attempt.
func (r *rough) handle(_ context.Context, d *ackmesh.Delivery) error {
	key, _ := d.Attr(ackmesh.AttrPartitionKey)
	r.begin(d, key)
	<-time.After(r.upTo(150 * time.Millisecond))
	failed := d.Attempt() == 1 && r.upTo(100) < 3
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inKey[key]--
	if failed {
		return ackmesh.RetryAfter(50*time.Millisecond, errors.New("on purpose"))
	}
	text, _ := d.Attr("number")
	number, _ := strconv.Atoi(text)
	if number > r.lastOf[key]+1 {
		r.t.Errorf("key %s: %d is handled after %d", key, number, r.lastOf[key])
	}
	if !d.Ended() { // else it comes again
		r.lastOf[key] = max(r.lastOf[key], number)
	}
	return nil
}

func (r *rough) begin(d *ackmesh.Delivery, key string) {
	id, _ := d.Attr(ackmesh.AttrID)
	at := place{d.Partition(), d.Offset()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, again := r.seen[id]; again && was != at {
		r.t.Errorf("event %s stands at %v and at %v", id, was, at)
	}
	r.seen[id] = at
	if r.confirmed[at] && !d.Ended() {
		r.t.Errorf("%v comes again after its ack was confirmed", at)
	}
	if r.inKey[key]++; r.inKey[key] > 1 {
		r.t.Errorf("two handlers work on key %s", key)
	}
}

// settle waits until everything is finished, and compares.
func (r *rough) settle() {
	for range 600 {
		<-time.After(time.Second)
		if r.finished() == roughEvents {
			break
		}
	}
	if n := r.finished(); n != roughEvents {
		r.t.Errorf("%d of %d are finished", n, roughEvents)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.stored {
		if r.seen[id] != at || !r.confirmed[at] && !r.lost[at] {
			r.t.Errorf("event %s at %v: handled at %v, confirmed: %v", id, at, r.seen[id], r.confirmed[at])
		}
	}
}

// finished is how many events the server knows as finished.
func (r *rough) finished() (n int64) {
	answer, err := r.cable.in.Admin().GetOffsets(context.Background(), &pb.GetOffsetsRequest{Topic: "orders"})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range answer.GetOffsets() {
		n += o.GetPosition()
	}
	return n
}

// socket leads to the instance that is plugged in.
type socket struct {
	mu    sync.Mutex
	in    *Instance
	conns []net.Conn
}

func (c *socket) dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == nil {
		return nil, errors.New("nobody is there")
	}
	conn, err := c.in.Dialer()(ctx, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// cut breaks every connection.
func (c *socket) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// plug plugs an instance in, nil for none, and returns the one before.
func (c *socket) plug(in *Instance) *Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.in
	c.in = in
	return before
}

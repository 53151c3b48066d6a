package traffic

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// Run is the traffic of one test.
type Run struct {
	t    testing.TB
	Rec  *tracecheck.Recorder
	Gate *Gate
	seed uint64
	dial func() *grpc.ClientConn

	state    *state
	nextID   atomic.Uint64
	clients  sync.WaitGroup
	draining chan struct{} // closed: nothing is held back any more
	drain    sync.Once
	cancel   context.CancelFunc
	ctx      context.Context
}

// New begins a run against what dial connects to. The seed decides what the
// clients do, though not when. maxAttempts is what the server allows.
func New(t testing.TB, seed uint64, maxAttempts int32, dial func() *grpc.ClientConn) *Run {
	r := &Run{
		t: t, Rec: tracecheck.NewRecorder(maxAttempts), Gate: NewGate(), seed: seed, dial: dial,
		state: newState(), draining: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	t.Cleanup(r.Stop)
	return r
}

// rand is the source of one client's choices.
func (r *Run) rand(client string) *rand.Rand {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], r.seed)
	copy(key[8:], client)
	return rand.New(rand.NewChaCha8(key))
}

// Await waits until cond holds for what is under way.
func (r *Run) Await(ctx context.Context, cond func(Counts) bool) error {
	return r.state.await(ctx, func() bool { return cond(r.state.counts) })
}

// AwaitOrStuck is Await that fails when nothing at all has happened for
// patience: a busy machine makes a test slow, not wrong.
func (r *Run) AwaitOrStuck(ctx context.Context, patience time.Duration, cond func(Counts) bool) error {
	for {
		before := r.Rec.Len()
		some, cancel := context.WithTimeout(ctx, patience)
		err := r.Await(some, cond)
		cancel()
		if err == nil || ctx.Err() != nil || r.Rec.Len() == before {
			return err
		}
	}
}

// Counts is what is under way now.
func (r *Run) Counts() Counts {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	return r.state.counts
}

// Down is to be called before the instance is ended.
func (r *Run) Down(how tracecheck.How) {
	r.Gate.Shut()
	r.Rec.Add(tracecheck.Event{Kind: tracecheck.Down, Status: how})
}

// AwaitClosed waits until all streams have ended: the next life begins after
// the last word of the one before.
func (r *Run) AwaitClosed(ctx context.Context) error {
	return r.Await(ctx, func(c Counts) bool { return c.Streams == 0 })
}

// Up is to be called when the instance serves.
func (r *Run) Up() {
	r.Rec.Add(tracecheck.Event{Kind: tracecheck.Up})
	r.Gate.Open()
}

// Drain makes subscribers ack all that they hold back.
func (r *Run) Drain() { r.drain.Do(func() { close(r.draining) }) }

func (r *Run) isDraining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// Stop ends all clients and waits for them.
func (r *Run) Stop() {
	r.cancel()
	r.clients.Wait()
}

// partition is a partition's name in the trace.
func partition(topic, name string) string { return topic + "/" + name }

// event makes the event of a number. Its id, with the source, makes the mesh
// know it again.
func event(id uint64, key string) *pb.EventMeshFrame {
	attrs := map[string]string{"id": strconv.FormatUint(id, 10), "source": "/traffic", "type": "number"}
	if key != "" {
		attrs["partitionkey"] = key
	}
	return &pb.EventMeshFrame{Attributes: attrs, Data: data(id)}
}

// data is the payload of a number: between 0 and 199 bytes that no other has.
func data(id uint64) []byte {
	line := strconv.AppendUint([]byte("event "), id, 10)
	b := make([]byte, 0, 256)
	for n := int(id*7919%200) + len(line); len(b) < n; {
		b = append(b, line...)
	}
	return b
}

// number reads the number of an event, and sees that it is whole.
func number(f *pb.EventMeshFrame) (uint64, error) {
	id, err := strconv.ParseUint(f.GetAttributes()["id"], 10, 63)
	if err != nil {
		return 0, err
	}
	if string(f.GetData()) != string(data(id)) {
		return 0, fmt.Errorf("the data of event %d is damaged: %q", id, f.GetData())
	}
	return id, nil
}

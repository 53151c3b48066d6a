package dispatch

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	memstore "github.com/ackmesh/ackmesh/offsetstore/memory"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// rig is a dispatcher on a log and a store in memory.
type rig struct {
	t     *testing.T
	log   *memory.Backend
	store *memstore.Store
	d     *Dispatcher
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{t: t, log: memory.New(memory.Options{Partitions: 1}), store: memstore.New()}
	var err error
	if r.d, err = New(context.Background(), cfg, r.log, r.store); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.d.Close()
		_ = r.log.Close()
		_ = r.store.Close()
	})
	return r
}

// sinkFunc takes the messages of a stream.
type sinkFunc func(mem.BufferSlice) error

func (f sinkFunc) Send(msg mem.BufferSlice) error { return f(msg) }

// open opens a stream of a broadcast client on topic t. It is ended with the test.
func (r *rig) open(client string, sink Sink) *Stream { return r.openLimited(client, 4<<20, sink) }

// openLimited is open for a client that takes messages of at most so many bytes.
func (r *rig) openLimited(client string, most int, sink Sink) *Stream {
	r.t.Helper()
	return r.openAs(client, Settings{Mode: Broadcast}, most, sink)
}

// openAs is openLimited of a subscriber with such settings.
func (r *rig) openAs(client string, settings Settings, most int, sink Sink) *Stream {
	r.t.Helper()
	s, err := r.d.NewStream(StreamConfig{ClientID: client, MaxInFlight: 1000, MaxBytes: 1 << 24, MaxMessage: most})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Start(sink, func(error) {})
	r.t.Cleanup(func() {
		r.d.End(s, false, 0, nil)
		<-s.Done()
		r.d.Forget(s)
	})
	sub, err := r.d.Subscribe(context.Background(), s, Subscription{
		ID: 1, Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client},
		Settings: settings, MaxInFlight: -1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.d.Activate(sub)
	return s
}

// publish appends n records to topic t.
func (r *rig) publish(n int) {
	r.t.Helper()
	var events []storage.Event
	for i := range n {
		raw, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Data: fmt.Append(nil, i)})
		if err != nil {
			r.t.Fatal(err)
		}
		events = append(events, storage.Event{Frame: raw})
	}
	if _, err := storage.AppendWait(context.Background(), r.log, "t", events); err != nil {
		r.t.Fatal(err)
	}
}

// loop is the loop of the one partition of topic t.
func (r *rig) loop() *loop {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	return r.d.topics["t"].loops[0]
}

// Package dispatch is the I/O around the delivery machine: a loop for each
// partition that reads the log and owns the machines of all its subscribers,
// and a writer for each stream. Nothing here blocks another partition, another
// stream or the reading of acks.
//
// Locks: Dispatcher.mu, Stream.mu, idSource.mu and loop.mu are taken in this
// order or alone, and none is held over a call that blocks. The locks of single
// subscribers (subscriberLocks) are held over what opens, resets or deletes one.
package dispatch

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// Config of a Dispatcher. Zero values mean the default.
type Config struct {
	// InstanceID and InstanceURL are told in Opened.
	InstanceID, InstanceURL string
	// Delivery bounds retries; Ordered is each subscriber's own.
	Delivery delivery.Settings
	// WindowBytes bounds the records of one partition held in memory for its
	// subscribers. Default 4 MiB.
	WindowBytes int
	// Readers is how many reads behind the window go on at once. Default 8.
	Readers int
	// Refresh is how often topics are looked at for new partitions. Default 5 s.
	Refresh time.Duration
	// CorrectionWait is how long a position above the log's maximum is left
	// alone. Default 30 s.
	CorrectionWait time.Duration
	// MemoryLimit bounds the bytes of records and encoded deliveries that are
	// held in memory. Default 1 GiB.
	MemoryLimit int64
	// StallTimeout is how long a client may neither read nor answer while it
	// is sent deliveries. Default 5 min.
	StallTimeout time.Duration
	// Expiry is how long a subscriber without a stream is kept. Default 14 days.
	Expiry time.Duration
	// Invisible is for how long a log that hands records out (storage.Popper)
	// keeps them from others at a time; they are renewed in time. 10 s to 12 h,
	// default 30 s.
	Invisible time.Duration
	// Pace bounds how fast deliveries are made; nil: nothing does.
	Pace Pace
	// GoTo says where a client should go that cannot stay here; nil, and not
	// ok: nowhere in particular.
	GoTo func(clientID string) (at Instance, ok bool)
	// EncodeNotice writes a whole SubscribeResponse with a Notice.
	EncodeNotice func(Notice) []byte
	// Tracer follows deliveries. Default: nobody does, at no cost.
	Tracer Tracer
	// Logger: nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.WindowBytes == 0 {
		c.WindowBytes = 4 << 20
	}
	if c.Readers == 0 {
		c.Readers = 8
	}
	if c.Refresh == 0 {
		c.Refresh = 5 * time.Second
	}
	if c.CorrectionWait == 0 {
		c.CorrectionWait = 30 * time.Second
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = 1 << 30
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = 5 * time.Minute
	}
	if c.Expiry == 0 {
		c.Expiry = 14 * 24 * time.Hour
	}
	if c.Invisible == 0 {
		c.Invisible = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Dispatcher delivers the records of a log to streams. Its methods may be
// called concurrently.
type Dispatcher struct {
	cfg     Config
	backend storage.Backend
	store   offsetstore.Store
	ids     *idSource
	pop     *popLog       // nil: the log is read by position
	lites   storage.Liter // nil: the log has no lite topics
	Metrics *Metrics
	counts  countTable

	nextStream atomic.Uint64
	squeezed   atomic.Int64 // when all partitions were last asked for memory, ns since start
	start      time.Time
	batches    sync.Pool
	readers    readerPool // of what is behind the partitions' windows
	diggers    readerPool // write dead letters
	locks      subscriberLocks
	turns      turns
	look       chan struct{}
	forgetting chan struct{} // held by who takes letters off the ledger
	stopCtx    context.Context
	stopFn     context.CancelFunc
	wg         sync.WaitGroup

	mu       sync.Mutex
	topics   map[string]*topic
	streams  map[delivery.StreamID]*Stream
	owners   map[ownerKey]*binding
	draining bool
	rnd      *rand.Rand
}

// ownerKey names a client's place in a subscriber: one stream of the client at
// a time has it. lite is the lite topic; empty: the whole topic.
type ownerKey struct {
	topic  string
	sub    offsetstore.Subscriber
	client string
	lite   string
}

// New makes a Dispatcher over an open log and an open store, which stay the
// caller's. It reserves delivery ids on disk.
func New(ctx context.Context, cfg Config, backend storage.Backend, store offsetstore.Store) (*Dispatcher, error) {
	d := &Dispatcher{
		cfg: cfg.withDefaults(), backend: backend, store: store, Metrics: &Metrics{},
		topics: map[string]*topic{}, streams: map[delivery.StreamID]*Stream{}, owners: map[ownerKey]*binding{},
		look: make(chan struct{}, 1), forgetting: make(chan struct{}, 1), start: time.Now(),
		rnd: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	var err error
	if d.pop, err = popLogOf(backend); err != nil {
		return nil, err
	}
	d.lites, _ = storage.As[storage.Liter](backend)
	if d.ids, err = openIDs(ctx, store, d.rnd, d.idsReserved); err != nil {
		return nil, err
	}
	d.stopCtx, d.stopFn = context.WithCancel(context.Background())
	d.readers.start(d.cfg.Readers)
	d.diggers.start(d.cfg.Readers)
	d.wg.Add(2)
	go d.refresh()
	go d.sweep()
	return d, nil
}

func (d *Dispatcher) warn(msg string, args ...any) { d.cfg.Logger.Warn(msg, args...) }

// idsReserved wakes who waits for delivery ids.
func (d *Dispatcher) idsReserved(err error) {
	if err != nil {
		d.warn("delivery ids could not be reserved", "error", err)
		d.lookAgain() // which has them reserved again
		return
	}
	for _, s := range d.allStreams() {
		s.mu.Lock()
		starved := s.takeStarved()
		s.mu.Unlock()
		s.wakeAll(starved, nil)
	}
}

// blocked tells whether deliveries pause because acks could not be stored.
func (d *Dispatcher) blocked() bool { return d.store.Healthy() != nil }

// lookAgain gives all partitions another look, soon.
func (d *Dispatcher) lookAgain() {
	for _, l := range d.allLoops() {
		l.post(event{kind: evCall, call: func() {
			for _, p := range l.parts {
				l.lookAgain(p, time.Now())
			}
		}})
	}
}

// Unblocked wakes all deliveries after the store or the disk has healed.
func (d *Dispatcher) Unblocked() {
	for _, l := range d.allLoops() {
		l.post(event{kind: evCall, call: func() {
			for _, p := range l.parts {
				l.enlist(p)
				l.touch(p)
			}
		}})
	}
}

// allLoops lists the loops of all topics in use.
func (d *Dispatcher) allLoops() []*loop {
	d.mu.Lock()
	topics := make([]*topic, 0, len(d.topics))
	for _, t := range d.topics {
		topics = append(topics, t)
	}
	d.mu.Unlock()
	var list []*loop
	for _, t := range topics {
		list = append(list, t.allLoops()...)
	}
	return list
}

func (d *Dispatcher) streamByID(id delivery.StreamID) *Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.streams[id]
}

func (d *Dispatcher) allStreams() []*Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*Stream, 0, len(d.streams))
	for _, s := range d.streams {
		list = append(list, s)
	}
	return list
}

func (d *Dispatcher) newBatch() *storage.Batch {
	if b, ok := d.batches.Get().(*storage.Batch); ok {
		return b
	}
	return &storage.Batch{}
}

func (d *Dispatcher) freeBatch(b *storage.Batch) {
	if cap(b.Buf) > 4*pollBytes {
		return
	}
	b.Reset()
	d.batches.Put(b)
}

func (d *Dispatcher) freeChunk(c *chunk) {
	d.Metrics.WindowBytes.Add(-int64(c.size()))
	c.wire.free()
	d.freeBatch(c.batch)
}

func (d *Dispatcher) newRand() *rand.Rand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return rand.New(rand.NewPCG(d.rnd.Uint64(), d.rnd.Uint64()))
}

// Close ends everything that Drain has left, and waits for all goroutines. The
// streams' connections must be closed before.
func (d *Dispatcher) Close() {
	d.stopFn()
	d.readers.cancel() // what they are told to do from here on fails at once
	d.diggers.cancel()
	d.wg.Wait()
	d.readers.stop()
	d.diggers.stop()
}

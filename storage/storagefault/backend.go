package storagefault

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/storage"
)

// Backend is a log with faults. All methods may be called concurrently.
type Backend struct {
	inner  storage.Backend
	next   storage.Backend // the capabilities of inner, then inner
	counts map[Op]*atomic.Int64
	hooks  atomic.Pointer[Hooks]

	mu     sync.Mutex // guards changes of faults
	faults atomic.Pointer[[]*Injected]

	closing chan struct{} // closed by Close
	once    sync.Once
	late    sync.WaitGroup // reports that wait
}

var _ storage.Backend = (*Backend)(nil)

// New wraps inner. Close closes inner as well.
func New(inner storage.Backend) *Backend {
	b := &Backend{inner: inner, counts: map[Op]*atomic.Int64{}, closing: make(chan struct{})}
	for _, op := range []Op{
		Append, Done, Poll, Cursor, Seek, Topic, EnsureTopic, Topics, Close,
		Bounds, OffsetByTime, CreateTopic, DeleteTopic, Ack, Fingerprint, Trim, Checkpoint,
	} {
		b.counts[op] = new(atomic.Int64)
	}
	b.next = b.capabilities()
	return b
}

// Hooks are called around every Append. They must not block. nil: not called.
type Hooks struct {
	// BeforeAppend is called before the log has the events.
	BeforeAppend func(topic string, events []storage.Event)
	// BeforeDone is called when the log reports, before the caller and before
	// any fault of Done.
	BeforeDone func(topic string, results []storage.Appended, err error)
	// AfterDone is called when the caller's done has returned; err is what
	// the caller was told.
	AfterDone func(topic string, results []storage.Appended, err error)
}

// SetHooks replaces the hooks, at any time.
func (b *Backend) SetHooks(h Hooks) { b.hooks.Store(&h) }

// Count is how many calls of an operation there were.
func (b *Backend) Count(op Op) int64 { return b.counts[op].Load() }

// Unwrap leads to the capabilities of what is wrapped, with their faults.
func (b *Backend) Unwrap() storage.Backend { return b.next }

// Name is that of what is wrapped.
func (b *Backend) Name() string { return b.inner.Name() }

// Append appends, with the faults of Append now and those of Done later.
func (b *Backend) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	// An error after the events were stored would break the promise that
	// nothing is, so every fault comes first.
	if err := b.suffer(ctx, b.choose(Call{Op: Append, Topic: topic})); err != nil {
		return err
	}
	hooks := b.hooks.Load()
	if hooks != nil && hooks.BeforeAppend != nil {
		hooks.BeforeAppend(topic, events)
	}
	return b.inner.Append(ctx, topic, events, func(results []storage.Appended, err error) {
		b.report(hooks, topic, results, err, done)
	})
}

// report passes a report on, through the faults of Done.
func (b *Backend) report(hooks *Hooks, topic string, results []storage.Appended, err error, done storage.AppendDone) {
	if hooks != nil && hooks.BeforeDone != nil {
		hooks.BeforeDone(topic, results, err)
	}
	tell := func(results []storage.Appended, err error) {
		done(results, err)
		if hooks != nil && hooks.AfterDone != nil {
			hooks.AfterDone(topic, results, err)
		}
	}
	met := b.choose(Call{Op: Done, Topic: topic})
	if met == nil {
		tell(results, err)
		return
	}
	if fault := errOf(met); fault != nil {
		results, err = nil, fault
	}
	// The log's goroutine must not wait, so another one does.
	b.late.Go(func() {
		_ = b.wait(context.Background(), met) // however it ends, the report is due
		tell(results, err)
	})
}

// Poll reads, with the faults of Poll.
func (b *Backend) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	call := Call{Op: Poll, Topic: req.Topic, Partition: req.Partition, Start: req.Start}
	err := b.through(ctx, call, func() error { return b.inner.Poll(ctx, req, batch) })
	if err != nil {
		batch.Reset()
	}
	return err
}

// Cursor is the pull offset; with a fault that has an error it is unknown.
// Delays and hangs do not apply.
func (b *Backend) Cursor(topic, partition string) (next int64, ok bool) {
	if errOf(b.choose(Call{Op: Cursor, Topic: topic, Partition: partition})) != nil {
		return 0, false
	}
	return b.inner.Cursor(topic, partition)
}

// Seek sets the pull offset, with the faults of Seek.
func (b *Backend) Seek(ctx context.Context, topic, partition string, next int64) error {
	call := Call{Op: Seek, Topic: topic, Partition: partition}
	return b.through(ctx, call, func() error { return b.inner.Seek(ctx, topic, partition, next) })
}

// Topic describes a topic, with the faults of Topic.
func (b *Backend) Topic(ctx context.Context, topic string) (t storage.Topic, err error) {
	err = b.through(ctx, Call{Op: Topic, Topic: topic}, func() (err error) {
		t, err = b.inner.Topic(ctx, topic)
		return err
	})
	return t, err
}

// EnsureTopic describes or makes a topic, with the faults of EnsureTopic.
func (b *Backend) EnsureTopic(ctx context.Context, topic string) (t storage.Topic, err error) {
	err = b.through(ctx, Call{Op: EnsureTopic, Topic: topic}, func() (err error) {
		t, err = b.inner.EnsureTopic(ctx, topic)
		return err
	})
	return t, err
}

// Topics describes all topics, with the faults of Topics.
func (b *Backend) Topics(ctx context.Context) (list []storage.Topic, err error) {
	err = b.through(ctx, Call{Op: Topics}, func() (err error) {
		list, err = b.inner.Topics(ctx)
		return err
	})
	return list, err
}

// Close ends what hangs, closes what is wrapped and waits for reports that
// wait. A fault with an error is returned after all is closed. A second Close
// waits for the first and returns nil.
func (b *Backend) Close() (err error) {
	b.once.Do(func() {
		met := b.choose(Call{Op: Close})
		_ = b.wait(context.Background(), met) // ends by Release or Remove only
		close(b.closing)
		err = b.inner.Close()
		b.late.Wait()
		if err == nil {
			err = errOf(met)
		}
	})
	return err
}

package fakepop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// Backend is a client of a Broker: a storage.Backend that is a Popper, an
// Acker and a GroupAdmin, and has what the memory log has. Without hides what
// a set-up may lack.
type Backend struct {
	br *Broker

	mu     sync.Mutex
	closed bool
	cut    bool
	calls  sync.WaitGroup
	done   chan struct{} // closed by Close
}

var (
	_ storage.Backend       = (*Backend)(nil)
	_ storage.Popper        = (*Backend)(nil)
	_ storage.Acker         = (*Backend)(nil)
	_ storage.GroupAdmin    = (*Backend)(nil)
	_ storage.Bounder       = (*Backend)(nil)
	_ storage.TopicAdmin    = (*Backend)(nil)
	_ storage.Trimmer       = (*Backend)(nil)
	_ storage.Fingerprinter = (*Backend)(nil)
	_ storage.Checkpointer  = (*Backend)(nil)
)

// Name is "fakepop".
func (b *Backend) Name() string { return "fakepop" }

// Broker is what b is a client of.
func (b *Backend) Broker() *Broker { return b.br }

// Close ends what is under way and waits for it. What was popped stays
// invisible until its time is over. A second Close returns nil.
func (b *Backend) Close() error {
	if !b.stop() {
		return nil
	}
	if err := b.br.current().Checkpoint(context.Background()); !errors.Is(err, storage.ErrClosed) {
		return err
	}
	return nil // the broker was closed first
}

// stop refuses new calls, ends those that wait and waits for them. It tells
// whether it was the first.
func (b *Backend) stop() bool {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	if first {
		close(b.done)
	}
	b.mu.Unlock()
	b.calls.Wait()
	return first
}

// Reopen closes b and connects anew, as a process does that is restarted.
func (b *Backend) Reopen() *Backend {
	_ = b.Close() // always nil: the log is open
	return b.br.Open()
}

// Crash ends b without saving anything and connects anew, as a process does
// that is killed. The pull offsets of all clients are those saved last, so it
// is for a Broker with one client.
func (b *Backend) Crash() *Backend {
	b.stop()
	b.br.mu.Lock()
	b.br.log = b.br.log.Crash()
	b.br.mu.Unlock()
	return b.br.Open()
}

// Cut makes every call of b from now on fail with ErrUnavailable, those that
// wait too: nothing of this client reaches the broker any more, as when its
// process has died.
func (b *Backend) Cut() {
	b.mu.Lock()
	b.cut = true
	b.mu.Unlock()
	b.br.Wake()
}

// enter begins a call; where it returns nil, leave must follow.
func (b *Backend) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("fakepop: %w", storage.ErrClosed)
	}
	if b.cut {
		return fmt.Errorf("fakepop: the client is cut off: %w", storage.ErrUnavailable)
	}
	b.calls.Add(1)
	return nil
}

func (b *Backend) leave() { b.calls.Done() }

// with calls f with the log unless b is closed.
func (b *Backend) with(f func(l *memory.Backend) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	return f(b.br.current())
}

// Append appends to the memory log and wakes Pops that wait.
func (b *Backend) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	return b.with(func(l *memory.Backend) error {
		err := l.Append(ctx, topic, events, done)
		if err == nil {
			b.br.Wake()
		}
		return err
	})
}

// Poll reads by position.
func (b *Backend) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	return b.with(func(l *memory.Backend) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-b.done:
				cancel(fmt.Errorf("fakepop: %w", storage.ErrClosed))
			case <-ended:
			}
		}()
		err := l.Poll(ctx, req, batch)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	})
}

// Cursor is the pull offset of a partition.
func (b *Backend) Cursor(topic, partition string) (next int64, ok bool) {
	err := b.with(func(l *memory.Backend) error {
		next, ok = l.Cursor(topic, partition)
		return nil
	})
	return next, ok && err == nil
}

// Seek sets the pull offset.
func (b *Backend) Seek(ctx context.Context, topic, partition string, next int64) error {
	return b.with(func(l *memory.Backend) error { return l.Seek(ctx, topic, partition, next) })
}

// Topic describes a topic.
func (b *Backend) Topic(ctx context.Context, topic string) (t storage.Topic, err error) {
	err = b.with(func(l *memory.Backend) (err error) { t, err = l.Topic(ctx, topic); return err })
	return t, err
}

// EnsureTopic describes a topic and makes it first where it is missing.
func (b *Backend) EnsureTopic(ctx context.Context, topic string) (t storage.Topic, err error) {
	err = b.with(func(l *memory.Backend) (err error) { t, err = l.EnsureTopic(ctx, topic); return err })
	return t, err
}

// Topics describes all topics, in order of name.
func (b *Backend) Topics(ctx context.Context) (list []storage.Topic, err error) {
	err = b.with(func(l *memory.Backend) (err error) { list, err = l.Topics(ctx); return err })
	return list, err
}

// CreateTopic makes a topic.
func (b *Backend) CreateTopic(ctx context.Context, topic string, cfg storage.TopicConfig) (t storage.Topic, err error) {
	err = b.with(func(l *memory.Backend) (err error) { t, err = l.CreateTopic(ctx, topic, cfg); return err })
	return t, err
}

// DeleteTopic removes a topic.
func (b *Backend) DeleteTopic(ctx context.Context, topic string) error {
	return b.with(func(l *memory.Backend) error { return l.DeleteTopic(ctx, topic) })
}

// AddPartitions makes a topic have n partitions, as an operator does.
func (b *Backend) AddPartitions(topic string, n int) error {
	return b.with(func(l *memory.Backend) error { return l.AddPartitions(topic, n) })
}

// Bounds returns the bounds of a partition.
func (b *Backend) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	err = b.with(func(l *memory.Backend) (err error) { low, high, err = l.Bounds(ctx, topic, partition); return err })
	return low, high, err
}

// OffsetByTime finds the offset that a time of append means.
func (b *Backend) OffsetByTime(ctx context.Context, topic, partition string, at time.Time, m storage.TimeMatch) (off int64, err error) {
	err = b.with(func(l *memory.Backend) (err error) {
		off, err = l.OffsetByTime(ctx, topic, partition, at, m)
		return err
	})
	return off, err
}

// Trim moves a partition's minimum up.
func (b *Backend) Trim(ctx context.Context, topic, partition string, before int64) error {
	return b.with(func(l *memory.Backend) error { return l.Trim(ctx, topic, partition, before) })
}

// Fingerprint is that of the record before an offset.
func (b *Backend) Fingerprint(ctx context.Context, topic, partition string, next int64) (f storage.Fingerprint, ok bool, err error) {
	err = b.with(func(l *memory.Backend) (err error) {
		f, ok, err = l.Fingerprint(ctx, topic, partition, next)
		return err
	})
	return f, ok, err
}

// Checkpoint saves the pull offsets.
func (b *Backend) Checkpoint(ctx context.Context) error {
	return b.with(func(l *memory.Backend) error { return l.Checkpoint(ctx) })
}

// Bare is b as a broker has it whose groups cannot be placed or moved, and
// whose bounds are not known: a RocketMQ 5 that is reached through its proxy
// only. It does not close b.
func (b *Backend) Bare() storage.Backend { return bare{bareBackend{b}, b, b} }

// bareBackend has no method but those of storage.Backend.
type bareBackend struct{ storage.Backend }

// bare is a backend that pops and acks.
type bare struct {
	bareBackend
	pops barePopper
	acks storage.Acker
}

type barePopper interface{ storage.Popper }

// OpenGroup makes a group that begins at the end of each partition, and
// refuses an explicit start for a new one.
func (n bare) OpenGroup(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
	b := n.pops.(*Backend)
	if spec.Start.At != storage.GroupDefault && !b.br.hasGroup(spec) {
		return storage.Group{}, fmt.Errorf("fakepop: a new group cannot be placed without its remoting port: %w", storage.ErrUnsupported)
	}
	spec.Start = storage.GroupStart{}
	g, err := n.pops.OpenGroup(ctx, spec)
	if g.Created {
		g.StartOpen, g.Note = true, "the broker decides where a new group begins: open its remoting port"
	}
	return g, err
}

func (n bare) Pop(ctx context.Context, req storage.PopRequest, batch *storage.Batch) error {
	return n.pops.Pop(ctx, req, batch)
}

func (n bare) Renew(ctx context.Context, handles []any, invisible time.Duration) ([]storage.Renewed, error) {
	return n.pops.Renew(ctx, handles, invisible)
}

func (n bare) Release(ctx context.Context, handles []any) error { return n.pops.Release(ctx, handles) }

func (n bare) Ack(ctx context.Context, handles []any) ([]bool, error) {
	return n.acks.Ack(ctx, handles)
}

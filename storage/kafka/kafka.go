// Package kafka is a log on Apache Kafka, read by position only: no consumer
// group, nothing committed at the broker, no trace of a reader there.
//
// Reading asks the leader of a partition for what follows an offset, on a
// connection that nobody else uses meanwhile. So readers do not hold up one
// another, a call ends when its context does (the connection is cut), and each
// answer tells all there is to know: the bounds, the leader epoch, the offsets
// that hold no record. Connections are opened, and logged in on, by sarama; what
// fetches bring is read by code of this package, into memory that batches then
// keep. Fetches name the topic by its identity, so that a topic that was deleted
// and made again is noticed before its records are taken for those of the old
// one; a broker before Kafka 3.1 is asked for the identity after each fetch that
// brought records.
//
// Writing goes through one idempotent AsyncProducer with acks from all
// replicas in sync. Each partition has a queue of its own before it, so that
// one without a leader holds up no other.
//
// It needs Kafka 1.0 or newer, and 2.8 for identities of topics.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/cursorfile"
	"github.com/ackmesh/ackmesh/storage/internal/gate"
)

// Log is an open log. It is a storage.Backend and a storage.Bounder,
// TopicAdmin, Trimmer, Fingerprinter and Checkpointer.
type Log struct {
	opts    Options
	links   *links
	meta    *metadata
	cursors *cursorfile.File
	states  *states
	queue   *queue

	gate *gate.Gate // of the calls; its Ending ends the goroutines
	wg   sync.WaitGroup
}

var (
	_ storage.Backend       = (*Log)(nil)
	_ storage.Bounder       = (*Log)(nil)
	_ storage.TopicAdmin    = (*Log)(nil)
	_ storage.Trimmer       = (*Log)(nil)
	_ storage.Fingerprinter = (*Log)(nil)
	_ storage.Checkpointer  = (*Log)(nil)
)

// Open opens a log. It asks the brokers once, so that wrong settings are told
// at once: a cluster of which no broker answers is an error that wraps
// storage.ErrUnavailable. It takes at most ctx and about half of
// RequestTimeout for each of Options.Brokers. Other errors: ErrInvalid,
// ErrLocked, ErrNewerFormat.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	cursors, err := cursorfile.Open(filepath.Clean(opts.Dir), cursorfile.Options{
		Interval: opts.CheckpointInterval, Logger: opts.Logger, Damaged: opts.Observe.CursorsDamaged, Failed: opts.Observe.CheckpointFailed,
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	l := &Log{opts: opts, gate: gate.New(errClosed()), links: newLinks(opts), cursors: cursors, states: newStates()}
	l.meta = newMetadata(opts, l.links)
	if _, err := l.meta.all(ctx); err != nil {
		l.links.close()
		return nil, errors.Join(fmt.Errorf("kafka: cannot use the brokers %q, check kafka.brokers, kafka.tls and kafka.sasl: %w", opts.Brokers, err), cursors.Close())
	}
	l.queue = newQueue(l)
	l.wg.Go(l.keep)
	return l, nil
}

// Name is "kafka".
func (l *Log) Name() string { return "kafka" }

// keep drops what is unused for long.
func (l *Log) keep() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-l.gate.Ending().Done():
			return
		case now := <-ticker.C:
			l.links.expire(now)
			l.states.expire(now)
		}
	}
}

// Close implements storage.Backend. What was appended is written, or fails
// after RequestTimeout at the latest.
func (l *Log) Close() error {
	first := l.gate.Shut()
	l.gate.End()
	l.gate.Wait()
	if !first {
		return nil
	}
	l.queue.close()
	l.wg.Wait()
	l.links.close()
	if err := l.cursors.Close(); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// enter begins a call; where it returns no error, leave must follow.
func (l *Log) enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	return l.gate.Enter(ctx)
}

func errClosed() error { return fmt.Errorf("kafka: %w", storage.ErrClosed) }

// outcome is the error of a call that has entered.
func (l *Log) outcome(caller context.Context, err error) error { return l.gate.Outcome(caller, err) }

// Checkpoint implements storage.Checkpointer.
func (l *Log) Checkpoint(ctx context.Context) error {
	if err := l.cursors.Checkpoint(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// Cursor implements storage.Backend.
func (l *Log) Cursor(topic, partition string) (next int64, ok bool) {
	next, id, ok := l.cursors.Get(topic, partition)
	if t := l.meta.known(topic); ok && t != nil && id != "" && t.id != "" && t.id != id {
		return 0, false // of a topic that was deleted
	}
	return next, ok
}

// Seek implements storage.Backend. Any offset from 0 on is taken; one outside
// the partition's bounds fails the next Poll.
func (l *Log) Seek(ctx context.Context, topic, partition string, next int64) error {
	inner, leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if next < 0 {
		return fmt.Errorf("kafka: topic %q partition %q: pull offset %d is below 0: %w", topic, partition, next, storage.ErrInvalid)
	}
	at, err := l.place(inner, topic, partition, time.Time{})
	if err != nil {
		return l.outcome(ctx, err)
	}
	l.cursors.Seek(topic, at.topicID, partition, next)
	return nil
}

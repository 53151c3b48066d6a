// Package rocketmq4 is a log on Apache RocketMQ 4 (and 5, through its remoting
// port), read by position only: nothing is committed at a broker, and no
// consumer group is made there.
//
// Reading pulls messages in the name of a group that every broker has built
// in, without committing, and waits at the broker for new ones. A partition is
// a queue of one broker, called broker:queue. Bounds come from the broker's
// master; a 0 that cannot be true is not believed. The first message of a time
// is found by halves over the messages themselves, for RocketMQ 4's own search
// gives the nearest one.
//
// RocketMQ gives topics no identity and messages no leader epoch. What was
// read is remembered by its hash, a few messages for each queue, and no pull is
// believed before the queue was known again by one of them: so a topic that was
// deleted and made again is noticed, and one that lost its end and grew anew.
//
// Writing sends batches, one under way at a time for each queue, so that order
// is kept; what is appended meanwhile is the next batch.
package rocketmq4

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
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Log is an open log. It is a storage.Backend and a storage.Bounder,
// TopicAdmin, Fingerprinter and Checkpointer.
type Log struct {
	opts    Options
	client  *remoting.Client
	meta    *metadata
	cursors *cursorfile.File
	ids     *identities
	states  *states
	queue   *queue

	creating chan struct{} // held while a topic is made or deleted

	gate *gate.Gate // of the calls; its Ending ends the goroutines
	wg   sync.WaitGroup
}

var (
	_ storage.Backend       = (*Log)(nil)
	_ storage.Bounder       = (*Log)(nil)
	_ storage.TopicAdmin    = (*Log)(nil)
	_ storage.Fingerprinter = (*Log)(nil)
	_ storage.Checkpointer  = (*Log)(nil)
)

// Open opens a log. It asks the name servers once, so that wrong settings are
// told at once: that none answers is an error that wraps
// storage.ErrUnavailable. Other errors: ErrInvalid, ErrLocked, ErrNewerFormat.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	client, err := remoting.New(remoting.Options{
		NameServers: opts.NameServers, Credentials: opts.Credentials, TLS: opts.TLS, RequestTimeout: opts.RequestTimeout, Dial: opts.dial,
	})
	if err != nil {
		return nil, fmt.Errorf("rocketmq4: %w: %w", storage.ErrInvalid, err)
	}
	l := &Log{opts: opts, gate: gate.New(errClosed()), client: client, states: newStates(), creating: make(chan struct{}, 1)}
	if err := l.openFiles(); err != nil {
		client.Close()
		return nil, err
	}
	l.meta = newMetadata(opts, client, l.ids)
	if _, err := client.Topics(ctx); err != nil {
		client.Close()
		err = fmt.Errorf("cannot use the name servers %q, check rocketmq4.nameservers and rocketmq4.tls: %w", opts.NameServers, explain(err))
		return nil, errors.Join(err, l.cursors.Close())
	}
	l.queue = newQueue(l)
	l.wg.Go(l.keep)
	return l, nil
}

// openFiles opens what is kept in the directory.
func (l *Log) openFiles() (err error) {
	dir := filepath.Clean(l.opts.Dir)
	l.cursors, err = cursorfile.Open(dir, cursorfile.Options{
		Interval: l.opts.CheckpointInterval, Logger: l.opts.Logger, Damaged: l.opts.Observe.CursorsDamaged, Failed: l.opts.Observe.CheckpointFailed,
	})
	if err != nil {
		return fmt.Errorf("rocketmq4: %w", err)
	}
	l.ids, err = openIdentities(dir, l.states, func(err error, usedBackup bool) {
		l.opts.Logger.Warn("rocketmq4: identities of topics could not be read", "error", err, "backup_used", usedBackup)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("rocketmq4: %w", err), l.cursors.Close())
	}
	return nil
}

// Name is "rocketmq4".
func (l *Log) Name() string { return "rocketmq4" }

// keep drops what is unused for long, and saves what topics are known by.
func (l *Log) keep() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	saved := time.Now()
	for {
		select {
		case <-l.gate.Ending().Done():
			return
		case now := <-ticker.C:
			l.states.expire(now)
			if every := l.opts.CheckpointInterval; every > 0 && now.Sub(saved) >= every {
				saved = now
				l.saveIdentities()
			}
		}
	}
}

func (l *Log) saveIdentities() {
	if err := l.ids.save(); err != nil {
		l.opts.Logger.Warn("rocketmq4: trying again", "error", err)
		l.opts.Observe.CheckpointFailed(err)
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
	l.client.Close()
	err := l.ids.save()
	if err = errors.Join(err, l.cursors.Close()); err != nil {
		return fmt.Errorf("rocketmq4: %w", err)
	}
	return nil
}

// enter begins a call; where it returns no error, leave must follow.
func (l *Log) enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	return l.gate.Enter(ctx)
}

// outcome is the error of a call that has entered.
func (l *Log) outcome(caller context.Context, err error) error { return l.gate.Outcome(caller, err) }

// Checkpoint implements storage.Checkpointer.
func (l *Log) Checkpoint(ctx context.Context) error {
	if err := l.cursors.Checkpoint(ctx); err != nil {
		return fmt.Errorf("rocketmq4: %w", err)
	}
	if err := l.ids.save(); err != nil {
		return fmt.Errorf("rocketmq4: %w", err)
	}
	return nil
}

// Cursor implements storage.Backend.
func (l *Log) Cursor(topic, partition string) (next int64, ok bool) {
	next, id, ok := l.cursors.Get(topic, partition)
	if ok && id != l.ids.current(topic) {
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
		return fmt.Errorf("rocketmq4: topic %q partition %q: pull offset %d is below 0: %w", topic, partition, next, storage.ErrInvalid)
	}
	at, err := l.place(inner, topic, partition, time.Time{})
	if err != nil {
		return l.outcome(ctx, err)
	}
	at.state.sought(next)
	l.cursors.Seek(topic, at.topicID, partition, next)
	return nil
}

// sought notes where reading goes on. A position that was corrected down to a
// maximum gives up what was known above it: what will be there is new.
func (p *partition) sought(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if high := p.high; next <= high && high < p.anchors.end() && high > 0 {
		p.anchors.cut(high)
		p.seen = high
	}
}

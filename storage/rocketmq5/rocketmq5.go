// Package rocketmq5 is a log on Apache RocketMQ 5: events are sent and popped
// through the proxies' gRPC, one consumer group for each subscriber, and acked
// there one by one. It is a storage.Popper and a storage.Acker.
//
// The proxies have no calls for the offsets of a group, for the bounds of a
// queue, or to read by position. Where Options.NameServers are given, these go
// through the remoting port of the brokers, and the log is a storage.GroupAdmin
// and a storage.Bounder too.
//
// Whatever the broker says of a message, its identity is the message id: a
// message that is handed out again by a normal group lies in the group's retry
// queue, at an offset of that.
package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/internal/gate"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// Log is an open log.
type Log struct {
	opts Options
	sess *session.Session
	port port // nil: no name servers are given
	send *sender
	ids  *idMaker
	lite *lites // nil: no name servers are given

	gate *gate.Gate // of the calls; its Ending ends the goroutines
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	groups  map[groupKey]*group
	placing map[groupKey]bool // new groups that are not placed in every queue yet
}

var (
	_ storage.Backend = (*Log)(nil)
	_ storage.Popper  = (*Log)(nil)
	_ storage.Acker   = (*Log)(nil)
)

// Open opens a log. It asks nobody: proxies and brokers that are away are told
// by the calls that need them, and are used when they are back. Errors:
// storage.ErrInvalid.
func Open(opts Options) (storage.Backend, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p, err := opts.remotingPort()
	if err != nil {
		return nil, err
	}
	l, err := open(opts, p)
	if err != nil {
		if p != nil {
			p.close()
		}
		return nil, err
	}
	if p == nil {
		return l, nil
	}
	return &Placed{Log: l}, nil
}

// open opens a log with a port, or none.
func open(opts Options, p port) (*Log, error) {
	sess, err := session.Open(session.Options{
		Endpoints: opts.Endpoints, TLS: opts.TLS, AccessKey: opts.AccessKey, SecretKey: opts.SecretKey, Namespace: opts.Namespace,
		RequestTimeout: opts.RequestTimeout, Dial: opts.dial, Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("rocketmq5: %w: %w", err, storage.ErrInvalid)
	}
	l := &Log{opts: opts, gate: gate.New(errClosed()), sess: sess, port: p, ids: newIDMaker(), groups: map[groupKey]*group{}, placing: map[groupKey]bool{}}
	l.send = newSender(l)
	if p != nil {
		if l.lite, err = newLites(l); err != nil {
			return nil, errors.Join(err, sess.Close())
		}
	}
	l.wg.Go(l.keep)
	return l, nil
}

// Name is "rocketmq5".
func (l *Log) Name() string { return "rocketmq5" }

const (
	// keepEvery is how often it is looked for groups that nobody pops.
	keepEvery = 15 * time.Second
	// idleAfter is for how long nobody must have popped for a group until its
	// client is closed. It is made again when somebody does.
	idleAfter = 2 * time.Minute
)

// keep closes the clients of groups that are not used.
func (l *Log) keep() {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.gate.Ending().Done():
			return
		case now := <-ticker.C:
			for _, g := range l.allGroups() {
				g.rest(now.Add(-idleAfter))
				g.sweep(now)
			}
			l.lite.rest(now)
		}
	}
}

// Close implements storage.Backend. What was appended is sent, or fails after
// RequestTimeout at the latest. What was popped comes again when its invisible
// time is over.
func (l *Log) Close() error {
	if !l.gate.Shut() {
		l.gate.Wait()
		l.wg.Wait()
		return nil
	}
	l.send.stop(l.opts.RequestTimeout)
	l.gate.End()
	l.gate.Wait()
	err := errors.Join(l.sess.Close(), l.lite.end())
	l.wg.Wait()
	if l.port != nil {
		l.port.close()
	}
	if err != nil {
		return fmt.Errorf("rocketmq5: %w", err)
	}
	return nil
}

// enter begins a call; where it returns no error, leave must follow.
func (l *Log) enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	return l.gate.Enter(ctx)
}

func errClosed() error { return fmt.Errorf("rocketmq5: %w", storage.ErrClosed) }

// outcome is the error of a call that has entered.
func (l *Log) outcome(caller context.Context, err error) error { return l.gate.Outcome(caller, err) }

// Cursor implements storage.Backend: a log that hands records out has no pull
// offsets.
func (l *Log) Cursor(string, string) (next int64, ok bool) { return 0, false }

// Seek implements storage.Backend: it fails with storage.ErrUnsupported.
func (l *Log) Seek(_ context.Context, topic, partition string, _ int64) error {
	return fmt.Errorf("rocketmq5: topic %q partition %q: there is no pull offset to set, groups are moved instead: %w", topic, partition, storage.ErrUnsupported)
}

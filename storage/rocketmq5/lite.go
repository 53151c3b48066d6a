package rocketmq5

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// isParent tells whether a topic is one of type LITE.
func isParent(r *session.Route) bool { return slices.Contains(r.Types, v2.MessageType_LITE) }

// planLite makes the message that an event becomes in a lite topic.
func (l *Log) planLite(parent, lite string, e *storage.Event, route *session.Route, id string, now time.Time) (v2.MessageType, session.Outgoing, error) {
	if !isParent(route) {
		return 0, session.Outgoing{ID: id}, l.toMakeParent(parent, typesOf(route))
	}
	view := frame.View(e.Frame)
	m := session.Outgoing{ID: id, Born: now, Body: e.Frame, Properties: properties(view), Keys: keysOf(view), Lite: lite}
	due, delayed, err := dueOf(view)
	if err == nil && delayed && due.After(now) {
		err = fmt.Errorf("%s is in the future, and lite topics deliver at once: leave it out: %w", frame.AttrDeliverTime, storage.ErrInvalid)
	}
	if err != nil {
		err = fmt.Errorf("rocketmq5: lite topic %q of %q: %w", lite, parent, err)
	}
	return v2.MessageType_LITE, m, err
}

// toMakeParent says what a parent of lite topics must be.
func (l *Log) toMakeParent(parent, types string) error {
	return fmt.Errorf("rocketmq5: topic %q is for messages of type %s, lite topics need a parent of type LITE: mqadmin updateTopic -n '%s' -c CLUSTER -t %s -r 8 -w 8 -a +message.type=LITE: %w",
		parent, types, l.opts.nameServerArg(), parent, storage.ErrTopicType)
}

// LiteParent implements storage.Liter. Parents are never made.
func (p *Placed) LiteParent(ctx context.Context, parent string) (storage.Topic, error) {
	inner, leave, err := p.enter(ctx)
	if err != nil {
		return storage.Topic{}, err
	}
	defer leave()
	route, err := p.parent(inner, parent)
	if err != nil {
		return storage.Topic{}, p.outcome(ctx, err)
	}
	return describe(route), nil
}

// parent describes a parent as it was told last.
func (l *Log) parent(ctx context.Context, parent string) (*session.Route, error) {
	if err := checkTopic(parent); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	route, err := l.sess.Route(ctx, parent)
	switch {
	case err != nil && (isNoTopic(err) || errors.Is(err, storage.ErrTopicNotFound)):
		return nil, fmt.Errorf("rocketmq5: topic %q is missing; create it: mqadmin updateTopic -n '%s' -c CLUSTER -t %s -r 8 -w 8 -a +message.type=LITE: %w: %w",
			parent, l.opts.nameServerArg(), parent, storage.ErrTopicNotFound, err)
	case err != nil:
		return nil, explain(fmt.Sprintf("topic %q", parent), err)
	case !isParent(route):
		return nil, l.toMakeParent(parent, typesOf(route))
	}
	return route, nil
}

// EnsureLite implements storage.Liter. The broker makes a lite topic with its
// first message, so only what could keep it from that is looked at.
func (p *Placed) EnsureLite(ctx context.Context, parent, lite string) error {
	if err := storage.CheckLite("lite", lite); err != nil {
		return fmt.Errorf("rocketmq5: %w", err)
	}
	_, err := p.LiteParent(ctx, parent)
	return err
}

// AppendLite implements storage.Liter. Messages of a lite topic are sent one
// after another, each in a call of its own, since brokers put the messages of a
// batch into no lite topic. Proxies place all messages of a lite topic on one
// queue of the parent. Their offset is storage.OffsetUntold: what is answered is
// a place in the parent. All else is as with Append.
func (p *Placed) AppendLite(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
	if err := storage.CheckLite("lite", lite); err != nil {
		return fmt.Errorf("rocketmq5: %w", err)
	}
	inner, leave, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkTopic(parent); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrTopicNotFound, err)
	}
	c, err := p.newCall(parent, events, done)
	if err != nil {
		return err
	}
	c.lite = lite
	return p.put(ctx, inner, c)
}

// PollLite implements storage.Liter. A broker that does not know a lite topic
// answers 0 for its bounds, also where it has expired; then there is nothing,
// wherever reading begins.
func (p *Placed) PollLite(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	req.Default(defaultPollRecords, defaultPollBytes)
	what := fmt.Sprintf("read of lite topic %q of %q at %d", req.Partition, req.Topic, req.Start)
	if req.Start < 0 {
		return fmt.Errorf("rocketmq5: %s: that is no offset: %w", what, storage.ErrInvalid)
	}
	if err := storage.CheckLite("lite", req.Partition); err != nil {
		return fmt.Errorf("rocketmq5: %w", err)
	}
	err := p.with(ctx, what, func(ctx context.Context) error {
		if _, err := p.parent(ctx, req.Topic); err != nil {
			return err
		}
		res, err := p.lite.read(ctx, req)
		if err != nil {
			return err
		}
		if len(res.list) == 0 {
			batch.Start, batch.Next = req.Start, res.next
			return nil
		}
		return p.fill(req, res.list, batch)
	})
	if err != nil {
		batch.Reset()
	}
	return err
}

// LiteBounds implements storage.Liter.
func (p *Placed) LiteBounds(ctx context.Context, parent, lite string) (low, high int64, err error) {
	if err := storage.CheckLite("lite", lite); err != nil {
		return 0, 0, fmt.Errorf("rocketmq5: %w", err)
	}
	err = p.with(ctx, fmt.Sprintf("bounds of lite topic %q of %q", lite, parent), func(ctx context.Context) error {
		if _, err := p.parent(ctx, parent); err != nil {
			return err
		}
		_, low, high, err = p.lite.bounds(ctx, parent, lite)
		return err
	})
	return low, high, err
}

// AwaitLite implements storage.Liter: the queues of the parent are watched, in
// which the messages of all its lite topics lie.
func (p *Placed) AwaitLite(parent, lite string, next int64, arrived func()) (stop func()) {
	return p.lite.await(parent, lite, next, arrived)
}

// litePartition is how the pull offset of a lite topic is named in the file; it
// has one queue.
func litePartition(lite string) string { return lite + "/0" }

// LiteCursor implements storage.Liter.
func (p *Placed) LiteCursor(parent, lite string) (next int64, ok bool) {
	next, _, ok = p.lite.cursors.Get(parent, litePartition(lite))
	return next, ok
}

// SeekLite implements storage.Liter. Whether there is such a parent is not looked
// at.
func (p *Placed) SeekLite(parent, lite string, next int64) error {
	_, leave, err := p.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	if next < 0 {
		return fmt.Errorf("rocketmq5: lite topic %q of %q: pull offset %d is below 0: %w", lite, parent, next, storage.ErrInvalid)
	}
	p.lite.cursors.Seek(parent, "", litePartition(lite), next)
	return nil
}

// ForgetLite implements storage.Liter.
func (p *Placed) ForgetLite(parent, lite string) {
	p.lite.cursors.ForgetPartition(parent, litePartition(lite))
}

// Checkpoint implements storage.Checkpointer.
func (p *Placed) Checkpoint(ctx context.Context) error {
	_, leave, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return p.lite.cursors.Checkpoint(ctx)
}

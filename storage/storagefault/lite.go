package storagefault

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

// liter is the lite topics of a log. Their calls are those of the ordinary
// operations, with the parent as Call.Topic and the lite topic as
// Call.Partition, Append's too.
type liter struct {
	node
	inner storage.Liter
}

func (n liter) LiteParent(ctx context.Context, parent string) (t storage.Topic, err error) {
	err = n.through(ctx, Call{Op: EnsureTopic, Topic: parent}, func() (err error) {
		t, err = n.inner.LiteParent(ctx, parent)
		return err
	})
	return t, err
}

func (n liter) EnsureLite(ctx context.Context, parent, lite string) error {
	return n.through(ctx, Call{Op: EnsureTopic, Topic: parent, Partition: lite}, func() error {
		return n.inner.EnsureLite(ctx, parent, lite)
	})
}

func (n liter) AppendLite(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
	if err := n.suffer(ctx, n.choose(Call{Op: Append, Topic: parent, Partition: lite})); err != nil {
		return err
	}
	hooks := n.hooks.Load()
	return n.inner.AppendLite(ctx, parent, lite, events, func(results []storage.Appended, err error) {
		n.report(hooks, parent, results, err, done)
	})
}

func (n liter) PollLite(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	call := Call{Op: Poll, Topic: req.Topic, Partition: req.Partition, Start: req.Start}
	err := n.through(ctx, call, func() error { return n.inner.PollLite(ctx, req, batch) })
	if err != nil {
		batch.Reset()
	}
	return err
}

func (n liter) LiteBounds(ctx context.Context, parent, lite string) (low, high int64, err error) {
	err = n.through(ctx, Call{Op: Bounds, Topic: parent, Partition: lite}, func() (err error) {
		low, high, err = n.inner.LiteBounds(ctx, parent, lite)
		return err
	})
	return low, high, err
}

// AwaitLite has no faults: it fails by calling arrived for nothing.
func (n liter) AwaitLite(parent, lite string, next int64, arrived func()) (stop func()) {
	return n.inner.AwaitLite(parent, lite, next, arrived)
}

func (n liter) LiteCursor(parent, lite string) (next int64, ok bool) {
	if errOf(n.choose(Call{Op: Cursor, Topic: parent, Partition: lite})) != nil {
		return 0, false
	}
	return n.inner.LiteCursor(parent, lite)
}

// SeekLite does not wait: of the faults only those with an error count.
func (n liter) SeekLite(parent, lite string, next int64) error {
	if err := errOf(n.choose(Call{Op: Seek, Topic: parent, Partition: lite})); err != nil {
		return err
	}
	return n.inner.SeekLite(parent, lite, next)
}

func (n liter) ForgetLite(parent, lite string) { n.inner.ForgetLite(parent, lite) }

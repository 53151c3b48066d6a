package fakepop

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

var _ storage.Liter = (*Backend)(nil)

// LiteParent describes a parent of lite topics. Lite topics are those of the
// memory log: read by position, beside the groups.
func (b *Backend) LiteParent(ctx context.Context, parent string) (t storage.Topic, err error) {
	err = b.with(func(l *memory.Backend) error {
		t, err = l.LiteParent(ctx, parent)
		return err
	})
	return t, err
}

// EnsureLite makes a lite topic unless it is there.
func (b *Backend) EnsureLite(ctx context.Context, parent, lite string) error {
	return b.with(func(l *memory.Backend) error { return l.EnsureLite(ctx, parent, lite) })
}

// AppendLite appends to a lite topic.
func (b *Backend) AppendLite(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
	return b.with(func(l *memory.Backend) error { return l.AppendLite(ctx, parent, lite, events, done) })
}

// PollLite reads a lite topic by position.
func (b *Backend) PollLite(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	return b.with(func(l *memory.Backend) error { return l.PollLite(ctx, req, batch) })
}

// LiteBounds returns the bounds of a lite topic.
func (b *Backend) LiteBounds(ctx context.Context, parent, lite string) (low, high int64, err error) {
	err = b.with(func(l *memory.Backend) error {
		low, high, err = l.LiteBounds(ctx, parent, lite)
		return err
	})
	return low, high, err
}

// AwaitLite waits for a record of a lite topic.
func (b *Backend) AwaitLite(parent, lite string, next int64, arrived func()) (stop func()) {
	err := b.with(func(l *memory.Backend) error {
		stop = l.AwaitLite(parent, lite, next, arrived)
		return nil
	})
	if err != nil { // who reads it learns why
		arrived()
		return func() {}
	}
	return stop
}

// LiteCursor is the pull offset of a lite topic.
func (b *Backend) LiteCursor(parent, lite string) (next int64, ok bool) {
	err := b.with(func(l *memory.Backend) error {
		next, ok = l.LiteCursor(parent, lite)
		return nil
	})
	return next, ok && err == nil
}

// SeekLite sets the pull offset of a lite topic.
func (b *Backend) SeekLite(parent, lite string, next int64) error {
	return b.with(func(l *memory.Backend) error { return l.SeekLite(parent, lite, next) })
}

// ForgetLite drops the pull offset of a lite topic.
func (b *Backend) ForgetLite(parent, lite string) {
	_ = b.with(func(l *memory.Backend) error { // of a log that is closed nothing is kept here
		l.ForgetLite(parent, lite)
		return nil
	})
}
